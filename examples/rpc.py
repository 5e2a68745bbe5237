"""Ask a question and wait for the answer, without declaring a queue for it: direct reply-to."""

import os
import threading

import pika
from pika.adapters.blocking_connection import BlockingChannel

URL = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")


def serve(ready: threading.Event) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(URL))
    channel = connection.channel()
    channel.queue_declare("squares", auto_delete=True)
    ready.set()
    method, properties, body = next(channel.consume("squares"))
    channel.basic_publish("", properties.reply_to, str(int(body) ** 2).encode())
    channel.basic_ack(method.delivery_tag)
    connection.close()


def show(channel: BlockingChannel, _method: object, _properties: object, body: bytes) -> None:
    print(f"12 squared is {body.decode()}")
    channel.stop_consuming()


ready = threading.Event()
server = threading.Thread(target=serve, args=(ready,))
server.start()
ready.wait(10)

connection = pika.BlockingConnection(pika.URLParameters(URL))
channel = connection.channel()
# The reply comes to this consumer; the request carries its address, which the broker fills in.
channel.basic_consume("amq.rabbitmq.reply-to", show, auto_ack=True)
channel.basic_publish("", "squares", b"12", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
channel.start_consuming()
connection.close()
server.join()
