"""What readers of streams must not see: the rules by which Jepsen judges logs such as Kafka's, over all lives.

An offset is one message and a message one offset. A reader skips nothing and goes back never, but where retention
deleted. What was confirmed is there at the end, and so is what anybody has read. One who publishes gets his messages
into the log in his order, once, however often he sends them. One who reads under a name misses nothing in between.

Each checker is a function from a history to a list of findings in words."""

import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.crash.checkers import shortened
from tests.crash.history import History
from tests.crash.messages import MessageId


class Read(NamedTuple):
    """A message that a reader got."""

    session: int
    offset: int
    message: MessageId


class Session(NamedTuple):
    """From one basic.consume to the end of its connection."""

    life: int
    stream: str
    reader: str
    # Only messages with one of several values: offsets in between are missing.
    filtered: bool
    # Under a name: the last offset that was acknowledged before; None if it has none.
    acked: int | None


class State(NamedTuple):
    """All that a stream has at one moment, read from its start to its end while nobody publishes."""

    life: int
    stream: str
    first: int
    committed: int
    messages: dict[int, MessageId]


@dataclass
class StreamHistory(History):
    sessions: list[Session] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    _numbering: threading.Lock = field(default_factory=threading.Lock)

    def open_session(self, session: Session) -> int:
        """Its number: threads open theirs at the same time."""
        with self._numbering:
            self.sessions.append(session)
            return len(self.sessions) - 1

    def last_state(self, stream: str) -> State:
        return [state for state in self.states if state.stream == stream][-1]

    def sightings_of(self) -> Iterator[tuple[str, int, MessageId]]:
        """(stream, offset, message) of all that was ever seen."""
        for read in self.reads:
            yield self.sessions[read.session].stream, read.offset, read.message
        for state in self.states:
            for offset, message in state.messages.items():
                yield state.stream, offset, message


def ambiguous(history: StreamHistory) -> list[str]:
    """Offsets with two messages, and messages with two offsets."""
    at: dict[tuple[str, int], MessageId] = {}
    of: dict[tuple[str, MessageId], int] = {}
    findings = []
    for stream, offset, message in history.sightings_of():
        if at.setdefault((stream, offset), message) != message:
            findings.append(f"ambiguous: {stream} has {at[stream, offset]} and {message} at offset {offset}")
        if of.setdefault((stream, message), offset) != offset:
            findings.append(f"twice: {stream} has {message} at {of[stream, message]} and at {offset}")
    return findings


def skipped(history: StreamHistory) -> list[str]:
    """Offsets that a reader jumped over or came back to."""
    findings = []
    last: dict[int, int] = {}
    for read in history.reads:
        session = history.sessions[read.session]
        before = last.get(read.session)
        last[read.session] = read.offset
        if before is None:
            continue
        where = f"{session.reader} of {session.stream} got {read.offset} after {before} in life {session.life}"
        if read.offset <= before:
            findings.append(f"reordered: {where}")
        elif read.offset > before + 1 and not session.filtered:
            # Retention may have deleted up to there; then nothing before it is there any more.
            if read.offset > history.last_state(session.stream).first:
                findings.append(f"skipped: {where}")
    return findings


def holes(history: StreamHistory) -> list[str]:
    """Offsets that are missing in a whole stream."""
    return [
        f"hole: {state.stream} has no message at {offset}, but from {state.first} to {state.committed}"
        for state in history.states
        for offset in range(state.first, state.committed)
        if offset not in state.messages
    ]


def lost(history: StreamHistory) -> list[str]:
    """Confirmed messages that are not there, unless retention has deleted them."""
    findings = []
    for number, published in sorted(history.published.items()):
        for stream in published.queues:
            state = history.last_state(stream)
            there = {message.sequence for message in state.messages.values() if message.publisher == number}
            # A publisher's messages are in order: what retention deleted of them comes before all the others.
            oldest = min(there, default=1 << 60) if state.first > 0 else 0
            findings += [
                f"lost: {stream} has not message {sequence} of publisher {number}, which was confirmed"
                for sequence in sorted(published.confirmed)
                if sequence not in there and sequence >= oldest
            ]
    return findings


def vanished(history: StreamHistory) -> list[str]:
    """What somebody has read and a later state does not have."""
    findings = []
    for state in history.states:
        for read in history.reads:
            session = history.sessions[read.session]
            if session.stream == state.stream and session.life <= state.life and read.offset >= state.first:
                if state.messages.get(read.offset) != read.message:
                    findings.append(
                        f"vanished: {session.reader} read {read.message} at {read.offset} of {state.stream} in life "
                        f"{session.life}, which in life {state.life} is {state.messages.get(read.offset)}"
                    )
    return findings


def disordered(history: StreamHistory) -> list[str]:
    """Messages of one publisher that stand in another order than it sent them, and such that nobody sent."""
    findings = [f"damaged: {description}" for description in history.damaged]
    for state in history.states:
        newest: dict[int, int] = defaultdict(lambda: -1)
        for offset, message in sorted(state.messages.items()):
            published = history.published.get(message.publisher)
            if published is None or state.stream not in published.queues or message.sequence >= published.attempted:
                findings.append(f"phantom: {state.stream} has {message} at {offset}, which nobody sent")
            elif message.sequence <= newest[message.publisher]:
                findings.append(f"disordered: {state.stream} has {message} at {offset}, after {newest}")
            newest[message.publisher] = message.sequence
    return findings


def forgotten(history: StreamHistory) -> list[str]:
    """Readers with a name that went on behind what they were done with."""
    findings = []
    seen: set[int] = set()
    for read in history.reads:
        if read.session in seen:
            continue
        seen.add(read.session)
        session = history.sessions[read.session]
        if session.acked is None or session.filtered:
            continue
        if read.offset > session.acked + 1 and read.offset > history.last_state(session.stream).first:
            findings.append(
                f"forgotten: {session.reader} acknowledged up to {session.acked} and went on at {read.offset}"
            )
    return findings


def findings(history: StreamHistory) -> list[str]:
    return [
        *ambiguous(history),
        *skipped(history),
        *holes(history),
        *lost(history),
        *vanished(history),
        *disordered(history),
        *forgotten(history),
    ]


def check(history: StreamHistory) -> None:
    """Fails with the findings, if there are any."""
    wrong = findings(history)
    assert not wrong, f"{summary(history)}\n{shortened(wrong)}"


def summary(history: StreamHistory) -> str:
    return (
        f"{history.attempted_count} attempted, {history.confirmed_count} confirmed, {len(history.reads)} read in "
        f"{len(history.sessions)} sessions and {history.life + 1} lives"
    )
