"""What a shovel is told, read from the value of its parameter. The value was found valid when it was set."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["DELETE_AT_QUEUE_LENGTH", "End", "ShovelSpec", "read_shovel"]

ON_CONFIRM, ON_PUBLISH, NO_ACK = "on-confirm", "on-publish", "no-ack"
PREFETCH = 1000
RECONNECT_DELAY_S = 5
# Of `delete_after`: as many messages as the queue has when the shovel starts.
DELETE_AT_QUEUE_LENGTH = -2
NEVER = -1


class End(msgspec.Struct, frozen=True):
    """One side: a queue, or an exchange with a key, or neither at a destination that takes messages where they were
    published to before."""

    uris: tuple[str, ...]
    queue: str | None = None
    queue_arguments: dict[str, Any] = {}
    exchange: str | None = None
    key: str | None = None
    # Whether the queue is there, and is not to be declared.
    predeclared: bool = False


class ShovelSpec(msgspec.Struct, frozen=True):
    source: End
    destination: End
    consumer_arguments: dict[str, Any] = {}
    prefetch: int = PREFETCH
    ack_mode: str = ON_CONFIRM
    delete_after: int = NEVER
    add_forward_headers: bool = False
    add_timestamp_header: bool = False
    publish_properties: dict[str, Any] = {}
    reconnect_delay_s: float = RECONNECT_DELAY_S


def read_shovel(value: dict[str, Any]) -> ShovelSpec:
    def get(*names: str, default: Any = None) -> Any:
        return next((value[name] for name in names if name in value), default)

    return ShovelSpec(
        source=End(
            uris=_uris(value["src-uri"]),
            queue=get("src-queue"),
            queue_arguments=get("src-queue-args") or {},
            exchange=get("src-exchange"),
            key=get("src-exchange-key"),
            predeclared=get("src-predeclared", default=False),
        ),
        destination=End(
            uris=_uris(value["dest-uri"]),
            queue=get("dest-queue"),
            queue_arguments=get("dest-queue-args") or {},
            exchange=get("dest-exchange"),
            key=get("dest-exchange-key"),
            predeclared=get("dest-predeclared", default=False),
        ),
        consumer_arguments=get("src-consumer-args") or {},
        prefetch=get("src-prefetch-count", "prefetch-count", default=PREFETCH),
        ack_mode=get("ack-mode", default=ON_CONFIRM),
        delete_after=_delete_after(get("src-delete-after", "delete-after", default="never")),
        add_forward_headers=get("dest-add-forward-headers", "add-forward-headers", default=False),
        add_timestamp_header=get("dest-add-timestamp-header", "add-timestamp-header", default=False),
        publish_properties=get("dest-publish-properties", "publish-properties") or {},
        reconnect_delay_s=get("reconnect-delay", default=RECONNECT_DELAY_S),
    )


def _uris(given: str | list[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _delete_after(given: str | int) -> int:
    if given == "never":
        return NEVER
    return DELETE_AT_QUEUE_LENGTH if isinstance(given, str) else given
