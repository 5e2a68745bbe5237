"""Publish a message with a confirm, and consume it."""

import os

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.queue_declare("orders")
channel.confirm_delivery()
channel.basic_publish("", "orders", b"two coffees, one tea", mandatory=True)

method, properties, body = next(channel.consume("orders", inactivity_timeout=5))
print(body.decode())
channel.basic_ack(method.delivery_tag)
channel.queue_delete("orders")
connection.close()
