"""What must be true of a broker after anything at all was said to it: what it answered, and what is left behind."""

from __future__ import annotations

from typing import Final

from leveret.core.codec.names import name_octets
from tests.conformance.raw_client import PROTOCOL_HEADER, Method
from tests.fuzz.frames import handshake, method, publish, said
from tests.fuzz.script import NEIGHBOURS_QUEUE
from tests.fuzz.workbench import Line, Workbench

CONNECTION_CODES: Final = {320, 402, 403, 501, 502, 503, 504, 505, 506, 530, 540}
CHANNEL_CODES: Final = {311, 403, 404, 405, 406}
PREDECLARED: Final = 7


def check_answers(heard: bytes) -> list[Method]:
    """The broker's side of a conversation: whole frames, on open channels, and silence after a close."""
    if heard.startswith(b"AMQP"):
        assert heard == PROTOCOL_HEADER, heard
        return []
    told = said(heard)
    closing: dict[int, bool] = {}
    for answer in told:
        where = f"{answer} after {told[: told.index(answer)][-3:]}"
        closes = answer.name in ("connection.close", "channel.close")
        if answer.channel == 0:
            assert answer.name.startswith("connection."), where
        else:
            opens = answer.name == "channel.open-ok"
            assert not answer.name.startswith("connection."), where
            assert opens or answer.channel in closing, f"on a channel that is not open: {where}"
            assert opens or not closing[answer.channel] or answer.name == "channel.close-ok", f"after a close: {where}"
        assert not closing.get(0) or answer.name in ("connection.close-ok",), f"after a close: {where}"
        if closes:
            allowed = CONNECTION_CODES if answer.channel == 0 else CHANNEL_CODES
            assert answer["reply_code"] in allowed, where
            assert answer["reply_text"], where
        closing[answer.channel] = closes or answer.name in ("connection.close-ok", "channel.close-ok")
    return told


class Neighbour:
    """A decent client on the same broker: whatever another one does, it is served as if it were alone."""

    def __init__(self, bench: Workbench) -> None:
        self._sent = 0
        self._got: list[bytes] = []
        self.line = bench.connect()
        self.line.say(
            handshake()
            + method(1, "channel.open")
            + method(1, "queue.declare", queue=NEIGHBOURS_QUEUE, exclusive=True)
            + method(1, "basic.qos", prefetch_count=2)
        )
        self.publish(3)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self._sent += 1
            self.line.say(publish(1, "", NEIGHBOURS_QUEUE, b"mine %d" % self._sent))

    def collect(self) -> None:
        """Takes all that is there. Others may send to its queue; what it sent itself must all come, once, in order."""
        while True:
            (told,) = self.line.answers(method(1, "basic.get", queue=NEIGHBOURS_QUEUE))
            if told.name == "basic.get-empty":
                break
            if told.body.startswith(b"mine"):
                assert not told["redelivered"]
                self._got.append(told.body)
            assert self.line.answers(method(1, "basic.ack", delivery_tag=told["delivery_tag"])) == []
        assert self._got == [b"mine %d" % number for number in range(1, self._sent + 1)]

    def check(self) -> None:
        self.publish(2)
        self.collect()
        assert self.line.ended is None


def check_mirror(bench: Workbench) -> None:
    """The live virtual host is what the catalog says."""
    catalog, live = bench.broker.catalog.topologies["/"], bench.broker.vhosts["/"]
    assert set(live.queues) == {name_octets(name) for name in catalog.queues}
    assert set(live.exchanges) == {name_octets(name) for name in catalog.exchanges}
    owned = {(record.owner, name) for name, record in catalog.queues.items() if record.owner}
    assert owned == {(owner, name) for owner, names in live.owned.items() for name in names}
    for name, exchange in live.exchanges.items():
        if name:
            bound = catalog.bindings_from.get(exchange.record.name, {})
            assert exchange.matcher.count == len(bound), name
    for bindings in catalog.bindings_from.values():
        for binding in bindings.values():
            there = catalog.queues if binding.to_queue else catalog.exchanges
            assert binding.destination in there and binding.source in catalog.exchanges, binding


def check_nothing_left(bench: Workbench, line: Line, timers: int) -> None:
    """The connection is gone, and everything of it: consumers, unacked messages, exclusive queues, reply addresses."""
    assert line.ended is not None
    assert line.session.connection_id not in bench.broker.connections
    assert not line.session.write_buffer.pending()
    live = bench.broker.vhosts["/"]
    assert line.session.connection_id not in live.owned
    assert not live.replies
    for queue in live.queues.values():
        assert (queue.name, queue.subscriber_count(), queue.unacked_count) == (queue.name, 0, 0)
    assert len(bench.loop.timers()) == timers, "a timer of the connection is still running"
    check_mirror(bench)
