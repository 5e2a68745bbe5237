"""Declaring, deleting and binding: RabbitMQ's rules, who may do what, and what is left alone after a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from leveret.catalog.records import BindingRecord, ExchangeRecord
from leveret.core.codec.field_types import Int64
from leveret.errors import AmqpError, HardError, SoftError
from tests.unit.broker.people import Person, Town
from tests.unit.catalog.naming import to_exchange, to_queue
from tests.unit.queues.dataplane import Workbench, message


@pytest.fixture
def town() -> Iterator[Town]:
    made = Town()
    yield made
    made.close()


def declare(town: Town, name: str, who: Person | None = None, **properties: Any) -> Any:
    flags = {"durable": False, "exclusive": False, "auto_delete": False, "arguments": {}, **properties}
    return town.topology.declare_queue(who or town.ann, name, **flags)


def declare_exchange(town: Town, name: str, kind: str = "direct", who: Person | None = None, **properties: Any) -> None:
    flags = {"durable": False, "auto_delete": False, "internal": False, "arguments": {}, **properties}
    town.topology.declare_exchange(who or town.ann, ExchangeRecord("/", name, kind, **flags))


def refused(call: Callable[[], Any], code: int, kind: type[AmqpError] = SoftError) -> str:
    with pytest.raises(kind) as refusal:
        call()
    assert refusal.value.code == code
    return refusal.value.text


# ---- queues


def test_a_declared_queue_is_found_by_its_name(town: Town) -> None:
    queue = declare(town, "q")
    assert town.topology.find_queue(town.bob, "q") is queue
    assert declare(town, "q") is queue


def test_a_queue_without_a_name_gets_one(town: Town) -> None:
    assert declare(town, "").record.name == "amq.gen-0000000000000000000001"
    assert declare(town, "").record.name == "amq.gen-0000000000000000000002"


def test_line_ends_in_a_name_are_dropped(town: Town) -> None:
    assert declare(town, "a\r\nb\n").record.name == "ab"
    assert town.topology.delete_queue(town.ann, "a\nb", False, False) == 0
    refused(lambda: town.topology.find_queue(town.ann, "ab"), 404)


def test_a_missing_queue_is_not_found(town: Town) -> None:
    assert refused(lambda: town.topology.find_queue(town.ann, "q"), 404) == "no queue 'q' in vhost '/'"


def test_reserved_names_are_refused(town: Town) -> None:
    text = refused(lambda: declare(town, "amq.mine"), 403)
    assert text == "queue name 'amq.mine' contains reserved prefix 'amq.*'"


@pytest.mark.parametrize("name", ["durable", "auto_delete"])
def test_declaring_again_with_another_property_is_refused(town: Town, name: str) -> None:
    declare(town, "q")
    text = refused(lambda: declare(town, "q", **{name: True}), 406)
    assert text == f"inequivalent arg '{name}' for queue 'q' in vhost '/': received 'true' but current is 'false'"


def test_declaring_again_with_another_argument_is_refused_and_unknown_ones_are_ignored(town: Town) -> None:
    declare(town, "q", arguments={"x-max-length": 5, "x-mine": 1})
    declare(town, "q", arguments={"x-max-length": Int64(5), "x-other": 2})
    assert "x-max-length" in refused(lambda: declare(town, "q", arguments={"x-max-length": 6}), 406)
    assert "x-max-length" in refused(lambda: declare(town, "q"), 406)
    assert "x-expires" in refused(lambda: declare(town, "q", arguments={"x-max-length": 5, "x-expires": 9}), 406)


def test_not_asking_for_a_type_takes_the_queue_as_it_is(town: Town) -> None:
    declare(town, "typed", arguments={"x-queue-type": "classic"})
    declare(town, "typed")
    declare(town, "untyped")
    declare(town, "untyped", arguments={"x-queue-type": "classic"})


def test_a_queue_that_is_refused_does_not_exist(town: Town) -> None:
    refused(lambda: declare(town, "q", arguments={"x-max-length": -1}), 406)
    assert town.broker.catalog.topologies["/"].queues == {}


def test_an_exclusive_queue_belongs_to_its_connection(town: Town) -> None:
    queue = declare(town, "q", exclusive=True)
    assert declare(town, "q", exclusive=True) is queue
    for call in (
        lambda: town.topology.find_queue(town.bob, "q"),
        lambda: town.topology.delete_queue(town.bob, "q", False, False),
        lambda: town.topology.purge_queue(town.bob, "q"),
        lambda: town.topology.bind(town.bob, to_queue("amq.fanout", "q")),
        lambda: town.topology.unbind(town.bob, to_queue("amq.fanout", "q")),
        lambda: declare(town, "q", town.bob, exclusive=True),
        lambda: declare(town, "q", town.bob),
        lambda: declare(town, "q"),
    ):
        assert refused(call, 405).startswith("cannot obtain exclusive access to locked queue 'q' in vhost '/'.")


def test_exclusive_queues_go_with_their_connection(town: Town) -> None:
    declare(town, "a", exclusive=True)
    declare(town, "b", exclusive=True)
    declare(town, "shared")
    declare(town, "bobs", town.bob, exclusive=True)
    town.topology.connection_left(town.ann.vhost, town.ann.connection_id)
    assert set(town.broker.catalog.topologies["/"].queues) == {"shared", "bobs"}


def test_delete_says_how_many_messages_went_and_nothing_for_what_is_missing(town: Town) -> None:
    queue = declare(town, "q")
    queue.publish(message())
    queue.publish(message())
    assert town.topology.delete_queue(town.ann, "q", False, False) == 2
    assert town.topology.delete_queue(town.ann, "q", True, True) == 0


def test_delete_if_empty_and_if_unused(town: Town) -> None:
    queue, bench = declare(town, "q"), Workbench()
    queue.publish(message())
    assert refused(lambda: town.topology.delete_queue(town.ann, "q", False, True), 406).endswith("not empty")
    consumer = bench.consume(bench.open_channel(), queue)
    assert refused(lambda: town.topology.delete_queue(town.ann, "q", True, False), 406).endswith("in use")
    queue.unsubscribe(consumer)
    assert town.topology.delete_queue(town.ann, "q", True, True) == 0


def test_purge_empties_and_counts(town: Town) -> None:
    queue = declare(town, "q")
    for _ in range(3):
        queue.publish(message())
    assert town.topology.purge_queue(town.ann, "q") == 3
    assert queue.ready_count() == 0
    refused(lambda: town.topology.purge_queue(town.ann, "missing"), 404)


def test_an_auto_delete_queue_goes_with_its_last_consumer(town: Town) -> None:
    queue, bench = declare(town, "q", auto_delete=True), Workbench()
    channel = bench.open_channel()
    one, two = bench.consume(channel, queue, "one"), bench.consume(channel, queue, "two")
    queue.unsubscribe(one)
    town.topology.consumer_left(town.ann.vhost, queue)
    assert not queue.deleted
    queue.unsubscribe(two)
    town.topology.consumer_left(town.ann.vhost, queue)
    assert queue.deleted
    town.topology.consumer_left(town.ann.vhost, queue)


def test_a_queue_that_is_not_auto_delete_stays(town: Town) -> None:
    queue = declare(town, "q")
    town.topology.consumer_left(town.ann.vhost, queue)
    assert not queue.deleted


# ---- exchanges


def test_a_declared_exchange_exists_and_may_be_declared_again(town: Town) -> None:
    declare_exchange(town, "x", "topic", durable=True)
    declare_exchange(town, "x", "topic", durable=True)
    town.topology.declare_exchange_passively(town.bob, "x")
    text = refused(lambda: town.topology.declare_exchange_passively(town.ann, "y"), 404)
    assert text == "no exchange 'y' in vhost '/'"


@pytest.mark.parametrize(
    ("change", "arg"),
    [
        ({"kind": "fanout"}, "type"),
        ({"durable": True}, "durable"),
        ({"auto_delete": True}, "auto_delete"),
        ({"internal": True}, "internal"),
        ({"arguments": {"alternate-exchange": "y"}}, "alternate-exchange"),
    ],
)
def test_declaring_an_exchange_again_otherwise_is_refused(town: Town, change: dict[str, Any], arg: str) -> None:
    declare_exchange(town, "x")
    text = refused(lambda: declare_exchange(town, "x", **change), 406)
    assert text.startswith(f"inequivalent arg '{arg}' for exchange 'x' in vhost '/': ")


def test_an_unknown_exchange_type_ends_the_connection(town: Town) -> None:
    assert (
        refused(lambda: declare_exchange(town, "x", "nonsense"), 503, HardError) == "unknown exchange type 'nonsense'"
    )
    assert refused(lambda: declare_exchange(town, "x", ""), 503, HardError) == "invalid exchange type ''"


def test_the_default_exchange_is_nobodys_to_touch(town: Town) -> None:
    declare(town, "q")
    for call in (
        lambda: declare_exchange(town, ""),
        lambda: town.topology.declare_exchange_passively(town.ann, ""),
        lambda: town.topology.delete_exchange(town.ann, "", False),
        lambda: town.topology.bind(town.ann, to_queue("", "q", "q")),
        lambda: town.topology.unbind(town.ann, to_queue("", "q", "q")),
        lambda: town.topology.bind(town.ann, to_exchange("amq.fanout", "")),
    ):
        assert refused(call, 403) == "operation not permitted on the default exchange"


def test_system_exchanges_can_be_declared_as_they_are_but_not_made_or_deleted(town: Town) -> None:
    declare_exchange(town, "amq.topic", "topic", durable=True)
    assert "reserved prefix" in refused(lambda: declare_exchange(town, "amq.mine"), 403)
    text = refused(lambda: town.topology.delete_exchange(town.ann, "amq.topic", False), 403)
    assert text == "deletion of system exchange 'amq.topic' in vhost '/' not allowed"


def test_an_exchange_in_use_is_not_deleted_if_unused(town: Town) -> None:
    declare_exchange(town, "x")
    declare(town, "q")
    town.topology.bind(town.ann, to_queue("x", "q", "k"))
    assert refused(lambda: town.topology.delete_exchange(town.ann, "x", True), 406).endswith("in use")
    town.topology.unbind(town.ann, to_queue("x", "q", "k"))
    town.topology.delete_exchange(town.ann, "x", True)
    town.topology.delete_exchange(town.ann, "x", False)
    refused(lambda: town.topology.check_exchange_exists(town.ann, "x"), 404)


# ---- bindings


def test_a_binding_needs_both_ends(town: Town) -> None:
    declare(town, "q")
    for binding, missing in (
        (to_queue("x", "q"), "exchange 'x'"),
        (to_queue("amq.fanout", "nobody"), "queue 'nobody'"),
        (to_exchange("amq.fanout", "y"), "exchange 'y'"),
    ):
        text = refused(lambda binding=binding: town.topology.bind(town.ann, binding), 404)
        assert text == f"no {missing} in vhost '/'"


@pytest.mark.parametrize("binding", [to_queue("x", "q"), to_queue("amq.fanout", "nobody"), to_exchange("x", "y")])
def test_undoing_a_binding_that_is_not_there_is_no_error(town: Town, binding: BindingRecord) -> None:
    town.topology.unbind(town.ann, binding)


def test_a_binding_that_makes_no_sense_to_its_exchange_is_refused_and_not_made(town: Town) -> None:
    declare_exchange(town, "hash", "x-consistent-hash")
    declare(town, "q")
    refused(lambda: town.topology.bind(town.ann, to_queue("hash", "q", "not a number")), 406)
    assert "hash" not in town.broker.catalog.topologies["/"].bindings_from


# ---- permissions

NEEDS: list[tuple[str, set[tuple[str, str]], Callable[[Town, Person], Any]]] = [
    ("declare a queue", {("configure", "q")}, lambda town, who: declare(town, "q", who)),
    ("declare a reserved queue", {("configure", "amq.q")}, lambda town, who: declare(town, "amq.q", who)),
    (
        "declare a queue with a dead letter exchange",
        {("configure", "q"), ("read", "q"), ("write", "dlx")},
        lambda town, who: declare(town, "q", who, arguments={"x-dead-letter-exchange": "dlx"}),
    ),
    (
        "declare a queue with a parking lot",
        {("configure", "q"), ("read", "q"), ("write", "amq.default"), ("configure", "lot")},
        lambda town, who: declare(town, "q", who, arguments={"x-parking-lot": "lot"}),
    ),
    ("delete a queue", {("configure", "old")}, lambda town, who: town.topology.delete_queue(who, "old", False, False)),
    ("purge", {("read", "old")}, lambda town, who: town.topology.purge_queue(who, "old")),
    ("declare an exchange", {("configure", "x")}, lambda town, who: declare_exchange(town, "x", who=who)),
    (
        "declare an exchange with an alternate",
        {("configure", "x"), ("read", "x"), ("write", "spare")},
        lambda town, who: declare_exchange(town, "x", who=who, arguments={"alternate-exchange": "spare"}),
    ),
    ("delete an exchange", {("configure", "x")}, lambda town, who: town.topology.delete_exchange(who, "x", False)),
    (
        "bind",
        {("write", "old"), ("read", "amq.fanout")},
        lambda town, who: town.topology.bind(who, to_queue("amq.fanout", "old")),
    ),
    (
        "unbind",
        {("write", "old"), ("read", "amq.fanout")},
        lambda town, who: town.topology.unbind(who, to_queue("amq.fanout", "old")),
    ),
    (
        "bind exchanges",
        {("write", "amq.topic"), ("read", "amq.fanout")},
        lambda town, who: town.topology.bind(who, to_exchange("amq.fanout", "amq.topic")),
    ),
]


@pytest.mark.parametrize(("needs", "call"), [row[1:] for row in NEEDS], ids=[row[0] for row in NEEDS])
def test_what_is_needed_is_enough_and_nothing_of_it_can_be_missing(
    town: Town, needs: set[tuple[str, str]], call: Callable[[Town, Person], Any]
) -> None:
    declare(town, "old")

    def grant(given: set[tuple[str, str]]) -> None:
        patterns = {
            kind: "|".join(f"^{name}$" for k, name in given if k == kind) for kind in ("configure", "write", "read")
        }
        town.allow("bob", **patterns)
        town.bob.access.forget()

    for missing in needs:
        grant(needs - {missing})
        text = refused(lambda: call(town, town.bob), 403)
        assert f"'{missing[1]}' in vhost '/' refused for user 'bob'" in text
    grant(needs)
    if "amq.q" in {name for _, name in needs}:
        assert "reserved prefix" in refused(lambda: call(town, town.bob), 403)
    else:
        call(town, town.bob)


def test_looking_at_what_exists_needs_no_permission(town: Town) -> None:
    declare(town, "q")
    town.allow("bob", "", "", "")
    town.bob.access.forget()
    town.topology.find_queue(town.bob, "q")
    town.topology.declare_exchange_passively(town.bob, "amq.topic")
