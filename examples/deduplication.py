"""A publisher that is not sure publishes again: the queue, or the exchange before it, takes each message once."""

import os

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.confirm_delivery()


def publish(exchange: str, key: str, order: str) -> None:
    # Say that the confirm was lost twice. Each copy is confirmed: the order is safe, whichever of them brought it.
    for _ in range(3):
        channel.basic_publish(exchange, key, order.encode(), pika.BasicProperties(delivery_mode=2, message_id=order))


def take_all(queue: str) -> list[str]:
    bodies = []
    while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(message[2].decode())
    return bodies


# One queue that remembers the last thousand keys, each for an hour, also when the message itself is long gone.
arguments = {"x-message-deduplication": True, "x-cache-size": 1000, "x-cache-ttl": 3_600_000}
channel.queue_declare("orders", durable=True, arguments=arguments)
publish("", "orders", "order 1")
print("queue:", take_all("orders"))
publish("", "orders", "order 1")
publish("", "orders", "order 2")
print("queue, later:", take_all("orders"))

# Or an exchange of any type, for all queues behind it.
channel.exchange_declare("shop", "topic", durable=True, arguments=arguments)
for queue in ("shipping", "billing"):
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, "shop", "order.#")
publish("shop", "order.new", "order 3")
print("exchange:", take_all("shipping"), take_all("billing"))

for queue in ("orders", "shipping", "billing"):
    channel.queue_delete(queue)
channel.exchange_delete("shop")
connection.close()
