"""What handlers raise is in the log, once; what they say on purpose is not."""

from __future__ import annotations

import logging

import pytest

from leveret.client import Batch, Delivery, Requeue
from tests.client.amqp_server import AmqpServer
from tests.client.consumer_scene import in_loop, numbered, placed


def failures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage() == "a handler failed"]


def test_of_a_handler(leveret_server: AmqpServer, caplog: pytest.LogCaptureFixture) -> None:
    async def script() -> None:
        async with placed(leveret_server, b"x") as place:
            consumer = place.connection.consumer(place.queue, requeue_pause_s=0)
            seen = 0

            async def handler(delivery: Delivery) -> None:
                nonlocal seen
                seen += 1
                if seen == 1:
                    raise ZeroDivisionError("not now")
                if seen == 2:
                    raise Requeue
                consumer.stop_soon()

            await consumer.run(handler)
            assert seen == 3

    in_loop(script())
    (record,) = failures(caplog)
    assert record.__dict__["reason"] == "ZeroDivisionError: not now"
    assert record.exc_info is not None and record.exc_info[0] is ZeroDivisionError


def test_of_a_batch(leveret_server: AmqpServer, caplog: pytest.LogCaptureFixture) -> None:
    async def script() -> None:
        async with placed(leveret_server, *numbered(10)) as place:
            consumer = place.connection.consumer(place.queue, on_error="reject")

            async def handler(batch: Batch[Delivery]) -> None:
                assert len(batch) == 10
                consumer.stop_soon()
                raise ZeroDivisionError("not these")

            await consumer.run_batches(handler, size=10)
            assert consumer.failed == 10

    in_loop(script())
    assert len(failures(caplog)) == 1
