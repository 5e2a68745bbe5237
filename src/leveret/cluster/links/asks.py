"""Questions to another node that wait for their answers: numbered, with a deadline each, bounded.

Pure: the moment comes in as an argument. One table belongs to one connection and ends with it: whoever waits hears of
that at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from leveret.errors import AskFailed

OUTSTANDING_MAX = 1024
Then = Callable[[bytes | AskFailed], None]


@dataclass(slots=True)
class _Asked:
    until: float
    then: Then


class Asks:
    def __init__(self, node: int, outstanding_max: int = OUTSTANDING_MAX) -> None:
        self._node = node
        self._outstanding_max = outstanding_max
        self._asked: dict[int, _Asked] = {}
        self._number = 0
        self._ended = ""
        # Answers that came when nobody waited any more.
        self.late_total = 0
        self.asked_total = 0
        self.expired_total = 0

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, until: float, then: Then) -> int:
        """The number of a new question. `then` is called once, with the answer or why there is none. Raises AskFailed
        if too many questions are open."""
        if self._ended:
            raise AskFailed(f"node {self._node} cannot be asked: {self._ended}")
        if len(self._asked) >= self._outstanding_max:
            raise AskFailed(f"node {self._node} has {self._outstanding_max} questions to answer before this one")
        self._number += 1
        self._asked[self._number] = _Asked(until, then)
        self.asked_total += 1
        return self._number

    def answered(self, number: int, answer: bytes | AskFailed) -> None:
        """A number that nobody waits for is ignored: its deadline was over."""
        asked = self._asked.pop(number, None)
        if asked is None:
            self.late_total += 1
        else:
            asked.then(answer)

    def forget(self, number: int) -> None:
        """Nobody waits any more."""
        self._asked.pop(number, None)

    def expire(self, now: float) -> None:
        for number in [number for number, asked in self._asked.items() if asked.until <= now]:
            self.expired_total += 1
            self._asked.pop(number).then(AskFailed(f"node {self._node} has not answered in time"))

    def end(self, reason: str) -> None:
        """The connection is gone."""
        self._ended = reason
        asked, self._asked = self._asked, {}
        for one in asked.values():
            one.then(AskFailed(f"the link to node {self._node} was lost before it answered: {reason}"))
