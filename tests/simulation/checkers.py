"""What must hold in every run, whatever fails: the promises of Raft, and that what a client was told stays true."""

from __future__ import annotations

from dataclasses import dataclass, field


class Violation(AssertionError):
    """A promise is broken."""


@dataclass(slots=True)
class Call:
    """A client's proposal: what it was, when it was made, and what the client was told."""

    group: int
    payload: bytes
    called_at: int
    answered_at: int = 0
    index: int = 0


@dataclass(slots=True)
class GroupHistory:
    # Term -> the replica that led.
    leaders: dict[int, int] = field(default_factory=dict)
    # (index, term) -> what the entry holds, and the term of the one before it.
    entries: dict[tuple[int, int], tuple[bytes, bytes, int]] = field(default_factory=dict)
    # Index -> (term, payload), as the first machine applied it.
    applied: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    digests: dict[int, bytes] = field(default_factory=dict)
    # Index -> the lowest term in which a machine applied it, which is not below the one that committed it.
    committed_in: dict[int, int] = field(default_factory=dict)
    last: int = 0


class Checkers:
    def __init__(self) -> None:
        self.groups: dict[int, GroupHistory] = {}
        self.calls: list[Call] = []

    def history(self, group: int) -> GroupHistory:
        return self.groups.setdefault(group, GroupHistory())

    def elected(self, group: int, term: int, replica: int) -> None:
        """Election safety: at most one leader a term."""
        first = self.history(group).leaders.setdefault(term, replica)
        if first != replica:
            raise Violation(f"election safety: replicas {first:x} and {replica:x} lead group {group} in term {term}")

    def has_log(self, group: int, elected_in: int, replica: int, floor: int, terms: dict[int, int]) -> None:
        """Leader completeness: who is elected has every entry that was committed in an earlier term."""
        history = self.history(group)
        for index, (term, _) in history.applied.items():
            if index > floor and history.committed_in[index] < elected_in and terms.get(index) != term:
                here = terms.get(index)
                raise Violation(
                    f"leader completeness: replica {replica:x} leads group {group} with entry {index} of term {here} "
                    f"instead of {term}"
                )

    def appended(self, group: int, index: int, term: int, data: bytes, payload: bytes, before: int) -> None:
        """Log matching: index and term name one entry, and one before it."""
        entry = (data, payload, before)
        known = self.history(group).entries.setdefault((index, term), entry)
        if known != entry:
            raise Violation(f"log matching: entry {index} of term {term} in group {group} is two things")

    def applied(
        self, group: int, replica: int, now_in: int, index: int, term: int, payload: bytes, digest: bytes
    ) -> None:
        """State machine safety: every machine applies the same at an index, and so comes to the same state."""
        history = self.history(group)
        history.committed_in[index] = min(now_in, history.committed_in.get(index, now_in))
        known = history.applied.setdefault(index, (term, payload))
        if known != (term, payload):
            raise Violation(
                f"state machine safety: replica {replica:x} of group {group} applies {payload!r} of term {term} "
                f"at {index}, another one {known[1]!r} of term {known[0]}"
            )
        if history.digests.setdefault(index, digest) != digest:
            raise Violation(f"state machine safety: states of group {group} differ at {index}")
        history.last = max(history.last, index)

    def finish(self) -> None:
        """Linearizability of proposals: an answered one is where its answer says, once, behind all that was answered
        before it was made; no one that was not made is there."""
        places: dict[tuple[int, bytes], int] = {}
        made = {(call.group, call.payload) for call in self.calls}
        for group, history in self.groups.items():
            for index, (_, payload) in history.applied.items():
                if not payload:
                    continue
                if (group, payload) not in made:
                    raise Violation(f"group {group} has {payload!r} at {index}, which nobody proposed")
                if places.setdefault((group, payload), index) != index:
                    raise Violation(f"group {group} has {payload!r} at {index} and {places[group, payload]}")
        answered = [call for call in self.calls if call.answered_at]
        for call in answered:
            place = places.get((call.group, call.payload))
            if place != call.index:
                raise Violation(f"lost: group {call.group} answered {call.payload!r} at {call.index}, it is at {place}")
        for group in self.groups:
            self._check_order([call for call in answered if call.group == group])

    @staticmethod
    def _check_order(answered: list[Call]) -> None:
        ended = sorted(answered, key=lambda call: call.answered_at)
        reached, highest = 0, 0
        for call in sorted(answered, key=lambda call: call.called_at):
            while reached < len(ended) and ended[reached].answered_at < call.called_at:
                highest = max(highest, ended[reached].index)
                reached += 1
            if call.index <= highest:
                raise Violation(
                    f"order: {call.payload!r} is at {call.index}, but was proposed after {highest} was answered"
                )
