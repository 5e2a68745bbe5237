"""Messages that arrive later: by a header on any publish, or through an exchange that waits before it routes."""

import os

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.confirm_delivery()
channel.queue_declare("reminders", durable=True)


def publish(exchange: str, key: str, body: bytes, delay_ms: int) -> None:
    """The confirm comes when the message is safe on disk, not when it is due."""
    properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay_ms})
    channel.basic_publish(exchange, key, body, properties)


publish("", "reminders", b"call back", 1200)
publish("", "reminders", b"drink tea", 600)
channel.basic_publish("", "reminders", b"at once")

# Where a message of this exchange goes is found out when it is due: the binding comes after the publish.
arguments = {"x-delayed-type": "topic"}
channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
publish("later", "garden.water", b"water the plants", 1800)
channel.queue_bind("reminders", "later", "garden.#")

for _ in range(4):
    method, properties, body = next(channel.consume("reminders", inactivity_timeout=5))
    waited_ms = -(properties.headers or {}).get("x-delay", 0)
    print(f"{body.decode()}: {waited_ms} ms")
    channel.basic_ack(method.delivery_tag)
channel.cancel()
channel.queue_delete("reminders")
channel.exchange_delete("later")
connection.close()
