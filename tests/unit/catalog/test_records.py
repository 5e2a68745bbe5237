"""Records as data: each is told from the others by its tag, and comes back as it was."""

from __future__ import annotations

import msgspec
import pytest

from leveret.catalog.records import GlobalParameter, Parameter, Record, Suspension, TopicPermission, User, Vhost
from tests.unit.catalog.naming import exchange, job, permission, policy, queue, to_exchange, to_queue

EVERY_RECORD: list[Record] = [
    Vhost("v", "description", ("a",), "stream", True, True, {"max-queues": 3}),
    User("ann", "hash", ("administrator",), {"max-channels": 0}),
    permission("ann"),
    TopicPermission("ann", "/", "amq.topic", "^a", "^b"),
    Parameter("/", "shovel", "s", {"src-queue": "q", "list": [1, None, 1.5]}),
    GlobalParameter("g", True),
    exchange("x", True),
    queue("q", owner=3),
    to_queue("x", "q", "k"),
    to_exchange("x", "y"),
    policy("p", {"max-length": 5, "retry-delays": ["1s", 500]}, "^q", -1, "queues", operator=True),
    job("q", moved=3),
    Suspension("ann", "lost", 5),
]


@pytest.mark.parametrize("record", EVERY_RECORD, ids=lambda record: type(record).__name__)
def test_a_record_survives_being_written_and_read_back(record: Record) -> None:
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(record), type=Record)
    assert again == record
    assert type(again) is type(record)


def test_every_kind_of_record_is_tried() -> None:
    assert {type(record) for record in EVERY_RECORD} == set(Record.__args__)


def test_a_record_never_changes() -> None:
    with pytest.raises(AttributeError):
        Vhost("v").name = "w"  # type: ignore[misc]
