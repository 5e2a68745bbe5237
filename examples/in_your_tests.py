"""The real broker inside a test, started in milliseconds on a free port. Run with pytest, or as it is."""

import pika

from leveret.testing import Broker


def test_an_order_arrives() -> None:
    with Broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("orders")
        channel.basic_publish("", "orders", b"one tea")
        _method, _properties, body = channel.basic_get("orders", auto_ack=True)
        assert body == b"one tea"
        connection.close()


if __name__ == "__main__":
    test_an_order_arrives()
    print("it does")
