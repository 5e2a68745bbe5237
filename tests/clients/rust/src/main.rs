//! What users of lapin do first. `clients SCENARIO URL NAME` runs one scenario, with NAME before the names of all that
//! it declares, and prints what it saw as one line of JSON.

mod channels;
mod guarantees;
mod recovery;
mod tutorials;

use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties, Consumer, ExchangeKind, Result,
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// What a scenario is given: the broker's address, a connection to it, a channel of it, and a name of its own.
struct Scene {
    url: String,
    connection: Connection,
    channel: Channel,
    name: String,
}

impl Scene {
    async fn open(url: &str, name: &str) -> Result<Scene> {
        let connection = Connection::connect(url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        Ok(Scene {
            url: url.into(),
            connection,
            channel,
            name: name.into(),
        })
    }

    async fn queue(&self, name: &str) -> Result<String> {
        declare(&self.channel, name, QueueDeclareOptions::default()).await
    }

    /// A queue that the broker names and that goes with the connection, bound by some keys.
    async fn bound(&self, exchange: &str, keys: &[&str]) -> Result<String> {
        let queue = declare(&self.channel, "", QueueDeclareOptions::exclusive()).await?;
        for key in keys {
            bind(&self.channel, &queue, exchange, key).await?;
        }
        Ok(queue)
    }

    /// An exchange that goes with the last queue that is bound to it.
    async fn exchange(&self, kind: ExchangeKind) -> Result<()> {
        let options = ExchangeDeclareOptions {
            auto_delete: true,
            ..Default::default()
        };
        self.channel
            .exchange_declare(
                self.name.as_str().into(),
                kind,
                options,
                FieldTable::default(),
            )
            .await
    }

    async fn publish(&self, exchange: &str, key: &str, body: &[u8]) -> Result<()> {
        publish(
            &self.channel,
            exchange,
            key,
            body,
            BasicProperties::default(),
        )
        .await
    }

    /// The bodies of the next messages of a queue.
    async fn texts(&self, queue: &str, count: usize) -> Result<Vec<String>> {
        let mut consumer = consume(&self.channel, queue, true).await?;
        let mut seen = Vec::new();
        while seen.len() < count {
            seen.push(text(&next(&mut consumer).await?));
        }
        Ok(seen)
    }
}

async fn declare(channel: &Channel, name: &str, options: QueueDeclareOptions) -> Result<String> {
    let queue = channel
        .queue_declare(name.into(), options, FieldTable::default())
        .await?;
    Ok(queue.name().as_str().into())
}

async fn bind(channel: &Channel, queue: &str, exchange: &str, key: &str) -> Result<()> {
    let options = QueueBindOptions::default();
    channel
        .queue_bind(
            queue.into(),
            exchange.into(),
            key.into(),
            options,
            FieldTable::default(),
        )
        .await
}

async fn publish(
    channel: &Channel,
    exchange: &str,
    key: &str,
    body: &[u8],
    properties: BasicProperties,
) -> Result<()> {
    let options = BasicPublishOptions::default();
    channel
        .basic_publish(exchange.into(), key.into(), options, body, properties)
        .await?
        .await?;
    Ok(())
}

async fn consume(channel: &Channel, queue: &str, no_ack: bool) -> Result<Consumer> {
    let options = BasicConsumeOptions {
        no_ack,
        ..Default::default()
    };
    channel
        .basic_consume(queue.into(), "".into(), options, FieldTable::default())
        .await
}

async fn next(consumer: &mut Consumer) -> Result<Delivery> {
    let delivery = tokio::time::timeout(PATIENCE, consumer.next()).await;
    delivery
        .expect("no delivery came")
        .expect("the consumer has ended")
}

fn text(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.data).into_owned()
}

async fn run(scenario: &str, url: &str, name: &str) -> Result<Value> {
    if scenario == "recovery" {
        return recovery::recovery(url, name).await;
    }
    let scene = Scene::open(url, name).await?;
    let result = match scenario {
        "hello" => tutorials::hello(&scene).await?,
        "work_queues" => tutorials::work_queues(&scene).await?,
        "publish_subscribe" => tutorials::publish_subscribe(&scene).await?,
        "routing" => tutorials::routing(&scene).await?,
        "topics" => tutorials::topics(&scene).await?,
        "rpc" => tutorials::rpc(&scene).await?,
        "confirms" => guarantees::confirms(&scene).await?,
        "errors" => guarantees::errors(&scene).await?,
        "bodies" => guarantees::bodies(&scene).await?,
        "properties" => guarantees::properties(&scene).await?,
        "heartbeats" => guarantees::heartbeats(&scene).await?,
        "get" => channels::get(&scene).await?,
        "transactions" => channels::transactions(&scene).await?,
        "cancelled" => channels::cancelled(&scene).await?,
        "closed" => channels::closed(&scene).await?,
        _ => panic!("no scenario {scenario}"),
    };
    // A channel that went out of scope may still be closing, which this client takes for an error here.
    let _ = scene.connection.close(200, "done".into()).await;
    Ok(result)
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    println!(
        "{}",
        run(&arguments[1], &arguments[2], &arguments[3]).await?
    );
    Ok(())
}
