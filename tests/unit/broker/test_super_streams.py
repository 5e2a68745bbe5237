"""Super streams: made and deleted as a whole or not at all, by whoever may; and found again by their bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.broker.super_streams import Partition, SuperStream, SuperStreams
from leveret.catalog import commands
from leveret.catalog.records import BindingRecord, ExchangeRecord, Vhost
from leveret.catalog.snapshot import snapshot
from leveret.core.codec.murmur3 import murmur3_32
from leveret.errors import AlreadyExists, SoftError
from leveret.storage.store import Store, StoreSettings
from tests.unit.broker.people import Person, Town
from tests.unit.catalog.naming import all_but, to_queue

KINDS = ("direct", "x-super-stream")


class Streams(Town):
    def __init__(self, store: Store | None) -> None:
        super().__init__(store)
        self.super_streams = SuperStreams(self.broker)

    def create(self, name: str, partitions: Any = 3, **named: Any) -> list[str]:
        who: Person = named.pop("who", self.ann)
        return self.super_streams.create(who, name, partitions, **named)

    def delete(self, name: str, who: Person | None = None) -> list[str]:
        return self.super_streams.delete(who or self.ann, name)

    def bind(self, source: str, stream: str, key: str = "", **arguments: Any) -> None:
        self.topology.bind(self.ann, BindingRecord("/", source, True, stream, key, arguments))

    def declare_exchange(self, name: str, kind: str = "direct", **arguments: Any) -> None:
        self.topology.declare_exchange(self.ann, ExchangeRecord("/", name, kind, True, False, False, arguments))

    def declare_queue(self, name: str, kind: str = "stream") -> None:
        self.topology.declare_queue(self.ann, name, True, False, False, {"x-queue-type": kind})

    def everything(self) -> list[commands.Command]:
        """But for ids, which may be used up by what is gone."""
        return snapshot(self.broker.catalog)[1:]


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Streams]:
    store = Store(tmp_path, StoreSettings(segment_bytes=1 << 20), lambda: 1)
    made = Streams(store)
    yield made
    made.close()
    store.abandon()


def refused(call: Callable[[], Any], code: int) -> str:
    with pytest.raises(SoftError) as refusal:
        call()
    assert refusal.value.code == code
    return refusal.value.text


# ---- making


@pytest.mark.parametrize("kind", KINDS)
def test_partitions_are_numbered(town: Streams, kind: str) -> None:
    assert town.create("orders", 3, kind=kind) == ["orders-0", "orders-1", "orders-2"]
    assert town.super_streams.partitions("/", "orders") == ["orders-0", "orders-1", "orders-2"]
    topology = town.broker.catalog.topologies["/"]
    exchange = topology.exchanges["orders"]
    assert (exchange.kind, exchange.durable, exchange.arguments) == (kind, True, {"x-super-stream": True})
    queue = topology.queues["orders-2"]
    assert (queue.kind, queue.durable, queue.arguments) == ("stream", True, {"x-queue-type": "stream"})
    bindings = topology.bindings_from["orders"].values()
    assert [binding.routing_key for binding in bindings] == ["0", "1", "2"]
    assert [binding.arguments for binding in bindings] == [{"x-stream-partition-order": n} for n in range(3)]
    # And they are alive.
    vhost = town.broker.vhosts["/"]
    assert {b"orders-0", b"orders-1", b"orders-2"} <= set(vhost.queues)
    assert vhost.exchanges[b"orders"].matcher.count == 3


@pytest.mark.parametrize("kind", KINDS)
def test_partitions_by_key_have_the_keys_in_their_names_and_keep_their_order(town: Streams, kind: str) -> None:
    named = town.create("invoices", ["emea", "apac", "americas"], kind=kind)
    assert named == ["invoices-emea", "invoices-apac", "invoices-americas"]
    assert town.super_streams.partitions("/", "invoices") == named


def test_more_than_ten_partitions_are_in_the_order_of_their_numbers(town: Streams) -> None:
    town.create("orders", 12)
    assert town.super_streams.partitions("/", "orders") == [f"orders-{number}" for number in range(12)]


def test_streams_may_have_names_of_their_own(town: Streams) -> None:
    assert town.create("s", ["k0", "k1"], streams=["here", "there"]) == ["here", "there"]
    assert town.super_streams.route("/", "s", "k1") == ["there"]


def test_arguments_are_those_of_every_stream(town: Streams) -> None:
    town.create("orders", 2, arguments={"x-max-age": "1h", "x-max-length-bytes": 5_000_000})
    for queue in town.broker.catalog.topologies["/"].queues.values():
        assert queue.arguments == {"x-queue-type": "stream", "x-max-age": "1h", "x-max-length-bytes": 5_000_000}


def test_line_ends_are_dropped_from_names(town: Streams) -> None:
    assert town.create("a\r\nb", 1) == ["ab-0"]
    assert town.delete("a\nb") == ["ab-0"]


def test_the_most_partitions_there_may_be(town: Streams) -> None:
    assert len(town.create("many", 1000)) == 1000
    assert town.super_streams.partitions("/", "many")[999] == "many-999"


# ---- refusals, after which nothing has changed

LONG = "x" * 255
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("s", {"partitions": 0}, "a super stream has 1 to 1000 partitions, not 0"),
    ("s", {"partitions": -1}, "a super stream has 1 to 1000 partitions, not -1"),
    ("s", {"partitions": 1001}, "a super stream has 1 to 1000 partitions, not 1001"),
    ("s", {"partitions": 10**30}, f"a super stream has 1 to 1000 partitions, not {10**30}"),
    ("s", {"partitions": []}, "a super stream has 1 to 1000 partitions, not 0"),
    ("s", {"partitions": ["k"] * 1001}, "a super stream has 1 to 1000 partitions, not 1001"),
    ("s", {"partitions": ["a", "b", "a"]}, "two partitions of super stream 's' have the name 's-a'"),
    ("s", {"partitions": ["k" * 256]}, f"a binding key has at most 255 octets: '{'k' * 32}...'"),
    ("s", {"partitions": 2, "streams": ["a"]}, "2 binding keys for 1 partitions of super stream 's'"),
    ("s", {"partitions": 2, "streams": ["a", ""]}, "a name has 1 to 255 octets: ''"),
    ("s", {"partitions": 1, "streams": ["amq.a"]}, "name 'amq.a' contains reserved prefix 'amq.*'"),
    ("", {"partitions": 1}, "a name has 1 to 255 octets: ''"),
    ("\r\n", {"partitions": 1}, "a name has 1 to 255 octets: ''"),
    ("amq.s", {"partitions": 1}, "name 'amq.s' contains reserved prefix 'amq.*'"),
    (LONG, {"partitions": 1}, f"a name has 1 to 255 octets: '{'x' * 32}'"),
    ("\u00fc" * 127, {"partitions": ["0"]}, f"a name has 1 to 255 octets: '{chr(0xFC) * 32}'"),
    ("s", {"kind": "topic"}, "the exchange of a super stream is of type direct or x-super-stream, not 'topic'"),
    (
        "s",
        {"arguments": {"x-queue-type": "classic"}},
        "a partition of a super stream is a stream: queue 's-0' in vhost '/' cannot be of type 'classic'",
    ),
]


@pytest.mark.parametrize(("name", "named", "text"), BAD)
def test_what_makes_no_sense_is_refused(town: Streams, name: str, named: dict[str, Any], text: str) -> None:
    before = town.everything()
    assert refused(lambda: town.create(name, named.pop("partitions", 2), **named), 406) == text
    assert town.everything() == before


@pytest.mark.parametrize(
    "arguments", [{"x-max-length-bytes": -1}, {"x-max-priority": 5}, {"x-queue-type": "none"}, {"x-queue-type": 5}]
)
def test_arguments_that_a_stream_does_not_take_are_refused(town: Streams, arguments: dict[str, Any]) -> None:
    before = town.everything()
    assert "for queue 's-0' in vhost '/'" in refused(lambda: town.create("s", arguments=arguments), 406)
    assert town.everything() == before


@pytest.mark.parametrize("taken", ["s-0", "s-1", "s-2"])
def test_a_queue_of_one_of_the_names_is_left_alone(town: Streams, taken: str) -> None:
    town.declare_queue(taken, "classic")
    before = town.everything()
    with pytest.raises(AlreadyExists) as caught:
        town.create("s")
    assert caught.value.text == f"queue '{taken}' in vhost '/' exists already"
    assert town.everything() == before


def test_an_exchange_of_the_name_is_left_alone(town: Streams) -> None:
    town.create("s", 2)
    before = town.everything()
    for kind in KINDS:
        with pytest.raises(AlreadyExists, match="exchange 's' in vhost '/' exists already"):
            town.create("s", 2, kind=kind)
    assert town.everything() == before


def test_without_a_disk_there_are_no_streams() -> None:
    town = Streams(None)
    before = town.everything()
    assert refused(lambda: town.create("s"), 406) == "a stream needs a data directory, and this broker has none"
    assert town.everything() == before
    town.close()


# ---- who may

NEEDED = {
    "configure": [all_but("s"), all_but("s-0"), all_but("s-2")],
    "write": [all_but("s-0"), all_but("s-2")],
    "read": [all_but("s")],
}
FORBIDDEN = [(right, pattern) for right, patterns in NEEDED.items() for pattern in patterns]


@pytest.mark.parametrize(("right", "pattern"), FORBIDDEN)
def test_everything_it_takes_must_be_allowed(town: Streams, right: str, pattern: str) -> None:
    rights = {"configure": ".*", "write": ".*", "read": ".*", right: pattern}
    town.allow("bob", **rights)
    assert "refused for user 'bob'" in refused(lambda: town.create("s", who=town.bob), 403)
    assert town.super_streams.list("/") == []
    town.create("s")
    before = town.everything()
    assert "refused for user 'bob'" in refused(lambda: town.delete("s", town.bob), 403)
    assert town.everything() == before


def test_no_more_than_that_is_needed(town: Streams) -> None:
    town.allow("bob", "^s(-.*)?$", "^s-.*$", "^s$")
    town.create("s", who=town.bob)
    town.delete("s", town.bob)


# ---- deleting


@pytest.mark.parametrize("kind", KINDS)
def test_everything_of_it_goes_and_nothing_else(town: Streams, kind: str) -> None:
    town.create("other", 2, kind=kind)
    town.declare_queue("q", "classic")
    before = town.everything()
    town.create("s", kind=kind)
    town.bind("s", "q", "7")
    town.bind("other", "s-1", "9")
    assert town.delete("s") == ["s-0", "s-1", "s-2"]
    assert town.everything() == before
    vhost = town.broker.vhosts["/"]
    assert set(vhost.queues) == {b"other-0", b"other-1", b"q"}
    assert b"s" not in vhost.exchanges
    assert town.create("s", kind=kind) == ["s-0", "s-1", "s-2"]


def test_a_partition_that_is_gone_already_is_not_missed(town: Streams) -> None:
    town.create("s")
    town.topology.delete_queue(town.ann, "s-1", False, False)
    assert town.super_streams.partitions("/", "s") == ["s-0", "s-2"]
    assert town.delete("s") == ["s-0", "s-2"]
    assert town.super_streams.list("/") == []


def test_what_is_no_super_stream_is_not_deleted(town: Streams) -> None:
    town.declare_exchange("x")
    town.declare_queue("q")
    town.bind("x", "q")
    before = town.everything()
    assert refused(lambda: town.delete("x"), 404) == "exchange 'x' in vhost '/' is no super stream"
    assert refused(lambda: town.delete("nothing"), 404) == "no exchange 'nothing' in vhost '/'"
    assert refused(lambda: town.delete("amq.direct"), 404) == "exchange 'amq.direct' in vhost '/' is no super stream"
    assert town.everything() == before


# ---- looking


def test_by_hash_a_key_goes_to_one_partition_which_clients_would_choose(town: Streams) -> None:
    partitions = town.create("s", 7, kind="x-super-stream")
    for number in range(200):
        key = f"customer-{number}"
        assert town.super_streams.route("/", "s", key) == [partitions[murmur3_32(key.encode(), 104729) % 7]]


def test_by_key_a_key_goes_to_the_partition_that_has_it(town: Streams) -> None:
    town.create("s", ["emea", "apac"])
    assert town.super_streams.route("/", "s", "apac") == ["s-apac"]
    assert town.super_streams.route("/", "s", "africa") == []


def test_only_streams_are_partitions(town: Streams) -> None:
    town.create("s", ["a", "b"])
    town.declare_queue("q", "classic")
    town.bind("s", "q", "a")
    town.declare_exchange("x")
    town.topology.bind(town.ann, BindingRecord("/", "s", False, "x", "a", {}))
    assert town.super_streams.partitions("/", "s") == ["s-a", "s-b"]
    assert town.super_streams.route("/", "s", "a") == ["s-a"]


def test_what_others_have_put_together_is_one_too(town: Streams) -> None:
    """As people did before there was a call for it: numbers as text, the last one first, and one without."""
    town.declare_exchange("s", **{"x-super-stream": True})
    for name, arguments in (
        ("c", {}),
        ("b", {"x-stream-partition-order": "1"}),
        ("a", {"x-stream-partition-order": 0}),
    ):
        town.declare_queue(name)
        town.bind("s", name, f"key-{name}", **arguments)
    assert town.super_streams.list("/") == [SuperStream("s", "direct", ("a", "b", "c"), ("key-a", "key-b", "key-c"))]
    assert [town.super_streams.of_stream("/", name) for name in "abc"] == [
        Partition("s", 0),
        Partition("s", 1),
        Partition("s", 2),
    ]
    assert town.delete("s") == ["a", "b", "c"]


def test_a_stream_knows_its_super_stream_and_its_number(town: Streams) -> None:
    town.create("s", 3)
    town.declare_queue("alone")
    town.declare_exchange("x")
    town.bind("x", "alone", "5")
    assert town.super_streams.of_stream("/", "s-2") == Partition("s", 2)
    assert town.super_streams.of_stream("/", "alone") is None
    assert town.super_streams.of_stream("/", "nothing") is None
    # The number does not change when another partition goes.
    town.topology.delete_queue(town.ann, "s-1", False, False)
    assert town.super_streams.of_stream("/", "s-2") == Partition("s", 2)


def test_virtual_hosts_have_their_own(town: Streams) -> None:
    town.broker.apply(commands.PutVhost(Vhost("v")))
    town.create("s", 1)
    assert town.super_streams.list("v") == []
    assert refused(lambda: town.super_streams.partitions("v", "s"), 404) == "no exchange 's' in vhost 'v'"
    for look in (
        lambda: town.super_streams.partitions("w", "s"),
        lambda: town.super_streams.route("w", "s", "k"),
        lambda: town.super_streams.of_stream("w", "s-0"),
        lambda: town.super_streams.list("w"),
    ):
        assert refused(look, 404) == "no vhost 'w'"


def test_any_exchange_has_partitions_and_routes(town: Streams) -> None:
    """As in RabbitMQ: clients ask for those of exchanges that they have made themselves."""
    town.declare_exchange("x", "topic")
    town.declare_queue("q")
    town.broker.apply(commands.Bind(to_queue("x", "q", "a.*")))
    assert town.super_streams.partitions("/", "x") == ["q"]
    assert town.super_streams.route("/", "x", "a.b") == ["q"]
    assert town.super_streams.list("/") == []
