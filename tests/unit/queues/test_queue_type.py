"""The arguments of queues: known ones are checked, unknown ones ignored, and a type refuses what it does not take."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.catalog.records import QueueRecord
from leveret.core.queue.contract import Queue
from leveret.errors import SoftError
from leveret.queues.queue_type import ARGUMENT_CHECKS, validate_arguments

WHAT = "queue 'q' in vhost '/'"


class Liberal:
    """A type that takes every argument there is."""

    name = "liberal"
    module = "rabbit_liberal_queue"
    arguments = frozenset(ARGUMENT_CHECKS)

    def validate(self, record: QueueRecord, what: str) -> None:
        validate_arguments(self, record, what)

    def create(self, record: QueueRecord) -> Queue:
        raise NotImplementedError


class Strict(Liberal):
    module = "rabbit_strict_queue"
    arguments = frozenset({"x-expires"})


def record(arguments: dict[str, Any]) -> QueueRecord:
    return QueueRecord("/", "q", "liberal", True, False, 0, arguments)


def refusal(arguments: dict[str, Any], kind: Liberal | None = None) -> str:
    with pytest.raises(SoftError) as error:
        (kind or Liberal()).validate(record(arguments), WHAT)
    assert error.value.code == 406
    return error.value.text


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-mine": object()},
        {"x-message-ttl": 0, "x-expires": 1, "x-max-length": 0, "x-max-priority": 255},
        {"x-overflow": "reject-publish-dlx", "x-queue-mode": "lazy", "x-single-active-consumer": True},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": ""},
    ],
)
def test_good_and_unknown_arguments_pass(arguments: dict[str, Any]) -> None:
    Liberal().validate(record(arguments), WHAT)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-expires", 0, "{value_zero,0}"),
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", "60000", '"expected integer, got longstr"'),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-overflow", "drop-tail", "invalid_overflow"),
        ("x-overflow", 1, "{unacceptable_type,signedint}"),
        ("x-queue-mode", "hazy", "\"unsupported queue mode 'hazy'\""),
        ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
    ],
)
def test_a_bad_argument_is_refused_with_its_reason(name: str, value: Any, reason: str) -> None:
    assert refusal({name: value}) == f"invalid arg '{name}' for {WHAT}: {reason}"


def test_a_dead_letter_exchange_of_the_wrong_type_has_words_of_its_own() -> None:
    text = refusal({"x-dead-letter-exchange": 5})
    assert text == f"invalid arg 'x-dead-letter-exchange' for {WHAT}: {{unacceptable_type,signedint}}"


def test_an_argument_the_type_does_not_take_is_refused_whatever_its_value() -> None:
    text = refusal({"x-max-length": 5}, Strict())
    assert text == f"invalid arg 'x-max-length' for {WHAT} of queue type rabbit_strict_queue"
    Strict().validate(record({"x-expires": 5, "x-mine": 1}), WHAT)
