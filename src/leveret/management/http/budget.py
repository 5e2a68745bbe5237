"""How much memory requests and answers may take while they are on their way, over all connections together.

A body is bounded by its route and an answer of messages by its size; but sixty of them at once are not, and a client
that does not read keeps its answer in memory. So each request has a hold on a budget, for its body and for its answer,
and gives it back when the answer is sent. One user has no more than half of a budget, so that no user locks the others
out.
What is small is never refused: a health check must get its answer whatever others do."""

from __future__ import annotations

from typing import Final

from leveret.management.http.errors import HttpError

# Bodies and answers up to this are bounded by the number of connections.
SMALL_BYTES: Final = 65536
RETRY_AFTER_S: Final = 1


class Budget:
    """`what` is how users read of it, `setting` what an operator would change."""

    def __init__(self, what: str, setting: str, limit: int) -> None:
        self.what = what
        self.setting = setting
        self.limit = limit
        self.used = 0
        self.refused_total = 0
        self._of_user: dict[str, int] = {}

    def used_by(self, user: str) -> int:
        return self._of_user.get(user, 0)

    def has_room(self, user: str, more: int) -> bool:
        return self.used + more <= self.limit and self.used_by(user) + more <= self.limit // 2

    def add(self, user: str, more: int) -> None:
        """`more` may be negative."""
        self.used += more
        left = self._of_user.get(user, 0) + more
        assert self.used >= 0 and left >= 0
        if left:
            self._of_user[user] = left
        else:
            self._of_user.pop(user, None)


class Hold:
    """One request's part of a budget. An operator on the machine itself is counted, and never refused."""

    def __init__(self, budget: Budget, user: str, refusable: bool = True) -> None:
        self._budget = budget
        self._user = user
        self._refusable = refusable
        self.size = 0

    def has_room(self, size: int) -> bool:
        """Whether it may grow to this size. A hold that is alone in its budget may have any size: what bounds
        it then is the limit of one body, or of one answer."""
        budget = self._budget
        return (
            size <= max(SMALL_BYTES, self.size)
            or not self._refusable
            or budget.used == self.size
            or budget.has_room(self._user, size - self.size)
        )

    def reach(self, size: int) -> None:
        """Counts this size from now on. Raises HttpError if there is no room."""
        if not self.has_room(size):
            self._budget.refused_total += 1
            raise HttpError(
                503,
                "too_busy",
                f"{self._budget.what} that are on their way use up what {self._budget.setting} allows; try again",
                {"Retry-After": str(RETRY_AFTER_S)},
            )
        self.grow(size)

    def grow(self, size: int) -> None:
        """Counts what is in memory already, room or not."""
        if size > self.size:
            self._budget.add(self._user, size - self.size)
            self.size = size

    def release(self) -> None:
        self._budget.add(self._user, -self.size)
        self.size = 0
