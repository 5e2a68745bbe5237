"""Channels over the wire against plain models: transactions, confirms, and who is served when room is short.

The broker is the real one, sessions and all, driven without sockets. What it holds is read from its queues, what it
says from its frames."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.conformance.raw_client import Method
from tests.fuzz.effort import effort
from tests.fuzz.frames import handshake, method, publish
from tests.fuzz.workbench import Line, Workbench

# ---- transactions


class Stored(NamedTuple):
    """A message with its place in the queue; `redelivered` is what its next delivery must say."""

    place: int
    redelivered: bool

    @property
    def octets(self) -> bytes:
        return b"%d" % self.place


class TransactionMachine(RuleBasedStateMachine):
    """One transactional channel with one queue: nothing counts before commit, and nothing of it after rollback."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Workbench()
        self.bench.__enter__()
        self.line: Line = self.bench.connect()
        self.line.say(handshake() + method(1, "channel.open") + method(1, "tx.select"))
        self.line.say(method(1, "queue.declare", queue="q"))
        self.places = 0
        self.ready: list[Stored] = []
        self.unacked: dict[int, Stored] = {}
        self.last_tag = 0
        # Held back until commit: places published, and acks as (tags, verdict).
        self.published: list[int] = []
        self.settled: list[tuple[dict[int, Stored], str]] = []

    def teardown(self) -> None:
        self.bench.__exit__(None, None, None)

    @rule(count=st.integers(1, 3))
    def publish(self, count: int) -> None:
        for _ in range(count):
            self.published.append(self.places)
            assert self.line.answers(publish(1, "", "q", b"%d" % self.places)) == []
            self.places += 1

    @rule()
    def get(self) -> None:
        (told,) = self.line.answers(method(1, "basic.get", queue="q"))
        if not self.ready:
            assert told.name == "basic.get-empty"
            return
        expected = self.ready.pop(0)
        self.last_tag += 1
        assert (told.body, told["redelivered"]) == (expected.octets, expected.redelivered)
        assert (told["delivery_tag"], told["message_count"]) == (self.last_tag, len(self.ready))
        self.unacked[self.last_tag] = expected

    @precondition(lambda self: self.last_tag)
    @rule(
        data=st.data(), name=st.sampled_from(["ack", "nack", "reject"]), multiple=st.booleans(), requeue=st.booleans()
    )
    def settle(self, data: st.DataObject, name: str, multiple: bool, requeue: bool) -> None:
        known = list(self.unacked) or [1]
        tag = data.draw(st.one_of(st.sampled_from(known), st.integers(0, self.last_tag + 1)))
        bits: dict[str, Any] = {"requeue": requeue} if name != "ack" else {}
        if name != "reject":
            bits["multiple"] = multiple
        told = self.line.answers(method(1, f"basic.{name}", delivery_tag=tag, **bits))
        reach = self.last_tag if tag == 0 else tag
        named = [other for other in self.unacked if other == tag or (bits.get("multiple") and other <= reach)]
        if tag not in self.unacked and not (tag == 0 and bits.get("multiple")):
            assert [(one.name, one["reply_code"]) for one in told] == [("channel.close", 406)]
            self.forget()
            self.line.say(method(1, "channel.close-ok") + method(1, "channel.open") + method(1, "tx.select"))
            return
        assert told == []
        taken = {other: self.unacked.pop(other) for other in named}
        self.settled.append((taken, "requeue" if bits.get("requeue") else "drop"))

    @rule()
    def commit(self) -> None:
        for place in self.published:
            self.ready.append(Stored(place, False))
        for taken, verdict in self.settled:
            if verdict == "requeue":
                self.give_back(list(taken.values()))
        self.published, self.settled = [], []
        assert [told.name for told in self.line.answers(method(1, "tx.commit"))] == ["tx.commit-ok"]

    @rule()
    def rollback(self) -> None:
        """Publishes never were, and what was acked can be acked again; it is not delivered again."""
        for taken, _ in self.settled:
            self.unacked.update(taken)
        self.unacked = dict(sorted(self.unacked.items()))
        self.published, self.settled = [], []
        assert [told.name for told in self.line.answers(method(1, "tx.rollback"))] == ["tx.rollback-ok"]

    @rule()
    def recover(self) -> None:
        """What is unacked goes back; acks that wait for the commit stay with it."""
        self.give_back(list(self.unacked.values()))
        self.unacked = {}
        told = self.line.answers(method(1, "basic.recover", requeue=True))
        assert [one.name for one in told] == ["basic.recover-ok"]

    @rule()
    def close(self) -> None:
        self.forget()
        told = self.line.answers(method(1, "channel.close") + method(1, "channel.open") + method(1, "tx.select"))
        assert [one.name for one in told] == ["channel.close-ok", "channel.open-ok", "tx.select-ok"]

    @rule()
    def disconnect(self) -> None:
        self.forget()
        self.line.hang_up()
        self.line = self.bench.connect()
        self.line.say(handshake() + method(1, "channel.open") + method(1, "tx.select"))

    def forget(self) -> None:
        """The channel ends: whatever it did not commit never was, and whatever it held goes back."""
        held = list(self.unacked.values()) + [stored for taken, _ in self.settled for stored in taken.values()]
        self.give_back(held)
        self.published, self.settled, self.unacked, self.last_tag = [], [], {}, 0

    def give_back(self, messages: list[Stored]) -> None:
        self.ready = sorted(self.ready + [Stored(message.place, True) for message in messages])

    @invariant()
    def the_queue_holds_what_was_committed(self) -> None:
        queue: Any = self.bench.queue("q")
        held = [(entry.message.body, entry.delivery_count > 0) for entry in queue.ready_entries()]
        assert held == [(stored.octets, stored.redelivered) for stored in self.ready]
        assert queue.unacked_count == len(self.unacked) + sum(len(taken) for taken, _ in self.settled)


