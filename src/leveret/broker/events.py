"""What happens to the broker as a whole, told as it happens: things that come and go, connections, alarms.

Keeps the last of them, so that whoever was away for a moment misses nothing, and tells everybody who listens. One who
does not keep up loses his place and is told how many he has missed. Nothing is kept on disk and nothing about messages
is told here."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from leveret.broker.connected import Connected
from leveret.catalog.commands import Added, Change
from leveret.catalog.records import (
    BindingRecord,
    ExchangeRecord,
    Permission,
    Policy,
    QueueRecord,
    Suspension,
    TopicPermission,
    User,
    Vhost,
)

RING = 2048
LISTENERS_MAX = 64


class Event(msgspec.Struct, frozen=True):
    """`vhost` is None for what belongs to none; `user` is set for what is that user's own."""

    id: int
    at_ms: int
    kind: str
    vhost: str | None
    user: str | None
    what: dict[str, Any]


class Events:
    def __init__(self, first_id: int) -> None:
        """Ids grow from the first one on; if that is the time, also over restarts."""
        self._next_id = first_id
        self._ring: deque[Event] = deque(maxlen=RING)
        self._signals: set[asyncio.Event] = set()
        self._closed = False
        self.events_total = 0

    @property
    def listener_count(self) -> int:
        return len(self._signals)

    # ---- telling

    def tell(
        self, kind: str, now_ms: int, what: dict[str, Any], vhost: str | None = None, user: str | None = None
    ) -> None:
        self._ring.append(Event(self._next_id, now_ms, kind, vhost, user, what))
        self._next_id += 1
        self.events_total += 1
        for signal in self._signals:
            signal.set()

    def changed(self, change: Change, now_ms: int) -> None:
        """A record of the catalog came or went."""
        told = _told(change)
        if told is not None:
            kind, vhost, what = told
            self.tell(kind, now_ms, what, vhost)

    def connection(self, kind: str, connection: Connected, now_ms: int) -> None:
        vhost, user = connection.vhost_name, connection.user
        what = {"name": connection.name, "user": user, "vhost": vhost, "protocol": connection.protocol}
        self.tell(kind, now_ms, what, vhost, user)

    # ---- listening

    async def listen(self, after: int | None, wait_s: float) -> AsyncGenerator[Event | int | None, None]:
        """Events behind the one with this id, or those from now on. A number is how many were missed; None comes when
        nothing has happened for so long. Ends with the broker."""
        if len(self._signals) >= LISTENERS_MAX:
            return
        signal = asyncio.Event()
        following = self._next_id if after is None else after + 1
        self._signals.add(signal)
        try:
            while not self._closed:
                signal.clear()
                oldest = self._ring[0].id if self._ring else self._next_id
                if following > self._next_id:
                    # Of another life, whose clock was ahead.
                    following = oldest
                if following < oldest:
                    yield oldest - following
                    following = oldest
                for event in self._since(following):
                    following = event.id + 1
                    yield event
                if following == self._next_id and not self._closed:
                    try:
                        await asyncio.wait_for(signal.wait(), wait_s)
                    except TimeoutError:
                        yield None
        finally:
            self._signals.discard(signal)

    def _since(self, following: int) -> list[Event]:
        behind = self._next_id - following
        return [] if behind <= 0 else list(self._ring)[-behind:]

    def close(self) -> None:
        self._closed = True
        for signal in self._signals:
            signal.set()


def _told(change: Change) -> tuple[str, str | None, dict[str, Any]] | None:
    record = change.record
    created = "created" if isinstance(change, Added) else "deleted"
    # Users, permissions and policies are put, and may have been there before.
    put = "put" if isinstance(change, Added) else "deleted"
    if isinstance(record, QueueRecord):
        what = {"name": record.name, "vhost": record.vhost, "durable": record.durable, "type": record.kind}
        return f"queue.{created}", record.vhost, what
    if isinstance(record, ExchangeRecord):
        return f"exchange.{created}", record.vhost, {"name": record.name, "vhost": record.vhost, "type": record.kind}
    if isinstance(record, BindingRecord):
        what = {
            "source": record.source,
            "vhost": record.vhost,
            "destination": record.destination,
            "destination_type": "queue" if record.to_queue else "exchange",
            "routing_key": record.routing_key,
        }
        return f"binding.{created}", record.vhost, what
    if isinstance(record, Policy):
        kind = "operator_policy" if record.operator else "policy"
        return f"{kind}.{put}", record.vhost, {"name": record.name, "vhost": record.vhost, "pattern": record.pattern}
    if isinstance(record, Vhost):
        return f"vhost.{put}", record.name, {"name": record.name}
    if isinstance(record, User):
        return f"user.{put}", None, {"name": record.name}
    if isinstance(record, Suspension):
        return f"user.{'suspended' if isinstance(change, Added) else 'released'}", None, {"name": record.user}
    if isinstance(record, Permission | TopicPermission):
        return f"permission.{put}", record.vhost, {"user": record.user, "vhost": record.vhost}
    return None
