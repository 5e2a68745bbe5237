//! Publishes with confirms, again until confirmed, while the driver disturbs the broker: it begins when it reads
//! "ready", and writes a line when the broker serves again. The client reconnects and restores its topology by itself.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ExchangeKind, Result,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{PATIENCE, bind, consume, declare, text};

const SENT_AFTER: u32 = 20;

type Seen = Arc<Mutex<HashSet<String>>>;

pub async fn recovery(url: &str, name: &str) -> Result<Value> {
    let properties = ConnectionProperties::default()
        .enable_auto_recover()
        .configure_backoff(|backoff| {
            backoff
                .with_min_delay(Duration::from_millis(100))
                .with_max_delay(Duration::from_millis(500))
                .with_max_times(400)
        });
    let connection = Connection::connect(&format!("{url}?heartbeat=2"), properties).await?;
    let recoveries = Arc::new(AtomicU32::new(0));
    let mut events = connection.events_listener();
    let counted = recoveries.clone();
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if matches!(event, lapin::Event::Connected) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    let consuming = connection.create_channel().await?;
    let options = ExchangeDeclareOptions {
        durable: true,
        ..Default::default()
    };
    consuming
        .exchange_declare(
            name.into(),
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        )
        .await?;
    declare(&consuming, name, QueueDeclareOptions::durable()).await?;
    bind(&consuming, name, name, "a.#").await?;
    // With a name of ours: this client restores a queue by its name, and one that the broker gave cannot be asked for.
    let exclusive_queue = declare(
        &consuming,
        &format!("{name}-exclusive"),
        QueueDeclareOptions::exclusive(),
    )
    .await?;
    bind(&consuming, &exclusive_queue, name, "#").await?;
    let durable = keep(&consuming, consume(&consuming, name, false).await?);
    let exclusive = keep(
        &consuming,
        consume(&consuming, &exclusive_queue, false).await?,
    );

    let confirmed = publish_throughout(&connection, name).await?;
    let deadline = Instant::now() + PATIENCE;
    let mut missing = 0;
    for body in &confirmed {
        missing += u32::from(!received(&durable, body, deadline).await);
    }
    let exclusive_saw = received(&exclusive, confirmed.last().expect("some"), deadline).await;
    consuming
        .queue_delete(name.into(), QueueDeleteOptions::default())
        .await?;
    consuming
        .exchange_delete(name.into(), ExchangeDeleteOptions::default())
        .await?;
    let recovered = recoveries.load(Ordering::SeqCst) > 0;
    Ok(
        json!({"recovered": recovered, "after": SENT_AFTER, "missing": missing, "exclusive": exclusive_saw}),
    )
}

/// Notes what comes. An error is what this client gives a consumer while its connection is away.
fn keep(channel: &Channel, mut consumer: Consumer) -> Seen {
    let seen = Seen::default();
    let (bodies, channel) = (seen.clone(), channel.clone());
    tokio::spawn(async move {
        while let Some(delivery) = consumer.next().await {
            match delivery {
                Ok(delivery) => {
                    bodies
                        .lock()
                        .expect("never poisoned")
                        .insert(text(&delivery));
                    // One from before the connection was lost cannot be acknowledged; it comes again.
                    let _ = delivery.ack(BasicAckOptions::default()).await;
                }
                Err(error) => channel.wait_for_recovery(error).await?,
            }
        }
        Ok::<(), lapin::Error>(())
    });
    seen
}

/// What was confirmed: some before the disturbance, whatever went meanwhile, and as many after it as agreed.
async fn publish_throughout(connection: &Connection, name: &str) -> Result<Vec<String>> {
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let calm = Arc::new(AtomicBool::new(false));
    let told = calm.clone();
    std::thread::spawn(move || {
        std::io::stdin()
            .read_line(&mut String::new())
            .expect("stdin is open");
        told.store(true, Ordering::SeqCst);
    });
    let (mut confirmed, mut after) = (Vec::new(), 0);
    while after < SENT_AFTER {
        let body = confirmed.len().to_string();
        let is_after = calm.load(Ordering::SeqCst);
        while !published(&channel, name, &body).await? {
            sleep(Duration::from_millis(50)).await;
        }
        confirmed.push(body);
        after += u32::from(is_after);
        if confirmed.len() == 20 {
            println!("{}", json!({"event": "ready"}));
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(confirmed)
}

async fn published(channel: &Channel, exchange: &str, body: &str) -> Result<bool> {
    let options = BasicPublishOptions {
        mandatory: true,
        ..Default::default()
    };
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let sent = async {
        channel
            .basic_publish(
                exchange.into(),
                "a.b".into(),
                options,
                body.as_bytes(),
                persistent,
            )
            .await?
            .await
    };
    match timeout(PATIENCE, sent).await {
        Ok(Ok(confirmation)) => Ok(confirmation.is_ack() && confirmation.take_message().is_none()),
        Ok(Err(error)) => {
            eprintln!("{body}: {error:?}");
            match timeout(3 * PATIENCE, channel.wait_for_recovery(error)).await {
                Ok(outcome) => outcome.map(|()| false),
                Err(_) => panic!("the client does not come back"),
            }
        }
        Err(_) => Ok(false),
    }
}

async fn received(seen: &Seen, body: &str, deadline: Instant) -> bool {
    loop {
        let there = seen.lock().expect("never poisoned").contains(body);
        if there || Instant::now() > deadline {
            return there;
        }
        sleep(Duration::from_millis(10)).await;
    }
}
