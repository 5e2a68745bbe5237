"""Consumer groups of streams: of all members of a group exactly one reads its stream, and the others wait.

Owns who is in which group, who is active, and the way from one to the next. Knows neither streams nor protocols: a
member is whoever can be told to begin and to stop. Members are AMQP consumers and subscriptions of the stream protocol,
which join when they begin and leave when they go, for whatever reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from leveret.broker.timer_queue import TimerQueue
from leveret.errors import SoftError
from leveret.runtime.log import get_logger

log = get_logger(__name__)

# How long a member has to come to an end with what it was given, unless the broker is told otherwise.
HANDOVER_DEADLINE_MS = 60_000


class Member(Protocol):
    def activate(self) -> None:
        """It is this one's turn. Where it begins is its own business: nobody else of the group reads now."""

    def deactivate(self, done: Callable[[], None]) -> None:
        """From this call on it gets nothing more of the stream. It calls `done` once it is through with what it got, at
        once or later; until then nobody follows. After the deadline it is not waited for any longer, and may be
        activated again all the same."""


class GroupKey(msgspec.Struct, frozen=True):
    """Names a group. One that reads a partition of a super stream has the partition's number too, which spreads the
    partitions over the members; it takes no part in the name."""

    vhost: str
    stream: str
    name: str
    partition_index: int | None = None


class Handover:
    """A member that is on its way from active to waiting. `due_ms` is when it is not waited for any longer."""

    def __init__(self, member: Member, due_ms: int) -> None:
        self.member = member
        self.due_ms = due_ms


class StreamGroups:
    """`timers` and `now_ms` are the broker's: they end handovers that take too long."""

    def __init__(
        self, timers: TimerQueue, now_ms: Callable[[], int], handover_deadline_ms: int = HANDOVER_DEADLINE_MS
    ) -> None:
        assert handover_deadline_ms > 0
        self.timers = timers
        self.now_ms = now_ms
        self.handover_deadline_ms = handover_deadline_ms
        # By virtual host, stream and name. A group without members is none.
        self._groups: dict[tuple[str, str, str], Group] = {}
        self.handovers_total = 0
        # Handovers that took longer than they may.
        self.overdue_total = 0

    def __len__(self) -> int:
        return len(self._groups)

    def join(self, key: GroupKey, member: Member) -> None:
        """The member is activated when it is its turn: before this returns if there is nobody to wait for."""
        group = self._groups.get(_name(key))
        if group is None:
            assert key.partition_index is None or key.partition_index >= 0
            group = self._groups[_name(key)] = Group(key, self)
        elif group.key.partition_index != key.partition_index:
            raise SoftError(
                406,
                f"consumer group '{key.name}' of stream '{key.stream}' in vhost '{key.vhost}' reads "
                f"{_shown_partition(group.key)}, and this member {_shown_partition(key)}",
            )
        group.add(member)

    def leave(self, key: GroupKey, member: Member) -> None:
        """The member is gone and is told nothing more. One that is not in the group may leave it."""
        group = self._groups.get(_name(key))
        if group is None or not group.has(member):
            return
        if len(group.members) == 1:
            del self._groups[_name(key)]
        group.remove(member)

    def members(self, key: GroupKey) -> list[Member]:
        """In the order in which they joined."""
        group = self._groups.get(_name(key))
        return [] if group is None else list(group.members)

    def active(self, key: GroupKey) -> Member | None:
        """None without members, and while one hands over to the next."""
        group = self._groups.get(_name(key))
        return None if group is None else group.active

    def keys(self, vhost: str) -> list[GroupKey]:
        return [group.key for group in self._groups.values() if group.key.vhost == vhost]


class Group:
    """One group: at most one member is active or hands over, never two."""

    def __init__(self, key: GroupKey, groups: StreamGroups) -> None:
        self.key = key
        self._groups = groups
        self.members: list[Member] = []
        # Who was activated and not deactivated since. While there is a handover, nobody.
        self.active: Member | None = None
        self._handover: Handover | None = None
        # What members do when they are told something may change the group again; one loop sees to all of it.
        self._settling = False

    def has(self, member: Member) -> bool:
        return any(other is member for other in self.members)

    def add(self, member: Member) -> None:
        assert not self.has(member), "a member joins once"
        self.members.append(member)
        self._settle()

    def remove(self, member: Member) -> None:
        self.members = [other for other in self.members if other is not member]
        if self.active is member:
            self.active = None
        if self._handover is not None and self._handover.member is member:
            self._end_handover()
        self._settle()

    def _wanted(self) -> Member | None:
        """Whose turn it is by RabbitMQ's rule: the first to come, and for partitions the one whose number it is, so
        that members which read all partitions have an equal share of them."""
        if not self.members:
            return None
        return self.members[(self.key.partition_index or 0) % len(self.members)]

    def _settle(self) -> None:
        if self._settling:
            return
        self._settling = True
        try:
            while self._step():
                pass
        finally:
            self._settling = False

    def _step(self) -> bool:
        """One step towards the wanted member being the active one; whether there was one to take."""
        wanted = self._wanted()
        if self._handover is not None or wanted is self.active:
            return False
        if self.active is not None:
            self._begin_handover(self.active)
        elif wanted is not None:
            self.active = wanted
            wanted.activate()
        return True

    # ---- from one to the next

    def _begin_handover(self, member: Member) -> None:
        groups = self._groups
        groups.handovers_total += 1
        handover = Handover(member, groups.now_ms() + groups.handover_deadline_ms)
        self.active, self._handover = None, handover
        groups.timers.put(self, handover.due_ms)
        member.deactivate(lambda: self._handed_over(handover))

    def _handed_over(self, handover: Handover) -> None:
        # One that comes late, or again, is about a handover that is over.
        if self._handover is handover:
            self._end_handover()
            self._settle()

    def _end_handover(self) -> None:
        self._handover = None
        self._groups.timers.forget(self)

    def ring(self) -> None:
        """The time of a handover is up."""
        handover = self._handover
        if handover is None:
            return
        if self._groups.now_ms() < handover.due_ms:
            self._groups.timers.put(self, handover.due_ms)
            return
        self._groups.overdue_total += 1
        log.warning(
            "a consumer of a stream does not hand over; the next one of its group begins",
            vhost=self.key.vhost,
            stream=self.key.stream,
            group=self.key.name,
        )
        self._handed_over(handover)


def _name(key: GroupKey) -> tuple[str, str, str]:
    return key.vhost, key.stream, key.name


def _shown_partition(key: GroupKey) -> str:
    return "a stream of its own" if key.partition_index is None else f"partition {key.partition_index}"