TestTransactions = TransactionMachine.TestCase
TestTransactions.settings = effort(100, stateful_step_count=30)


# ---- confirms


@effort(100)
@given(
    st.lists(st.tuples(st.sampled_from(["q", "nobody", "both"]), st.booleans()), max_size=30),
    st.sampled_from([1, 10, 50, 100_000]),
)
def test_every_publish_is_confirmed_once_and_after_its_return(sent: list[tuple[str, bool]], step: int) -> None:
    stream = b"".join(
        publish(1, "amq.fanout" if key == "both" else "", key, b"%d" % number, mandatory=mandatory)
        for number, (key, mandatory) in enumerate(sent, 1)
    )
    with Workbench() as bench:
        line = bench.connect()
        line.say(handshake() + method(1, "channel.open") + method(1, "confirm.select"))
        for name in ("q", "r"):
            line.say(
                method(1, "queue.declare", queue=name) + method(1, "queue.bind", queue=name, exchange="amq.fanout")
            )
        told = line.answers(*(stream[at : at + step] for at in range(0, len(stream), step)))
        confirmed = 0
        returned = []
        for one in told:
            if one.name == "basic.return":
                returned.append(int(one.body))
                assert confirmed < int(one.body), "confirmed before it was returned"
            else:
                assert one.name == "basic.ack" and one["delivery_tag"] > confirmed
                assert one["multiple"] or one["delivery_tag"] == confirmed + 1
                confirmed = one["delivery_tag"]
        assert confirmed == len(sent)
        assert returned == [number for number, (key, must) in enumerate(sent, 1) if key == "nobody" and must]
        both = [b"%d" % number for number, (key, _) in enumerate(sent, 1) if key == "both"]
        assert bench.bodies("r") == both


# ---- nobody starves


def delivered(told: list[Method]) -> list[str]:
    return [one["consumer_tag"] for one in told if one.name == "basic.deliver"]


def backlog(line: Line, queues: str, count: int, size: int) -> None:
    for name in queues:
        line.say(method(1, "queue.declare", queue=name), *(publish(1, "", name, bytes(size)) for _ in range(count)))


def test_consumers_share_a_channel_limit_in_turn() -> None:
    with Workbench() as bench:
        line = bench.connect()
        line.say(handshake() + method(1, "channel.open") + method(1, "basic.qos", prefetch_count=1, **{"global": True}))
        backlog(line, "q", 40, 10)
        line.say(*(method(1, "basic.consume", queue="q", consumer_tag=tag) for tag in "abc"))
        served = []
        for tag in range(1, 31):
            served += delivered(line.answers(method(1, "basic.ack", delivery_tag=tag)))
        assert {tag: served.count(tag) for tag in "abc"} == {"a": 10, "b": 10, "c": 10}


