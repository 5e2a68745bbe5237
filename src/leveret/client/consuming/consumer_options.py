"""How a consumer behaves: every option once, with its default."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from leveret.client.consuming.poison import OnError, RetryPlan
from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets

__all__ = ["ConsumerOptions", "read_consumer_options"]

# What the fields of basic.qos and basic.consume can hold.
PREFETCH: Final = 10
PREFETCH_MAX: Final = 65535
PREFETCH_SIZE_MAX: Final = 2**32 - 1


class ConsumerOptions(msgspec.Struct, frozen=True, kw_only=True):
    # How many unsettled deliveries may be with us at a time; 0 is any number. By default 10, or as many as `run` and
    # `run_batches` work on at a time if that is more.
    prefetch: int | None = None
    # How many bytes of them: one more is sent as long as there are fewer. 0 is any number, and all that RabbitMQ takes.
    prefetch_size: int = 0
    # The broker forgets a message when it has sent it: fast, and whatever is here is lost if anything happens.
    no_ack: bool = False
    # A delivery of `async for` is acknowledged when the loop comes back for the next one.
    auto_ack: bool = False
    # Nobody else may consume from the queue.
    exclusive: bool = False
    # Of basic.consume, such as {"x-priority": 5}.
    arguments: Mapping[str, Any] = {}
    # The consumer's name at the broker. By default a random one; it must be unique on the connection.
    tag: str = ""
    # A topology.Retry: failures come again after its delay, and are parked after too many.
    retry: RetryPlan | None = None
    # "requeue", "reject" or "retry". By default "retry" if there is a plan for that, else "requeue".
    on_error: str = ""
    # What was delivered so often before is poison: it is put aside instead of being handed out.
    max_deliveries: int | None = None
    # How long a worker waits before it puts a failure back into the queue, from where it comes again at once.
    requeue_pause_s: float = 0.1
    # When the queue is deleted: "retry" to consume again as soon as it is back, or "raise".
    on_cancel: str = "retry"
    # How long to try to consume again over an open connection before the consumer ends.
    retry_for_s: float = 60.0
    # Where the broker sends as much as it has: what may wait here before nothing of the connection is read.
    waiting_max: int = 10_000
    waiting_bytes_max: int = 64 * 1024 * 1024
    # For the start and for the end; by default the connection's.
    deadline_s: float | None = None

    def __post_init__(self) -> None:
        _check(self)
        if not self.tag:
            msgspec.structs.force_setattr(self, "tag", f"leveret-{secrets.token_hex(8)}")
        if not self.on_error:
            msgspec.structs.force_setattr(self, "on_error", "requeue" if self.retry is None else "retry")

    @property
    def is_unbounded(self) -> bool:
        """The broker sends as much as it has: then we must stop reading when it is too much."""
        return self.no_ack or self.prefetch == self.prefetch_size == 0


def read_consumer_options(given: Mapping[str, Any]) -> ConsumerOptions:
    """Raises TypeError or ValueError, naming the option."""
    unknown = given.keys() - set(ConsumerOptions.__struct_fields__)
    if unknown:
        raise TypeError(f"a consumer has no option {', '.join(sorted(unknown))}")
    return ConsumerOptions(**given)


def _check(options: ConsumerOptions) -> None:
    if options.prefetch is not None and not 0 <= options.prefetch <= PREFETCH_MAX:
        raise ValueError(f"prefetch is {options.prefetch}, not from 0 to {PREFETCH_MAX}")
    if not 0 <= options.prefetch_size <= PREFETCH_SIZE_MAX:
        raise ValueError(f"prefetch_size is {options.prefetch_size}, not from 0 to {PREFETCH_SIZE_MAX}")
    if len(name_octets(options.tag)) > NAME_OCTETS_MAX:
        raise ValueError(f"tag has more than {NAME_OCTETS_MAX} bytes")
    if options.on_cancel not in ("retry", "raise"):
        raise ValueError(f"on_cancel is {options.on_cancel!r}, not 'retry' or 'raise'")
    ways = [one.value for one in OnError]
    if options.on_error not in ("", *ways):
        raise ValueError(f"on_error is {options.on_error!r}, not one of {', '.join(ways)}")
    if options.on_error == OnError.RETRY.value and options.retry is None:
        raise ValueError("on_error='retry' needs a retry: after which delays, and where it is parked")
    if options.max_deliveries is not None and options.max_deliveries < 1:
        raise ValueError(f"max_deliveries is {options.max_deliveries}, and must be at least 1")
    for name in ("waiting_max", "waiting_bytes_max"):
        if getattr(options, name) < 1:
            raise ValueError(f"{name} is {getattr(options, name)}, and must be at least 1")
    for name in ("requeue_pause_s", "retry_for_s"):
        if getattr(options, name) < 0:
            raise ValueError(f"{name} is {getattr(options, name)}, and must not be negative")
    if options.no_ack and (options.auto_ack or options.retry is not None or options.max_deliveries is not None):
        raise ValueError("with no_ack nothing is settled: auto_ack, retry and max_deliveries make no sense")
