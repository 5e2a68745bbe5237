"""pika's BlockingConnection: one publish at a time, because it waits for each confirm."""

from __future__ import annotations

import time

import pika  # type: ignore[import-untyped]

from benchmarks.client.work import QUEUE, Task


def properties(task: Task) -> pika.BasicProperties:
    return pika.BasicProperties(delivery_mode=2 if task.persistent else 1)


def publish(task: Task) -> list[float]:
    with pika.BlockingConnection(pika.URLParameters(task.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        times = []
        for _ in range(task.messages):
            begun = time.perf_counter()
            channel.basic_publish("", QUEUE, task.body, properties(task), mandatory=True)
            times.append(time.perf_counter() - begun)
        return times


def consume(task: Task) -> float:
    with pika.BlockingConnection(pika.URLParameters(task.url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=task.prefetch)
        begun = 0.0
        for count, (method, _, _) in enumerate(channel.consume(QUEUE), 1):
            if count == 1:
                begun = time.perf_counter()
            channel.basic_ack(method.delivery_tag)
            if count == task.messages:
                break
        took = time.perf_counter() - begun
        channel.cancel()
        return took


def batch(task: Task) -> float:
    begun = time.perf_counter()
    publish(task)
    return time.perf_counter() - begun


def round_trip(task: Task) -> list[float]:
    with pika.BlockingConnection(pika.URLParameters(task.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=task.prefetch)
        deliveries = channel.consume(QUEUE)
        times = []
        for _ in range(task.messages):
            begun = time.perf_counter()
            channel.basic_publish("", QUEUE, task.body, properties(task), mandatory=True)
            method, _, _ = next(deliveries)
            channel.basic_ack(method.delivery_tag)
            times.append(time.perf_counter() - begun)
        channel.cancel()
        return times