def test_queues_share_a_channel_limit() -> None:
    """Each queue is deep enough to use the whole limit for ever."""
    with Workbench() as bench:
        line = bench.connect()
        line.say(handshake() + method(1, "channel.open") + method(1, "basic.qos", prefetch_count=1, **{"global": True}))
        backlog(line, "qrs", 40, 10)
        line.say(*(method(1, "basic.consume", queue=name, consumer_tag=name) for name in "qrs"))
        served = []
        for tag in range(1, 31):
            served += delivered(line.answers(method(1, "basic.ack", delivery_tag=tag)))
        assert min(served.count(name) for name in "qrs") >= 5, served


def test_queues_and_channels_share_a_slow_connection() -> None:
    """A client that reads slowly: whenever there is room again, it must not always be the same queue that fills it."""
    with Workbench() as bench:
        publisher = bench.connect()
        publisher.say(handshake() + method(1, "channel.open"))
        backlog(publisher, "qrs", 40, 300_000)
        line = bench.connect()
        line.say(handshake() + method(1, "channel.open") + method(2, "channel.open"))
        line.window = 0
        for name, channel in (("q", 1), ("r", 1), ("s", 2), ("s", 1)):
            line.say(method(channel, "basic.consume", queue=name, consumer_tag=f"{name}{channel}", no_ack=True))
        heard = len(line.heard)
        line.take(24 * 300_200)
        # The last message may still be on its way.
        octets = bytes(line.heard[heard:])
        served = [tag for tag in ("q1", "r1", "s1", "s2") if octets.count(b"\x3c\x00\x3c\x02" + tag.encode()) >= 3]
        assert served == ["q1", "r1", "s1", "s2"], octets.count(b"\x3c\x00\x3c\x02")


def test_a_higher_priority_comes_first_when_room_returns() -> None:
    with Workbench() as bench:
        line = bench.connect()
        line.say(handshake() + method(1, "channel.open") + method(1, "basic.qos", prefetch_count=1, **{"global": True}))
        line.say(method(1, "queue.declare", queue="q"))
        for tag, priority in (("low", 0), ("high", 5)):
            line.say(method(1, "basic.consume", queue="q", consumer_tag=tag, arguments={"x-priority": priority}))
        served = delivered(line.answers(*(publish(1, "", "q", b"m") for _ in range(5))))
        for tag in range(1, 5):
            served += delivered(line.answers(method(1, "basic.ack", delivery_tag=tag)))
        assert served == ["high"] * 5


def test_a_successor_gets_what_was_unacked_first() -> None:
    """Single active consumers are there for the sake of order."""
    with Workbench() as bench:
        first, second = bench.connect(), bench.connect()
        for line in (first, second):
            line.say(handshake() + method(1, "channel.open") + method(1, "basic.qos", prefetch_count=2))
            line.say(method(1, "queue.declare", queue="q", arguments={"x-single-active-consumer": True}))
        first.say(*(publish(1, "", "q", b"%d" % number) for number in range(4)))
        for line in (first, second):
            line.say(method(1, "basic.consume", queue="q", consumer_tag="c"))
        first.hang_up()
        second.say(method(1, "basic.ack", delivery_tag=2, multiple=True))
        got = [(told.body, told["redelivered"]) for told in second.methods() if told.name == "basic.deliver"]
        assert got == [(b"0", True), (b"1", True), (b"2", False), (b"3", False)]


def test_what_a_lost_client_gives_back_does_not_pass_through_its_other_channels() -> None:
    with Workbench() as bench:
        line = bench.connect()
        line.say(handshake() + method(1, "channel.open") + method(2, "channel.open"))
        line.say(method(1, "queue.declare", queue="q"), *(publish(1, "", "q", b"%d" % number) for number in range(3)))
        line.say(method(1, "basic.get", queue="q"), method(2, "basic.consume", queue="q"))
        line.hang_up()
        queue: Any = bench.queue("q")
        assert [entry.delivery_count for entry in queue.ready_entries()] == [1, 1, 1]
