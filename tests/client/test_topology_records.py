"""Records say the same whichever way they are written, and what no broker could take is refused before it is sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from leveret.client.topology import Binding, Exchange, Queue, QueueCounts, QueueHandle
from leveret.client.topology.checks import check
from leveret.client.topology.records import describe

# ---- one meaning, one record


def test_a_well_known_argument_is_a_field_and_an_item() -> None:
    by_field = Queue("q", message_ttl_ms=5, max_length=10)
    by_item = Queue("q", arguments={"x-message-ttl": 5, "x-max-length": 10})
    assert by_field == by_item
    assert by_field.arguments == {"x-message-ttl": 5, "x-max-length": 10}
    assert by_item.message_ttl_ms == 5
    assert Exchange("x", alternate_exchange="y") == Exchange("x", arguments={"alternate-exchange": "y"})


def test_an_argument_that_is_given_twice_must_be_the_same() -> None:
    assert Queue("q", max_length=1, arguments={"x-max-length": 1}).max_length == 1
    with pytest.raises(ValueError, match="max_length is 1, but arguments has x-max-length 2"):
        Queue("q", max_length=1, arguments={"x-max-length": 2})


def test_unknown_arguments_are_kept() -> None:
    assert Queue("q", arguments={"x-new": [1]}).arguments == {"x-new": [1]}


def test_the_callers_table_is_not_shared() -> None:
    table: dict[str, Any] = {"x-new": [1]}
    queue, binding = Queue("q", arguments=table), Binding("x", "q", arguments=table)
    table["x-new"].append(2)
    assert queue.arguments == binding.arguments == {"x-new": [1]}


def test_replace() -> None:
    queue = Queue("q", max_length=1, message_ttl_ms=5)
    assert queue.replace(max_length=2) == Queue("q", max_length=2, message_ttl_ms=5)
    assert queue.replace(message_ttl_ms=None) == Queue("q", max_length=1)
    assert queue.replace(name="r") == Queue("r", max_length=1, message_ttl_ms=5)
    assert queue.replace(arguments={"x-expires": 9}) == Queue("q", expires_ms=9)


def test_a_record_shows_what_is_not_default() -> None:
    assert repr(Queue("q", max_length=1)) == "Queue(name='q', arguments={'x-max-length': 1}, max_length=1)"


# ---- what is refused


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (Exchange(""), "name must not be empty"),
        (Exchange("amq.mine"), "exchange 'amq.mine': name must not begin with amq."),
        (Exchange("x" * 256), "name must have at most 255 bytes, not 256"),
        (Exchange("ä" * 128), "name must have at most 255 bytes, not 256"),
        (Exchange(5), "name must be text, not 5"),
        (Exchange("x", ""), "type must not be empty"),
        (Exchange("x", durable=1), "durable must be True or False, not 1"),
        (Exchange("x", "x-delayed-message"), "delayed_type must say"),
        (Exchange("x", alternate_exchange=5), r"alternate_exchange \(alternate-exchange\) must be text"),
        (Queue("amq.gen-5"), "name must not begin with amq."),
        (Queue("q", exclusive="no"), "exclusive must be True or False"),
        (Queue("q", message_ttl_ms=-1), r"queue 'q': message_ttl_ms \(x-message-ttl\) must be at least 0, not -1"),
        (Queue("q", message_ttl_ms="5"), "must be a whole number, not '5'"),
        (Queue("q", message_ttl_ms=True), "must be a whole number, not True"),
        (Queue("q", arguments={"x-message-ttl": 10**12}), "must be at most"),
        (Queue("q", expires_ms=0), r"expires_ms \(x-expires\) must be at least 1"),
        (Queue("q", max_priority=256), "must be at most 255, not 256"),
        (Queue("q", overflow="drop"), "must be one of drop-head, reject-publish, reject-publish-dlx, not 'drop'"),
        (Queue("q", single_active_consumer=1), "must be true or false, not 1"),
        (Queue("q", dead_letter_routing_key="k"), "dead_letter_routing_key needs a dead_letter_exchange"),
        (Queue("q", queue_type="quorum", durable=False), "durable must be True for a quorum queue"),
        (Queue("q", queue_type="stream", exclusive=True), "exclusive must be False for a stream queue"),
        (Queue("q", arguments={"x": {1, 2}}), "argument 'x' holds set, which AMQP cannot carry"),
        (Queue("q", arguments={"x": [{"y": object()}]}), "argument 'x' holds object"),
        (Queue("q", arguments={"x": {5: 1}}), "argument 'x' must be text, not 5"),
        (Queue("q", arguments={"x": 1 << 63}), "argument 'x' does not fit in 64 bits"),
        (Queue("q", arguments={5: 1}), "argument 5 must be text"),
        (Binding("", "q"), "source must not be empty"),
        (Binding("x", ""), "destination must not be empty; use the queue's handle"),
        (Binding("x", "q", "k" * 256), "routing_key must have at most 255 bytes"),
        (Binding("x", "q", to="topic"), "to must be 'queue' or 'exchange', not 'topic'"),
        (Binding("x", QueueHandle(Queue(), "amq.gen-1", QueueCounts(0, 0)), to="exchange"), "destination is a queue"),
        (Binding("x", "q", arguments={"y": object()}), "argument 'y' holds object"),
        ("orders", "it is not an Exchange, Queue, Binding or Retry"),
    ],
)
def test_refused(thing: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check(thing)


def test_nesting_has_an_end() -> None:
    value: Any = 1
    for _ in range(40):
        value = [value]
    with pytest.raises(ValueError, match="nested deeper than 32"):
        check(Queue("q", arguments={"x": value}))


@pytest.mark.parametrize(
    "thing",
    [
        Exchange("amq.topic", "topic"),
        Exchange("x", "x-anything"),
        Exchange("x", "x-delayed-message", delayed_type="topic"),
        Queue(),
        Queue("x" * 255),
        Queue("q", message_ttl_ms=0, max_length=0, max_priority=0, dead_letter_exchange=""),
        Queue("q", queue_type="stream", max_age="7D"),
        Queue("q", arguments={"a": None, "b": [1.5, b"x", {"c": datetime(2026, 1, 1, tzinfo=UTC)}], "d": -(1 << 63)}),
        Binding("x", "q"),
        Binding("x", "y", to="exchange", arguments={"x-match": "all", "n": 1}),
    ],
)
def test_accepted(thing: Any) -> None:
    check(thing)


# ---- handles


def test_a_handle_knows_its_former_names() -> None:
    handle = QueueHandle(Queue(), "amq.gen-1", QueueCounts(0, 0))
    for number in range(2, 100):
        handle.rename(f"amq.gen-{number}")
    assert (handle.name, str(handle)) == ("amq.gen-99", "amq.gen-99")
    assert handle.knows("amq.gen-99") and handle.knows("amq.gen-98") and not handle.knows("amq.gen-1")


def test_descriptions() -> None:
    handle = QueueHandle(Queue(), "amq.gen-1", QueueCounts(0, 0))
    assert describe(Queue()) == "queue without a name"
    assert describe(handle) == "queue 'amq.gen-1'"
    assert describe(Binding("x", handle, "k")) == "binding of queue 'amq.gen-1' to exchange 'x' by 'k'"
    assert describe(Binding("x", "y", to="exchange")) == "binding of exchange 'y' to exchange 'x'"
