"""What the clients of one case did, what they were told, and what was there at the end; and what is wrong with that.

Nothing confirmed is lost, nothing is there twice, nothing comes back whose end was answered for, nothing is forgotten
that was declared, and nothing lives on that was deleted."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from tests.crash.enumeration.topology import DEAD, LETTERS, WORK
from tests.crash.history import Published
from tests.crash.messages import MessageId
from tests.crash.stream_checkers import State, StreamHistory, holes


class Fate(Enum):
    ACKED = "acked"
    REJECTED = "rejected"


@dataclass
class Evidence:
    # By the number of the publisher.
    published: dict[int, Published] = field(default_factory=dict)
    # Of messages in `work`, written down before it is sent; and those behind which a confirm came on the same channel.
    settled: dict[MessageId, Fate] = field(default_factory=dict)
    answered: set[MessageId] = field(default_factory=set)
    # Queues and streams: asked for, and answered.
    declared: set[str] = field(default_factory=set)
    deleting: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    # What the script itself saw that must not be.
    wrong: list[str] = field(default_factory=list)

    def attempted(self, place: str) -> set[MessageId]:
        return {
            MessageId(number, sequence)
            for number, published in self.published.items()
            if place in published.queues
            for sequence in range(published.attempted)
        }

    def confirmed(self, place: str) -> set[MessageId]:
        return {
            MessageId(number, sequence)
            for number, published in self.published.items()
            if place in published.queues
            for sequence in published.confirmed
        }

    def settled_as(self, fate: Fate) -> set[MessageId]:
        return {message for message, found in self.settled.items() if found is fate}


@dataclass
class Contents:
    """What a broker has after a restart without faults; None for what does not exist."""

    queues: dict[str, list[MessageId] | None] = field(default_factory=dict)
    streams: dict[str, State | None] = field(default_factory=dict)


def findings(evidence: Evidence, contents: Contents, orderly: bool) -> list[str]:
    """Everything that is wrong, in words; `orderly` if the broker with the fault was stopped and said goodbye."""
    return [
        *evidence.wrong,
        *_existence(evidence, contents),
        *_queues(evidence, contents),
        *_dead_letters(evidence, contents, orderly),
        *_streams(evidence, contents),
    ]


def _existence(evidence: Evidence, contents: Contents) -> Iterator[str]:
    for name, found in {**contents.queues, **contents.streams}.items():
        if found is None and name in evidence.declared - evidence.deleting:
            yield f"forgotten: {name} was declared and does not exist"
        if found is not None and name in evidence.deleted:
            yield f"undead: {name} was deleted and exists"


def _queues(evidence: Evidence, contents: Contents) -> Iterator[str]:
    rejected = evidence.settled_as(Fate.REJECTED)
    for queue, found in contents.queues.items():
        if found is None:
            continue
        settled = set(evidence.settled) if queue == WORK else set()
        for message in sorted(evidence.confirmed(queue) - settled - set(found)):
            yield f"lost: {queue} has not {message}, which was confirmed"
        allowed = evidence.attempted(queue) | (rejected if queue == DEAD else set())
        yield from _strangers(queue, found, allowed)
        for message in sorted(set(found) & evidence.answered & settled - rejected):
            yield f"resurrected: {queue} has {message}, which was acked and answered for"
        for message, times in Counter(found).items():
            if times > 1:
                yield f"twice: {queue} has {message} {times} times"
        yield from _disorder(queue, [message for message in found if message not in rejected])


def _dead_letters(evidence: Evidence, contents: Contents, orderly: bool) -> Iterator[str]:
    """What was rejected is in one of the two queues, and in the stream if it is dead. The stream is written before the
    log, so a letter may come into it again after a crash."""
    work, dead = set(contents.queues.get(WORK) or ()), set(contents.queues.get(DEAD) or ())
    letters = contents.streams.get(LETTERS)
    streamed = set(letters.messages.values()) if letters is not None else set()
    for message in sorted(evidence.settled_as(Fate.REJECTED)):
        if message in work and message in dead:
            yield f"twice: {message} is in {WORK} and in {DEAD}"
        elif message not in work and message not in dead:
            yield f"lost: {message} was rejected and is neither in {WORK} nor in {DEAD}"
        elif message in dead and message not in streamed:
            yield f"lost: {message} is in {DEAD} and not in {LETTERS}"
        elif orderly and message in work and message in evidence.answered:
            yield f"resurrected: {message} was rejected and is in {WORK} after an orderly stop"


def _streams(evidence: Evidence, contents: Contents) -> Iterator[str]:
    rejected = evidence.settled_as(Fate.REJECTED)
    for stream, state in contents.streams.items():
        if state is None:
            continue
        found = [message for _, message in sorted(state.messages.items())]
        yield from holes(StreamHistory(states=[state]))
        # Retention deletes from the front; what is behind the oldest that is left has to be there.
        gone = state.first > 0
        oldest = {publisher: min(m.sequence for m in found if m.publisher == publisher) for publisher, _ in found}
        for message in sorted(evidence.confirmed(stream) - set(found)):
            if not gone or message.sequence > oldest.get(message.publisher, 1 << 60):
                yield f"lost: {stream} has not {message}, which was confirmed"
        if stream == LETTERS:
            yield from _strangers(stream, found, rejected)
            continue
        yield from _strangers(stream, found, evidence.attempted(stream))
        yield from _disorder(stream, found)
        for message, times in Counter(found).items():
            if times > 1:
                yield f"twice: {stream} has {message} {times} times"


def _strangers(place: str, found: list[MessageId], allowed: set[MessageId]) -> Iterator[str]:
    for message in sorted(set(found) - allowed):
        yield f"phantom: {place} has {message}, which nobody put there"


def _disorder(place: str, found: list[MessageId]) -> Iterator[str]:
    newest: dict[int, int] = {}
    for message in found:
        if message.sequence < newest.get(message.publisher, -1):
            yield f"disordered: {place} has {message} behind {newest[message.publisher]}"
        newest[message.publisher] = message.sequence
