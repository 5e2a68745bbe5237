"""Route by topic, and by what the headers say: predicates are Leveret's addition to RabbitMQ's headers exchange."""

import os

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()

channel.exchange_declare("events", "topic")
channel.exchange_declare("large", "headers")
# Everything that passes "events" also passes "large", which looks at the headers.
channel.exchange_bind("large", "events", "#")
created = channel.queue_declare("", exclusive=True).method.queue
european = channel.queue_declare("", exclusive=True).method.queue
expensive = channel.queue_declare("", exclusive=True).method.queue
channel.queue_bind(created, "events", "*.*.created")
channel.queue_bind(european, "events", "order.eu.#")
channel.queue_bind(expensive, "large", arguments={"x-match": "all", "amount": ">1000"})

for key, amount in (("order.eu.created", 20), ("order.us.created", 5000), ("order.eu.paid", 1200)):
    channel.basic_publish("events", key, key.encode(), pika.BasicProperties(headers={"amount": amount}))

for name, queue in (("created", created), ("european", european), ("expensive", expensive)):
    keys = []
    while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
        keys.append(message[2].decode())
    print(f"{name}: {', '.join(keys)}")
channel.exchange_delete("events")
channel.exchange_delete("large")
connection.close()
