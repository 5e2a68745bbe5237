"""How a producer behaves: every option once, with its default."""

from __future__ import annotations

import msgspec

__all__ = ["ProducerOptions"]


class ProducerOptions(msgspec.Struct, frozen=True, kw_only=True):
    # The broker answers for every message, and what it does not answer for is sent again. Without, a message is written
    # and forgotten: publish waits only for the socket.
    confirms: bool = True
    # How many messages, and how many bytes of bodies, may be under way; whoever publishes more waits.
    window: int = 10_000
    window_bytes: int = 16 * 1024 * 1024
    # For a publish that names no deadline of its own; None is the connection's deadline_s.
    deadline_s: float | None = None
    # How often a message is tried again that the broker has refused, for example because a queue is full; the pauses
    # grow from the first to the second.
    retry_refused: int = 0
    retry_pause_min_s: float = 0.1
    retry_pause_max_s: float = 5.0
    # Every message has the header x-deduplication-header with its message id in it, so that queues and exchanges with
    # deduplication (of Leveret, and of RabbitMQ's plugin of that name) take it once, however often it is sent.
    deduplicate: bool = False
    # For streams of Leveret: a name under which the stream remembers the last message. It must be of one producer only.
    publishing_name: str | None = None

    def check(self) -> None:
        """Raises ValueError, naming the option."""
        if self.deadline_s is not None and self.deadline_s <= 0:
            raise ValueError(f"deadline_s is {self.deadline_s}, and must be above 0")
        if self.retry_refused < 0:
            raise ValueError(f"retry_refused is {self.retry_refused}, and must not be below 0")
        if not 0 < self.retry_pause_min_s <= self.retry_pause_max_s:
            raise ValueError("retry_pause_min_s must be above 0, and not above retry_pause_max_s")
        if self.publishing_name is not None and self.retry_refused:
            # A stream takes a number that is not above the last one for a message that it has.
            raise ValueError("publishing_name needs messages in their order, and so cannot be used with retry_refused")
        if self.publishing_name is not None and not 0 < len(self.publishing_name.encode()) <= 255:
            raise ValueError("publishing_name is empty or has more than 255 bytes")
        if not self.confirms and (self.deduplicate or self.publishing_name is not None or self.retry_refused):
            raise ValueError("without confirms nothing is sent again, and so nothing to deduplicate or to retry")
