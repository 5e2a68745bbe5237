"""Runs of messages: what is written of one, and what answers come to."""

from __future__ import annotations

from leveret.core.client.channel_codec import ChannelCodec
from leveret.core.client.outgoing import Outgoing, make_address, make_outgoing
from leveret.core.client.runs import find_untried, publish_run, tally
from tests.unit.core.client_bench import Bench, outgoing
from tests.unit.queues.dataplane import method_frame

PLENTY = 1 << 40


def run(
    codec: ChannelCodec, messages: list[Outgoing], start: int = 0, bytes_max: int = PLENTY, owner: object = None
) -> int:
    return int(publish_run(codec, messages, start, len(messages), bytes_max, 7.5, owner))


def test_a_run_is_what_its_messages_are_one_by_one() -> None:
    one, many = Bench(confirming=True), Bench(confirming=True)
    for bench in (one, many):
        messages = [outgoing(f"m{number}", body=bytes(number)) for number in range(20)]
        if bench is one:
            for message in messages[5:]:
                bench.codec.publish(message)
        else:
            assert run(bench.codec, messages, 5, owner=bench) == 20
            assert [(m.index, m.due, m.owner, m.tag) for m in messages[5:]] == [
                (number, 7.5, bench, number - 4) for number in range(5, 20)
            ]
            assert messages[0].owner is None
    assert one.sent() == many.sent()
    assert many.codec.unconfirmed_bytes == sum(range(5, 20))


def test_a_run_ends_where_the_room_does() -> None:
    bench = Bench(confirming=True)
    messages = [outgoing(body=bytes(100)) for _ in range(10)]
    assert run(bench.codec, messages, bytes_max=450) == 4
    assert run(bench.codec, messages, 4, bytes_max=99) == 4
    assert bench.codec.unconfirmed_bytes == 400
    # Too many properties for a frame: that one goes by itself, and is told.
    messages[6] = outgoing(properties={"headers": {"h": "x" * 200_000}})
    assert run(bench.codec, messages, 4) == 6
    assert run(bench.codec, messages, 6) == 6


def test_a_run_ends_where_the_socket_takes_no_more() -> None:
    bench = Bench(confirming=True)
    messages = [outgoing(body=bytes(10_000)) for _ in range(100)]
    end = run(bench.codec, messages)
    assert 26 <= end <= 28
    assert run(bench.codec, messages, end) == end
    bench.sent()
    assert run(bench.codec, messages, end) > end


def test_answers_are_counted_by_owner() -> None:
    bench = Bench(confirming=True)
    messages = [outgoing(f"m{number}", body=b"12") for number in range(7)]
    first, second = object(), object()
    for message, owner in zip(messages, (first, first, second, first, first, first, second), strict=True):
        message.owner = owner
        bench.codec.publish(message)
    bench.feed(method_frame(1, "basic.ack", delivery_tag=4, multiple=True))
    bench.feed(method_frame(1, "basic.nack", delivery_tag=5, multiple=False, requeue=False))
    bench.feed(method_frame(1, "basic.ack", delivery_tag=7, multiple=True))
    confirmed, size, runs, others = tally(bench.codec.take_settled())
    assert (confirmed, size) == (6, 12)
    assert runs == [(first, 2), (second, 1), (first, 2), (second, 1)]
    assert others == [messages[4]] and messages[4].owner is first
    assert all(message.owner is None for message in messages if message is not messages[4])
    assert tally([]) == (0, 0, [], [])


def test_what_is_not_known_yet() -> None:
    messages: list[Outgoing | None] = [outgoing(key=key) for key in "aabac"]
    known: set[bytes] = set()
    assert find_untried(messages, 0, known) == 0
    known.add(make_address("", "a"))
    assert find_untried(messages, 0, known) == 2
    assert find_untried(messages, 3, known) == 4
    assert find_untried(messages, 0, None) == 5
    messages[1] = None
    assert find_untried(messages, 0, known) == find_untried(messages, 0, None) == 1
    assert find_untried(messages, 5, known) == 5


def test_made_in_short() -> None:
    one, other = (kind(b"\0\1q", b"\0\0", b"body", b"id", 1) for kind in (Outgoing, make_outgoing))
    assert type(other) is Outgoing
    for name in ("address", "raw", "body", "message_id", "bits", "owner", "tag", "sent_count", "reply_code"):
        assert getattr(one, name) == getattr(other, name)
    assert (other.reply_text, other.due, other.index) == (b"", 0.0, 0)
    assert not (other.is_confirmed or other.is_refused or other.is_returned)
