"""A payment that fails is tried again after 0.1, 0.2 and 0.4 s, and is then parked for people to look at."""

import os

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
# It would be made when the first message goes there, but somebody may want to consume from it before that.
channel.queue_declare("payments.parked", durable=True)
# In earnest rather "1s, 5s, 30s, 5min".
arguments = {"x-retry-delays": "100ms, 200ms, 400ms", "x-parking-lot": "payments.parked"}
channel.queue_declare("payments", durable=True, arguments=arguments)
channel.confirm_delivery()
for body in (b"works at last", b"never works"):
    channel.basic_publish("", "payments", body, pika.BasicProperties(delivery_mode=2))

done = 0
for method, properties, body in channel.consume("payments", inactivity_timeout=2):
    if method is None:
        break
    tries = (properties.headers or {}).get("x-retry-count", 0)
    if body == b"works at last" and tries == 2:
        print(f"{body.decode()}: worked after {tries} retries")
        channel.basic_ack(method.delivery_tag)
        done += 1
    else:
        # A rejection without requeue: the queue itself keeps the message back, or parks it.
        channel.basic_nack(method.delivery_tag, requeue=False)
        done += tries == 3
    if done == 2:
        break
channel.cancel()

method, properties, body = next(channel.consume("payments.parked", inactivity_timeout=5))
reason = properties.headers["x-death"][0]["reason"]
print(f"{body.decode()}: {reason} after {properties.headers['x-retry-count']} retries")
channel.basic_ack(method.delivery_tag)
channel.cancel()
for queue in ("payments", "payments.parked"):
    channel.queue_delete(queue)
connection.close()
