"""What cannot be worked on goes to a queue of its own and says why: rejected, too late, too many, tried too often."""

import os

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.exchange_declare("dead", "fanout", durable=True)
channel.queue_declare("dead", durable=True)
channel.queue_bind("dead", "dead")
arguments = {"x-dead-letter-exchange": "dead", "x-max-length": 2, "x-delivery-limit": 1}
channel.queue_declare("work", durable=True, arguments=arguments)
channel.confirm_delivery()


def publish(body: bytes, expiration: str | None = None) -> None:
    channel.basic_publish("", "work", body, pika.BasicProperties(delivery_mode=2, expiration=expiration))


def next_dead() -> str:
    method, properties, body = next(channel.consume("dead", inactivity_timeout=5))
    channel.basic_ack(method.delivery_tag)
    death = properties.headers["x-death"][0]
    return f"{body.decode()}: {death['reason']} in {death['queue']}"


publish(b"cannot be read")
method, _properties, _body = channel.basic_get("work")
channel.basic_reject(method.delivery_tag, requeue=False)
print(next_dead())

publish(b"nobody came", expiration="100")
print(next_dead())

# The oldest makes room.
for body in (b"first", b"second", b"third"):
    publish(body)
print(next_dead())
channel.queue_purge("work")

publish(b"kills its workers")
for _ in range(2):
    # It may come back once: the second return is too many.
    method, _properties, _body = channel.basic_get("work")
    channel.basic_nack(method.delivery_tag, requeue=True)
print(next_dead())

channel.cancel()
for queue in ("work", "dead"):
    channel.queue_delete(queue)
channel.exchange_delete("dead")
connection.close()
