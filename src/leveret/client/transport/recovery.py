"""When to connect to whom: the life of a connection as one machine with four states.

    CONNECTING --opened--> RESTORING --restored--> OPEN --lost--> RECOVERING --opened--> RESTORING
    any of them --closed--> CLOSED

Pure: it is told what happened and what time it is, and says which host is next and how long to pause. Pauses grow from
round to round, are random so that a crowd does not come back at once, and begin small again only after a connection
that has lasted a while."""

from __future__ import annotations

import enum
from collections.abc import Callable

from leveret.client.backoff import backoff_s, spread_s

__all__ = ["Recovery", "State"]

# A connection that lasted this long was a good one.
STEADY_S = 5.0


class State(enum.Enum):
    CONNECTING = "connecting"
    RESTORING = "restoring"
    OPEN = "open"
    RECOVERING = "recovering"
    CLOSED = "closed"


_STEPS: dict[tuple[State, str], State] = {
    (State.CONNECTING, "opened"): State.RESTORING,
    (State.RECOVERING, "opened"): State.RESTORING,
    (State.RESTORING, "restored"): State.OPEN,
    (State.RESTORING, "lost"): State.RECOVERING,
    (State.OPEN, "lost"): State.RECOVERING,
    **{(state, "closed"): State.CLOSED for state in State},
}


class Recovery:
    def __init__(
        self,
        hosts: int,
        backoff_min_s: float,
        backoff_max_s: float,
        wait_s: float,
        give_up_after_s: float | None,
        random: Callable[[], float],
        now: float,
    ) -> None:
        self.state = State.CONNECTING
        self._hosts = hosts
        self._backoff_min_s = backoff_min_s
        self._backoff_max_s = backoff_max_s
        self._give_up_after_s = give_up_after_s
        self._random = random
        self._host = 0
        # Attempts since the last connection.
        self.attempts = 0
        # Connections since a good one, none of which has lasted.
        self._flaps = 0
        self._tries_until: float | None = now + wait_s
        self._opened_at = now
        self._was_lost = False
        self.lost_at = now

    def _step(self, event: str) -> None:
        following = _STEPS.get((self.state, event))
        if following is None:
            raise AssertionError(f"a connection that is {self.state.value} cannot be {event}")
        self.state = following

    def next_host(self) -> int:
        """Whose turn it is."""
        return self._host

    def failed(self, now: float) -> float | None:
        """The attempt failed: the pause before the next one, None if there is to be none."""
        self.attempts += 1
        self._host = (self._host + 1) % self._hosts
        rounds, place = divmod(self.attempts, self._hosts)
        # The others get their chance before anybody pauses.
        return 0.0 if place else self._pause(rounds - 1 + self._flaps, now)

    def _pause(self, rounds: int, now: float) -> float | None:
        pause = spread_s(backoff_s(self._backoff_min_s, self._backoff_max_s, rounds + 1), self._random())
        if self._tries_until is None:
            return pause
        # The last attempt is when the time is over.
        return min(pause, self._tries_until - now) if now < self._tries_until else None

    def opened(self, now: float) -> None:
        self._step("opened")
        self._opened_at = now

    def restored(self) -> None:
        self._step("restored")

    def lost(self, now: float) -> float | None:
        """The pause before the first attempt to come back, None if there is to be none."""
        was_open = self.state is State.OPEN
        self._step("lost")
        self.attempts = 0
        if was_open or not self._was_lost:
            self._was_lost = True
            self.lost_at = now
            self._tries_until = None if self._give_up_after_s is None else now + self._give_up_after_s
        if was_open and now - self._opened_at >= STEADY_S:
            self._flaps = 0
            return self._backoff_min_s * self._random()
        # This host lets us in and then drops us: perhaps another one is better.
        self._flaps += 1
        self._host = (self._host + 1) % self._hosts
        return self._pause(self._flaps - 1, now)

    def closed(self) -> None:
        self._step("closed")
