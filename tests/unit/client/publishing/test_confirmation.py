"""Who waits for a message, and which messages a broker's words are about."""

from __future__ import annotations

import asyncio

import pytest

from leveret.client.errors import BatchFailed, ChannelClosed, ConnectionLost, Refused, fresh
from leveret.client.publishing.confirmation import BatchWait, Confirmation, failure_of, is_named_in
from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.outgoing import Outgoing, make_address
from leveret.core.codec.write_buffer import WriteBuffer


def message(exchange: str = "", routing_key: str = "") -> Outgoing:
    return Outgoing(make_address(exchange, routing_key), b"\x00\x00", b"body", b"id-1", 1)


@pytest.mark.parametrize(
    ("text", "exchange", "routing_key", "is_named"),
    [
        ("NOT_FOUND - no exchange 'shop' in vhost '/'", "shop", "k", True),
        ("NOT_FOUND - no exchange 'shop' in vhost '/'", "sho", "k", False),
        ("NOT_FOUND - no exchange 'shop' in vhost '/'", "", "shop", False),
        ("ACCESS_REFUSED - access to exchange 'shop' in vhost '/' refused for user 'u'", "shop", "k", True),
        ("ACCESS_REFUSED - access to topic 'a.b' in exchange 'shop' in vhost '/' refused", "shop", "a.b", True),
        ("ACCESS_REFUSED - access to topic 'a.b' in exchange 'shop' in vhost '/' refused", "shop", "a.c", False),
        ("NOT_FOUND - no exchange 'it's' in vhost '/'", "it's", "", True),
        ("PRECONDITION_FAILED - user_id property set to 'x' but authenticated user was 'y'", "x", "x", False),
    ],
)
def test_whom_the_broker_means(text: str, exchange: str, routing_key: str, is_named: bool) -> None:
    error = ChannelClosed(404, text, "basic.publish")
    assert is_named_in(error, message(exchange, routing_key)) == is_named


def test_what_an_answer_means() -> None:
    codec = ChannelCodec(1, WriteBuffer([], []), 4096)
    codec.kick = lambda: None
    codec.confirming = True
    taken, refused = message("shop", "a"), message("shop", "b")
    codec.publish(taken)
    codec.publish(refused)
    codec.confirm(1, False, 1)
    codec.confirm(2, False, 2)
    assert failure_of(taken) is None
    error = failure_of(refused)
    assert isinstance(error, Refused)
    assert (error.exchange, error.routing_key, error.message_id) == ("shop", "b", "id-1")


def test_to_cancel_is_to_give_up() -> None:
    async def script() -> None:
        dropped: list[Outgoing] = []
        loop = asyncio.get_running_loop()
        first, second = (Confirmation(message(), dropped.append, loop) for _ in range(2))
        assert first.message_id == "id-1"
        its_message = first.message
        task = asyncio.ensure_future(asyncio.wait_for(first, 60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert dropped == [its_message]
        # What is answered cannot be given up any more.
        second.settle(None)
        assert not second.cancel() and len(dropped) == 1
        second.settle(Refused("", "", ""))
        assert await second is None

    asyncio.run(script())


def test_a_batch_is_done_when_no_more_come_and_none_is_left() -> None:
    async def script() -> None:
        batch = BatchWait(asyncio.get_running_loop())
        batch.left = 2
        waiting = asyncio.ensure_future(batch.wait())
        await asyncio.sleep(0)
        batch.left = 1
        batch.finish()
        await asyncio.sleep(0)
        assert not waiting.done()
        batch.left = 0
        batch.finish()
        await waiting
        empty = BatchWait(asyncio.get_running_loop())
        empty.finish()
        assert not empty.done.done()
        await empty.wait()

    asyncio.run(script())


@pytest.mark.parametrize(
    "error",
    [
        ChannelClosed(404, "no exchange", "basic.publish"),
        ConnectionLost("gone", 320),
        BatchFailed([(3, ValueError("x"))]),
    ],
)
def test_an_equal_error_for_each_of_many(error: Exception) -> None:
    made = fresh(error)  # type: ignore[type-var]
    assert made is not error and type(made) is type(error)
    assert str(made) == str(error) and made.__dict__ == error.__dict__
