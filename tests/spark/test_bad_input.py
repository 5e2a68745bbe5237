"""What is wrong is said: what was asked for, what there is, and what to do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from leveret.testing import Broker
from tests.conformance.server_process import free_port
from tests.spark.conftest import Publish
from tests.spark.tables import failure, finish, live, publish_rows, source, to_files


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {},
            "one of the options stream, superStream, streamPattern and queue says what is read; none of them is given",
        ),
        ({"stream": "a", "superStream": "b"}, "stream and superStream is given"),
        ({"stream": "no-such-stream"}, "there is no stream 'no-such-stream' in the virtual host '/'"),
        ({"superStream": "no-such-super"}, "there is no super stream 'no-such-super'"),
        ({"stream": "a", "maxOffsetPerTrigger": "5"}, "there is no option 'maxoffsetpertrigger'; there are"),
        ({"stream": "a", "failOnDataLoss": "maybe"}, "the option failOnDataLoss is 'maybe'; it must be true or false"),
        ({"stream": "a", "startingOffsets": "soon"}, "the option startingOffsets has 'soon'"),
        (
            {"stream": "a", "startingOffsets": "latest"},
            'startingOffsets is "latest": a batch would have nothing to read',
        ),
        ({"stream": "a", "endingOffsets": "earliest"}, 'endingOffsets is "earliest": there would be nothing to read'),
        ({"stream": "GOOD", "startingOffsets": "stored"}, 'the place "stored" takes the option groupName'),
        (
            {"stream": "GOOD", "startingOffsets": '{"other": 1}'},
            "the option startingOffsets names other, which is not read",
        ),
        ({"stream": "QUEUE"}, "is a queue and no stream: read it with the option queue"),
        ({"stream": "GOOD", "url": "amqp://guest:guest@127.0.0.1:PORT/no-such-vhost"}, "no-such-vhost"),
    ],
    ids=str,
)
def test_reading(spark: Any, broker: Broker, publish: Publish, options: dict[str, Any], why: str) -> None:
    publish("good", [b""])
    publish("queue", [b"stays"], queue_type="classic")
    words = {"GOOD": "good", "QUEUE": "queue", "PORT": str(broker.port)}
    texts = {name: words.get(text, text).replace("PORT", words["PORT"]) for name, text in options.items()}
    begun = time.monotonic()
    assert why in failure(lambda: source(spark, broker, **texts).collect())
    assert time.monotonic() - begun < 20
    broker.queue("queue").expect(bodies=[b"stays"] * broker.queue("queue").count)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"stream": "no-such-stream"}, "there is no stream 'no-such-stream'"),
        ({"stream": "a", "endingOffsets": "latest"}, "the option endingOffsets is for batches"),
        (
            {"stream": "a", "minOffsetsPerTrigger": 9, "maxOffsetsPerTrigger": 5},
            "minOffsetsPerTrigger is 9, which is above",
        ),
        ({"stream": "good", "startingOffsets": "500"}, "startingOffsets of 'good' is 500, and the stream ends at"),
    ],
    ids=str,
)
def test_streaming(
    spark: Any, broker: Broker, publish: Publish, tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    publish("good", [b""])
    assert why in failure(lambda: finish(to_files(live(spark, broker, **options), tmp_path)))


def test_a_broker_that_is_not_there(spark: Any, broker: Broker) -> None:
    """It is waited for as long as retryTimeout says, and then it is said who was not there."""
    url = f"amqp://guest:guest@127.0.0.1:{free_port()}/"
    begun = time.monotonic()
    text = failure(lambda: source(spark, broker, "any", url=url, retryTimeout="2s").collect())
    assert url.split("@")[1].rstrip("/") in text
    assert 1.5 < time.monotonic() - begun < 20
    begun = time.monotonic()
    table = spark.range(1).selectExpr("'x' as body")
    text = failure(lambda: publish_rows(table, broker, url=url, retryTimeout="2s", routingKey="any"))
    assert url.split("@")[1].rstrip("/") in text
    assert time.monotonic() - begun < 30


def test_a_broker_that_comes_late(spark: Any, lasting: Broker) -> None:
    import threading

    from tests.spark.conftest import publish_to

    publish_to(lasting, "late", [b"1"])
    lasting.stop()
    starting = threading.Timer(2.0, lasting.start)
    starting.start()
    assert source(spark, lasting, "late").count() == 1
    starting.join()


def test_the_http_api_cannot_be_reached(spark: Any, broker: Broker) -> None:
    where = f"http://127.0.0.1:{free_port()}"
    for options in ({"streamPattern": ".*"}, {"queue": "q"}):
        text = failure(lambda options=options: source(spark, broker, managementUrl=where, **options).collect())
        assert f"{where} cannot be reached" in text
        assert "the option managementUrl says where it is" in text
