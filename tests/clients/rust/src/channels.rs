//! What happens to channels and consumers: fetched messages, transactions, cancellations, closes.

use futures_util::StreamExt;
use lapin::options::*;
use lapin::types::ShortString;
use lapin::{BasicProperties, Result};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{PATIENCE, Scene, consume, guarantees::refusal, publish, text};

async fn delete(scene: &Scene) -> Result<u32> {
    let name = ShortString::from(scene.name.as_str());
    scene
        .channel
        .queue_delete(name, QueueDeleteOptions::default())
        .await
}

/// Single messages are fetched, given back, acknowledged.
pub async fn get(scene: &Scene) -> Result<Value> {
    let queue = ShortString::from(scene.queue(&scene.name).await?);
    let channel = &scene.channel;
    scene.publish("", &scene.name, b"one").await?;
    scene.publish("", &scene.name, b"two").await?;
    let manual = BasicGetOptions::default();
    let automatic = BasicGetOptions { no_ack: true };
    let first = channel
        .basic_get(queue.clone(), manual)
        .await?
        .expect("one");
    let requeue = BasicNackOptions {
        requeue: true,
        multiple: false,
    };
    first.nack(requeue).await?;
    let again = channel
        .basic_get(queue.clone(), manual)
        .await?
        .expect("one again");
    again.ack(BasicAckOptions::default()).await?;
    let second = channel
        .basic_get(queue.clone(), automatic)
        .await?
        .expect("two");
    let empty = channel.basic_get(queue.clone(), automatic).await?.is_none();
    scene.publish("", &scene.name, b"three").await?;
    let purged = channel
        .queue_purge(queue, QueuePurgeOptions::default())
        .await?;
    delete(scene).await?;
    Ok(json!({
        "first": [text(&first), first.message_count],
        "again": [text(&again), again.redelivered],
        "second": text(&second),
        "empty": empty,
        "purged": purged,
    }))
}

pub async fn transactions(scene: &Scene) -> Result<Value> {
    let queue = scene.queue(&scene.name).await?;
    let channel = &scene.channel;
    channel.tx_select().await?;
    scene.publish("", &queue, b"rolled back").await?;
    channel.tx_rollback().await?;
    scene.publish("", &queue, b"committed").await?;
    channel.tx_commit().await?;
    let message = channel
        .basic_get(queue.into(), BasicGetOptions::default())
        .await?
        .expect("one");
    message.ack(BasicAckOptions::default()).await?;
    channel.tx_commit().await?;
    Ok(json!({"received": text(&message), "left": delete(scene).await?}))
}

/// A consumer is told that its queue is gone.
pub async fn cancelled(scene: &Scene) -> Result<Value> {
    let queue = scene.queue(&scene.name).await?;
    let channel = scene.connection.create_channel().await?;
    let mut consumer = consume(&channel, &queue, true).await?;
    delete(scene).await?;
    let ended = matches!(timeout(PATIENCE, consumer.next()).await, Ok(None));
    Ok(json!({"cancelled": ended}))
}

/// A message for an exchange that is not there closes the channel, some time after it was published.
pub async fn closed(scene: &Scene) -> Result<Value> {
    let channel = scene.connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    let gone = format!("{}-gone", scene.name);
    let outcome = publish(&channel, &gone, "", b"lost", BasicProperties::default()).await;
    Ok(json!({"closed": refusal(scene, outcome)}))
}
