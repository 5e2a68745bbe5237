//! Confirms, errors, what a message carries, and heartbeats.

use std::time::Duration;

use lapin::options::*;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Confirmation, ErrorKind, Result};
use serde_json::{Value, json};

use crate::{Scene, consume, declare, next};

pub async fn confirms(scene: &Scene) -> Result<Value> {
    let queue = scene.queue(&scene.name).await?;
    scene
        .channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let mut pending = Vec::new();
    for _ in 0..100 {
        pending.push(send(scene, &queue).await?);
    }
    let mut confirmed = 0;
    for confirm in pending {
        confirmed += u32::from(confirm.await?.is_ack());
    }
    let unroutable = send(scene, &format!("{}-nowhere", scene.name))
        .await?
        .await?;
    let is_confirmed = unroutable.is_ack();
    let returned = unroutable
        .take_message()
        .expect("a mandatory message is returned");
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    arguments.insert(
        "x-overflow".into(),
        AMQPValue::LongString("reject-publish".into()),
    );
    let full = format!("{}-full", scene.name);
    scene
        .channel
        .queue_declare(
            full.as_str().into(),
            QueueDeclareOptions::exclusive(),
            arguments,
        )
        .await?;
    let taken: Confirmation = send(scene, &full).await?.await?;
    let refused: Confirmation = send(scene, &full).await?.await?;
    let messages = scene
        .channel
        .queue_delete(queue.as_str().into(), QueueDeleteOptions::default())
        .await?;
    Ok(json!({
        "confirmed": confirmed,
        "messages": messages,
        "unroutable confirmed": is_confirmed,
        "returned": [returned.reply_code, returned.reply_text.as_str()],
        "full": [taken.is_ack(), refused.is_ack()],
    }))
}

async fn send(scene: &Scene, key: &str) -> Result<lapin::PublisherConfirm> {
    let options = BasicPublishOptions {
        mandatory: true,
        ..Default::default()
    };
    let persistent = BasicProperties::default().with_delivery_mode(2);
    scene
        .channel
        .basic_publish("".into(), key.into(), options, b"message", persistent)
        .await
}

/// The broker closes the channel and says why; the connection stays.
pub async fn errors(scene: &Scene) -> Result<Value> {
    scene.queue(&scene.name).await?;
    let gone = format!("{}-gone", scene.name);
    let channel = scene.connection.create_channel().await?;
    let missing = declare(&channel, &gone, QueueDeclareOptions::default().passive()).await;
    let channel = scene.connection.create_channel().await?;
    let inequivalent = declare(&channel, &scene.name, QueueDeclareOptions::durable()).await;
    let channel = scene.connection.create_channel().await?;
    let exchange = crate::bind(&channel, &scene.name, &gone, "").await;
    scene
        .channel
        .queue_delete(scene.name.as_str().into(), QueueDeleteOptions::default())
        .await?;
    Ok(json!({
        "missing": refusal(scene, missing),
        "inequivalent": refusal(scene, inequivalent),
        "exchange": refusal(scene, exchange),
    }))
}

pub fn refusal<T>(scene: &Scene, outcome: Result<T>) -> Value {
    let error = outcome.err().expect("refused");
    let ErrorKind::ProtocolError(refused) = error.kind() else {
        panic!("not refused but {error}")
    };
    json!([
        refused.get_id(),
        refused.get_message().as_str().replace(&scene.name, "NAME")
    ])
}

/// Bodies of no frame, of one and of many.
pub async fn bodies(scene: &Scene) -> Result<Value> {
    let queue = scene.queue(&scene.name).await?;
    for size in [0, 1, 131_064, 131_065, 3_000_000] {
        scene.publish("", &queue, &vec![b'x'; size]).await?;
    }
    let sizes: Vec<usize> = scene
        .texts(&queue, 5)
        .await?
        .iter()
        .map(String::len)
        .collect();
    Ok(json!({"sizes": sizes}))
}

/// Everything that a message can carry comes back as it was sent.
pub async fn properties(scene: &Scene) -> Result<Value> {
    let mut table = FieldTable::default();
    table.insert("inner".into(), AMQPValue::LongString("value".into()));
    let list = vec![AMQPValue::LongInt(1), AMQPValue::LongString("two".into())];
    let mut headers = FieldTable::default();
    headers.insert("text".into(), AMQPValue::LongString("text".into()));
    headers.insert("int".into(), AMQPValue::LongInt(-7));
    headers.insert("long".into(), AMQPValue::LongLongInt(1 << 40));
    headers.insert("flag".into(), AMQPValue::Boolean(true));
    headers.insert("double".into(), AMQPValue::Double(0.5));
    headers.insert("octets".into(), AMQPValue::ByteArray(vec![0, 255].into()));
    headers.insert("time".into(), AMQPValue::Timestamp(1_600_000_000));
    headers.insert("nothing".into(), AMQPValue::Void);
    headers.insert("list".into(), AMQPValue::FieldArray(list.into()));
    headers.insert("table".into(), AMQPValue::FieldTable(table));
    let sent = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("identity".into())
        .with_delivery_mode(2)
        .with_priority(3)
        .with_correlation_id("correlation".into())
        .with_reply_to("reply".into())
        .with_expiration("60000".into())
        .with_message_id("message".into())
        .with_type("type".into())
        .with_timestamp(1_700_000_000)
        .with_user_id("guest".into())
        .with_app_id("application".into())
        .with_headers(headers);
    let queue = scene.queue(&scene.name).await?;
    crate::publish(&scene.channel, "", &queue, b"{}", sent.clone()).await?;
    let got = next(&mut consume(&scene.channel, &queue, true).await?).await?;
    Ok(json!({"equal": got.properties == sent}))
}

/// Idle for several intervals: the client's own watch over the broker's heartbeats does not end the connection.
pub async fn heartbeats(scene: &Scene) -> Result<Value> {
    let idle = Scene::open(&format!("{}?heartbeat=2", scene.url), &scene.name).await?;
    let queue = declare(&idle.channel, "", QueueDeclareOptions::exclusive()).await?;
    tokio::time::sleep(Duration::from_secs(9)).await;
    let open = idle.connection.status().connected();
    idle.publish("", &queue, b"still there").await?;
    let received = idle.texts(&queue, 1).await?;
    let interval = idle.connection.configuration().heartbeat();
    idle.connection.close(200, "done".into()).await?;
    Ok(json!({"interval": interval, "open": open, "received": received}))
}
