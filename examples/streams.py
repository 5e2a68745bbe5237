"""A stream keeps what it is given: readers start wherever they like, and a reader with a name goes on where it was."""

import os

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672/")
connection = pika.BlockingConnection(pika.URLParameters(url))
channel = connection.channel()
channel.confirm_delivery()
channel.queue_declare("readings", durable=True, arguments={"x-queue-type": "stream", "x-max-age": "7D"})


def publish(*celsius: int) -> None:
    for degrees in celsius:
        channel.basic_publish("", "readings", str(degrees).encode())


def read(count: int, **arguments: object) -> list[int]:
    reading = connection.channel()
    # Streams want a prefetch. Acks take nothing away: they ask for more, and say how far a reader with a name is.
    reading.basic_qos(prefetch_count=100)
    found = []
    for method, properties, body in reading.consume("readings", arguments=arguments, inactivity_timeout=5):
        if method is None:
            break
        found.append(int(body))
        reading.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    reading.close()
    return found


publish(19, 20, 22, 25)
print("from the start:", read(4, **{"x-stream-offset": "first"}))
print("again, from the third:", read(2, **{"x-stream-offset": 2}))
print("of the last hour:", read(4, **{"x-stream-offset": "1h"}))

alarm = {"x-stream-consumer-name": "heat alarm", "x-stream-offset": "first"}
print("heat alarm:", read(4, **alarm))
publish(31)
print("heat alarm, later:", read(1, **alarm))

channel.queue_delete("readings")
connection.close()
