"""Finds a queue's type by its name."""

from __future__ import annotations

from leveret.catalog.records import Arguments
from leveret.core.codec.wording import shown_type
from leveret.errors import SoftError
from leveret.queues.classic import Classic
from leveret.queues.queue_type import QueueType
from leveret.queues.stream import Stream

DEFAULT = "classic"
_TYPES: dict[str, QueueType] = {queue_type.name: queue_type for queue_type in (Classic(), Stream())}


def queue_type(name: str) -> QueueType:
    return _TYPES[name]


def known_kind(name: object) -> QueueType | None:
    return _TYPES.get(name) if isinstance(name, str) else None


def kind_from_arguments(arguments: Arguments, what: str) -> str:
    """The type that x-queue-type asks for; `what` is the queue in a text, such as: queue 'q' in vhost '/'."""
    kind = arguments.get("x-queue-type", DEFAULT)
    if not isinstance(kind, str):
        raise SoftError(406, f"invalid arg 'x-queue-type' for {what}: {{unacceptable_type,{shown_type(kind)}}}")
    if kind not in _TYPES:
        raise SoftError(406, f"invalid arg 'x-queue-type' for {what}: \"unsupported queue type '{kind}'\"")
    return kind
