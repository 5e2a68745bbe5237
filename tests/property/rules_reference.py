"""What a queue with rules must do, written down once more in plain lists: the reference of test_rules_model.

It knows messages, places and time, and nothing of memory, disks or steps: it says which message is next, whether it
may stay, and why not. It never decides when something happens; the machine asks it whether what happened was right."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

REJECTED, EXPIRED, MAXLEN, DELIVERY_LIMIT = 1, 2, 3, 4
DROP_HEAD, REJECT, REJECT_AND_BURY = 0, 1, 2
ACCEPTED, REFUSED, KNOWN = 0, 1, 2
TOTALS = ("expired", "dropped", "limited")
TOTAL_OF = {EXPIRED: "expired", MAXLEN: "dropped", DELIVERY_LIMIT: "limited"}


@dataclass(frozen=True)
class Terms:
    """Rules as a person would write them; None is no limit."""

    ttl: int | None = None
    length: int | None = None
    octets: int | None = None
    overflow: int = DROP_HEAD
    limit: int | None = None
    buries: bool = False


@dataclass(eq=False)
class Note:
    """One message in one queue."""

    number: int
    size: int
    priority: int
    ttl: int | None
    persistent: bool
    stamp: int = 0
    place: int = 0
    # The time to live that the queue gives it.
    queue_ttl: int | None = None
    # How often it came back.
    returns: int = 0
    # It was rejected, but must be read from disk before it can leave as a letter.
    rejected_on_disk: bool = False
    # The step in which it arrived: it may go past the rules, straight to a consumer.
    step: int = -1

    def body(self) -> bytes:
        return struct.pack(">Q", self.number).ljust(self.size, b".")


@dataclass
class ReferenceWindow:
    """The keys seen lately, oldest first: [key, when, how long]."""

    size_max: int
    ttl: int
    keys: list[tuple[str, int, int]] = field(default_factory=list)
    duplicates: int = 0

    def has(self, key: str, now: int) -> bool:
        for seen in self.keys:
            if seen[0] == key:
                if not self.is_over(seen, now):
                    self.duplicates += 1
                    return True
                self.keys.remove(seen)
                return False
        return False

    def is_over(self, seen: tuple[str, int, int], now: int) -> bool:
        ttl = seen[2] or self.ttl
        return ttl > 0 and seen[1] + ttl <= now

    def remember(self, key: str, now: int, own_ttl: int) -> None:
        self.keys.append((key, now, own_ttl))
        while self.keys and (len(self.keys) > self.size_max or self.is_over(self.keys[0], now)):
            del self.keys[0]


class ReferenceQueue:
    def __init__(self, priority_max: int, window: ReferenceWindow | None) -> None:
        self.priority_max = priority_max
        self.window = window
        self.terms = Terms()
        self.ready: list[Note] = []
        # All that ever did.
        self.arrived: list[Note] = []
        # (due, order of coming, message)
        self.delayed: list[tuple[int, int, Note]] = []
        self.places = 0
        self.totals = dict.fromkeys(
            ("published", "delivered", "redelivered", "settled", "requeued", "discarded", "buried", "refused", *TOTALS),
            0,
        )
        # Departures that more than one reason explains: which one it was, memory and disk decide.
        self.ambiguous = 0

    def change(self, terms: Terms, since: int) -> None:
        """A new time to live counts for what arrived since then."""
        if terms.ttl != self.terms.ttl:
            for note in self.arrived:
                if note.stamp >= since:
                    note.queue_ttl = terms.ttl
        self.terms = terms

    # ---- in

    def answer(self, note: Note, key: str | None, now: int) -> int:
        if key is not None and self.window is not None and self.window.has(key, now):
            return KNOWN
        if self.terms.overflow == DROP_HEAD:
            return ACCEPTED
        # What is delayed counts like what is ready.
        waiting = [other.size for _, _, other in self.delayed]
        return REFUSED if self.is_over(len(waiting) + 1, sum(waiting) + note.size) else ACCEPTED

    def may_wait(self, note: Note) -> bool:
        """Whether a queue that drops its head lets this one be delayed."""
        terms = self.terms
        if terms.overflow != DROP_HEAD:
            return True
        if terms.length is not None and len(self.delayed) >= terms.length:
            return False
        waiting = sum(other.size for _, _, other in self.delayed)
        return terms.octets is None or waiting + note.size <= terms.octets

    def arrive(self, note: Note, now: int, step: int) -> None:
        """At the tail of its priority."""
        self.places += 1
        note.place, note.stamp, note.step = self.places, now, step
        note.queue_ttl = self.terms.ttl
        self.totals["published"] += 1
        self.arrived.append(note)
        self.put(note)

    def postpone(self, note: Note, due: int) -> None:
        self.places += 1
        self.delayed.append((due, self.places, note))
        self.delayed.sort(key=lambda waiting: waiting[:2])

    def release(self, now: int, step: int) -> None:
        """The delayed message whose turn it is arrives."""
        due, _, note = self.delayed.pop(0)
        assert due <= now, f"message {note.number} came {due - now} ms too early"
        self.arrive(note, now, step)

    def put(self, note: Note) -> None:
        """At its place, which is its own however often it comes back."""
        self.ready.append(note)
        self.ready.sort(key=lambda other: (-min(other.priority, self.priority_max), other.place))

    # ---- who may stay

    def octets(self) -> int:
        return sum(note.size for note in self.ready)

    def is_over(self, more: int = 0, octets: int = 0) -> bool:
        """Only what is ready counts."""
        terms = self.terms
        if terms.length is not None and len(self.ready) + more > terms.length:
            return True
        return terms.octets is not None and self.octets() + octets > terms.octets

    def expiry(self, note: Note) -> int | None:
        times = [ttl for ttl in (note.ttl, note.queue_ttl) if ttl is not None]
        return note.stamp + min(times) if times else None

    def reasons(self, now: int) -> set[int]:
        """Why the head must leave; empty if it may stay."""
        note = self.ready[0]
        if note.rejected_on_disk:
            return {REJECTED}
        found = set()
        if self.terms.overflow == DROP_HEAD and self.is_over():
            found.add(MAXLEN)
        if self.terms.limit is not None and note.returns > self.terms.limit:
            found.add(DELIVERY_LIMIT)
        expiry = self.expiry(note)
        if expiry is not None and expiry <= now:
            found.add(EXPIRED)
        return found

    # ---- out

    def depart(self, reasons: set[int]) -> Note:
        """The head leaves, for one of these reasons."""
        note = self.ready.pop(0)
        if len(reasons) > 1:
            self.ambiguous += 1
        else:
            self.count(*reasons)
        return note

    def count(self, reason: int) -> None:
        if reason in TOTAL_OF:
            self.totals[TOTAL_OF[reason]] += 1

    def give(self, no_ack: bool) -> Note:
        note = self.ready.pop(0)
        self.totals["delivered"] += 1
        self.totals["redelivered"] += note.returns > 0
        self.totals["settled"] += no_ack
        return note
