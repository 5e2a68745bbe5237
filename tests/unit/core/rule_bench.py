"""A classic queue with rules, in the time that a test says it is."""

from __future__ import annotations

from typing import Any

from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.office import REASONS, Office
from leveret.core.queue.rules import Rules
from tests.unit.core.fake_disk import FakeDisk
from tests.unit.core.takers import ready_bodies
from tests.unit.queues.dataplane import message

NOW = 1_700_000_000_000


class Bench:
    """A queue with these rules, and an office that notes alarms."""

    def __init__(self, disk: FakeDisk | None = None, features: dict[str, Any] | None = None, **rules: Any) -> None:
        self.alarms: list[int] = []
        self.office = Office(NOW, alarm=lambda _who, due: self.alarms.append(due))
        features = {"office": self.office, **(features or {})}
        self.queue = ClassicQueue(b"q", None, **features) if disk is None else disk.queue(**features)
        if rules:
            self.queue.set_rules(Rules(**rules))

    def publish(self, *bodies: bytes, **properties: Any) -> int:
        for body in bodies:
            one = message(body, **properties)
            one.stamp = self.office.now
            answer = self.queue.publish(one)
        return answer

    def keep(self, *bodies: bytes, **properties: Any) -> None:
        self.publish(*bodies, delivery_mode=2, **properties)

    def at(self, after_ms: int) -> None:
        """Goes to this moment and rings."""
        self.office.now = NOW + after_ms
        self.queue.ring()

    def letters(self) -> list[tuple[str, bytes]]:
        return [(REASONS[letter.reason], letter.message.body) for letter in self.office.letters]

    def ready(self) -> list[bytes]:
        return ready_bodies(self.queue)
