//! RabbitMQ's six tutorials.

use futures_util::StreamExt;
use lapin::options::*;
use lapin::{BasicProperties, Channel, Consumer, ExchangeKind, Result};
use serde_json::{Value, json};

use crate::{Scene, consume, declare, next, publish, text};

pub async fn hello(scene: &Scene) -> Result<Value> {
    let queue = scene.queue(&scene.name).await?;
    scene.publish("", &queue, b"Hello World!").await?;
    Ok(json!({"received": scene.texts(&queue, 1).await?}))
}

/// The first worker takes one task and ends without an acknowledgement; the second does everything.
pub async fn work_queues(scene: &Scene) -> Result<Value> {
    declare(&scene.channel, &scene.name, QueueDeclareOptions::durable()).await?;
    let (first, mut held) = worker(scene).await?;
    for number in 0..6 {
        let task = format!("task {number}");
        let persistent = BasicProperties::default().with_delivery_mode(2);
        publish(&scene.channel, "", &scene.name, task.as_bytes(), persistent).await?;
    }
    let holding = text(&next(&mut held).await?);
    let (_second, mut tasks) = worker(scene).await?;
    let (mut done, mut redelivered) = (Vec::new(), Vec::new());
    while done.len() < 6 {
        let task = next(&mut tasks).await?;
        done.push(text(&task));
        if task.redelivered {
            redelivered.push(text(&task));
        }
        task.ack(BasicAckOptions::default()).await?;
        if done.len() == 5 {
            first.close(200, "done".into()).await?;
        }
    }
    scene
        .channel
        .queue_delete(scene.name.as_str().into(), QueueDeleteOptions::default())
        .await?;
    Ok(json!({"held": holding, "done": done, "redelivered": redelivered}))
}

async fn worker(scene: &Scene) -> Result<(Channel, Consumer)> {
    let channel = scene.connection.create_channel().await?;
    channel.basic_qos(1, BasicQosOptions::default()).await?;
    let tasks = consume(&channel, &scene.name, false).await?;
    Ok((channel, tasks))
}

pub async fn publish_subscribe(scene: &Scene) -> Result<Value> {
    scene.exchange(ExchangeKind::Fanout).await?;
    let first = scene.bound(&scene.name, &[""]).await?;
    let second = scene.bound(&scene.name, &[""]).await?;
    scene.publish(&scene.name, "", b"info: one").await?;
    scene.publish(&scene.name, "", b"info: two").await?;
    Ok(json!({"first": scene.texts(&first, 2).await?, "second": scene.texts(&second, 2).await?}))
}

pub async fn routing(scene: &Scene) -> Result<Value> {
    scene.exchange(ExchangeKind::Direct).await?;
    let all = scene
        .bound(&scene.name, &["info", "warning", "error"])
        .await?;
    let errors = scene.bound(&scene.name, &["error"]).await?;
    for severity in ["info", "error", "debug", "warning"] {
        scene
            .publish(&scene.name, severity, severity.as_bytes())
            .await?;
    }
    Ok(json!({"all": scene.texts(&all, 3).await?, "errors": scene.texts(&errors, 1).await?}))
}

pub async fn topics(scene: &Scene) -> Result<Value> {
    scene.exchange(ExchangeKind::Topic).await?;
    let all = scene.bound(&scene.name, &["#"]).await?;
    let kernel = scene.bound(&scene.name, &["kern.*"]).await?;
    let critical = scene.bound(&scene.name, &["*.critical"]).await?;
    for key in [
        "kern.info",
        "cron.critical",
        "kern.critical",
        "kern",
        "a.b.critical",
    ] {
        scene.publish(&scene.name, key, key.as_bytes()).await?;
    }
    Ok(json!({
        "all": scene.texts(&all, 5).await?,
        "kernel": scene.texts(&kernel, 2).await?,
        "critical": scene.texts(&critical, 2).await?,
    }))
}

fn fibonacci(n: u32) -> u32 {
    if n < 2 {
        n
    } else {
        fibonacci(n - 1) + fibonacci(n - 2)
    }
}

pub async fn rpc(scene: &Scene) -> Result<Value> {
    let queue = scene.queue(&scene.name).await?;
    let channel = scene.connection.create_channel().await?;
    let mut requests = consume(&channel, &queue, false).await?;
    let server = tokio::spawn(async move {
        while let Some(Ok(request)) = requests.next().await {
            let asked = &request.properties;
            let reply_to = asked.reply_to().clone().expect("a request has reply_to");
            let correlation = asked
                .correlation_id()
                .clone()
                .expect("a request has correlation_id");
            let answer =
                fibonacci(text(&request).parse().expect("a request is a number")).to_string();
            let properties = BasicProperties::default().with_correlation_id(correlation);
            publish(
                &channel,
                "",
                reply_to.as_str(),
                answer.as_bytes(),
                properties,
            )
            .await?;
            request.ack(BasicAckOptions::default()).await?;
        }
        Ok::<(), lapin::Error>(())
    });
    let replies = declare(&scene.channel, "", QueueDeclareOptions::exclusive()).await?;
    let by_queue = calls(scene, &queue, &replies).await?;
    let direct = calls(scene, &queue, "amq.rabbitmq.reply-to").await?;
    server.abort();
    Ok(json!({"queue": by_queue, "direct": direct}))
}

async fn calls(scene: &Scene, queue: &str, reply_to: &str) -> Result<Vec<String>> {
    let client = scene.connection.create_channel().await?;
    let mut replies = consume(&client, reply_to, true).await?;
    let mut answers = Vec::new();
    for number in 0..6 {
        let request = BasicProperties::default()
            .with_correlation_id(format!("call {number}").into())
            .with_reply_to(reply_to.into());
        publish(&client, "", queue, number.to_string().as_bytes(), request).await?;
        let reply = next(&mut replies).await?;
        let correlation = reply
            .properties
            .correlation_id()
            .clone()
            .expect("a reply has correlation_id");
        answers.push(format!("{correlation}: {}", text(&reply)));
    }
    Ok(answers)
}
