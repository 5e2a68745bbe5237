"""The classic queue type: which arguments it takes and what it makes of a record."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.catalog.records import QueueRecord
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.errors import SoftError
from leveret.queues.classic import Classic
from leveret.queues.queue_type import ARGUMENT_CHECKS

WHAT = "queue 'q' in vhost '/'"


def record(**arguments: Any) -> QueueRecord:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    return QueueRecord("/", "größe", "classic", True, False, 0, named)


def test_a_record_becomes_a_classic_queue_with_that_name_and_record() -> None:
    made = record()
    queue = Classic().create(made)
    assert isinstance(queue, ClassicQueue)
    assert (queue.name, queue.record, queue.single_active) == ("größe".encode(), made, False)


@pytest.mark.parametrize("single", [False, True])
def test_single_active_consumer_is_handed_to_the_queue(single: bool) -> None:
    assert Classic().create(record(x_single_active_consumer=single)).single_active is single


def test_a_name_may_hold_any_octets() -> None:
    made = QueueRecord("/", b"\xff".decode("utf-8", "surrogateescape"), "classic", True, False, 0, {})
    assert Classic().create(made).name == b"\xff"


@pytest.mark.parametrize("version", [1, 2])
def test_known_queue_versions(version: int) -> None:
    Classic().validate(record(x_queue_version=version), WHAT)


@pytest.mark.parametrize("version", [0, 3])
def test_an_unknown_queue_version_is_refused(version: int) -> None:
    with pytest.raises(SoftError) as refusal:
        Classic().validate(record(x_queue_version=version), WHAT)
    assert refusal.value.code == 406
    assert refusal.value.text == f"invalid arg 'x-queue-version' for {WHAT}: \"unsupported queue version '{version}'\""


@pytest.mark.parametrize("name", ["x-max-age", "x-quorum-initial-group-size"])
def test_arguments_of_other_types_are_refused(name: str) -> None:
    assert name in ARGUMENT_CHECKS
    with pytest.raises(SoftError, match=f"invalid arg '{name}' for .* of queue type rabbit_classic_queue"):
        Classic().validate(QueueRecord("/", "q", "classic", True, False, 0, {name: 5}), WHAT)


def test_every_argument_it_takes_has_a_check() -> None:
    assert Classic.arguments <= set(ARGUMENT_CHECKS)
