"""Three workers share one queue: each gets one task at a time, and what a worker drops goes to another."""

import os
import threading

import pika

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
TASKS = 9


def work(name: str, done: list[str], all_done: threading.Event) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(URL))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    for method, _properties, body in channel.consume("tasks", inactivity_timeout=0.2):
        if all_done.is_set():
            break
        if method is None:
            continue
        if body == b"task 3" and not method.redelivered:
            # Not this worker's day: the task goes back to its place and comes to whoever is next.
            channel.basic_nack(method.delivery_tag, requeue=True)
            continue
        channel.basic_ack(method.delivery_tag)
        done.append(f"{name} did {body.decode()}")
        if len(done) == TASKS:
            all_done.set()
    connection.close()


connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
channel.queue_declare("tasks")
for number in range(TASKS):
    channel.basic_publish("", "tasks", f"task {number}".encode())

done: list[str] = []
all_done = threading.Event()
workers = [threading.Thread(target=work, args=(f"worker {letter}", done, all_done)) for letter in "ABC"]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print("\n".join(sorted(done, key=lambda line: line[-1])))
channel.queue_delete("tasks")
connection.close()
