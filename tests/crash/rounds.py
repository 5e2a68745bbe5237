"""Rounds of crashes: a broker under load that dies again and again, on one data directory, with one history.

What kills it is the test's choice: `kill -9`, or a cut of its power. Each round ends with a drain and the checkers."""

import os
import random
import time
from collections.abc import Callable
from typing import Final

from tests.crash import checkers
from tests.crash.broker_process import BrokerProcess, Settings
from tests.crash.history import History
from tests.crash.load import Crew, Load, abandon_quietly, declare, drain

_ROUND_CYCLES_MAX: Final = 20
# A cycle with fewer confirms shows nothing.
_CONFIRMED_PER_CYCLE_MIN: Final = 50
# Rolls, reclaim and compaction all the time; the usual segments hardly ever come to that.
SMALL_SEGMENTS: Final[Settings] = {"storage": {"segment_bytes": 256 * 1024}}

# Ends the broker and leaves it ready to be started again.
Crash = Callable[[BrokerProcess], None]


def rounds_of(cycles: int) -> list[tuple[int, int]]:
    """Number and cycles of each round; at least two, so that both sizes of segments have their turn."""
    count = max(2, -(-cycles // _ROUND_CYCLES_MAX))
    return [(number, len(range(number, cycles, count))) for number in range(count)]


def settings_of(number: int) -> Settings:
    return SMALL_SEGMENTS if number % 2 == 0 else {}


def seed_of(number: int) -> int:
    """Different at each run, unless `LEVERET_CRASH_SEED` repeats one."""
    return int(os.environ.get("LEVERET_CRASH_SEED") or random.randrange(1 << 30)) + number


class CrashRound:
    """One broker through many deaths."""

    # The backlog is emptied now and then; in between it grows and spans many segments.
    drain_every = 7

    def __init__(
        self, broker: BrokerProcess, crash: Crash, seed: int, power_loss: bool = False, expected_refusal: str = ""
    ) -> None:
        """A broker that closes a connection with other words than those expected has forgotten something."""
        self.expected_refusal = expected_refusal
        self.broker = broker
        self.crash = crash
        self.seed = seed
        self.power_loss = power_loss
        self.dice = random.Random(seed)
        self.history = self._make_history()
        self.load = self._make_load(seed)

    def _make_history(self) -> History:
        return History()

    def _make_load(self, seed: int) -> Crew:
        return Load(self.broker.port, self.history, seed)

    def _declare(self) -> None:
        declare(self.broker.port)

    def run(self, cycles: int, after_declaring: Callable[[], None] | None = None) -> History:
        """All cycles, the drain and the judgement; fails with the seed if anything is found."""
        try:
            self.broker.start()
            # Nothing settles: the first crash may come right after what is declared here.
            self._declare()
            if after_declaring is not None:
                after_declaring()
            self.load.start()
            for cycle in range(cycles):
                self._cycle()
                if self.drain_every and cycle % self.drain_every == self.drain_every - 1:
                    self._judge()
                    self.load = self._make_load(self.seed + cycle)
                    self.load.start()
            self.load.wait_until_under_way()
            self._judge()
            unexpected = [
                r for r in self.history.refusals if not (self.expected_refusal and self.expected_refusal in r)
            ]
            assert not unexpected, unexpected[:5]
        except AssertionError as error:
            error.add_note(f"LEVERET_CRASH_SEED={self.seed}; {checkers.summary(self.history)}")
            raise
        finally:
            abandon_quietly(self.load)
        confirmed = self.history.confirmed_count
        assert confirmed > _CONFIRMED_PER_CYCLE_MIN * cycles, f"too little load: {checkers.summary(self.history)}"
        return self.history

    def _check_refusals(self) -> None:
        expected = self.expected_refusal
        unexpected = [refusal for refusal in self.history.refusals if not (expected and expected in refusal)]
        assert not unexpected, unexpected[:5]

    def _cycle(self) -> None:
        """Lets the load run for a moment, ends the broker, perhaps also while it recovers, and boots it again."""
        self.load.wait_until_under_way()
        time.sleep(self.dice.uniform(0.1, 1.0))
        self._die()
        for _ in range(self.dice.choice((0, 0, 1, 2))):
            self.broker.spawn()
            # Anywhere from the first instruction to a little after the recovery.
            time.sleep(self.dice.random() * max(0.3, 1.2 * self.broker.boot_s))
            self._die()
        self.broker.start()

    def _die(self) -> None:
        self.crash(self.broker)
        self.history.life += 1

    def _judge(self) -> None:
        self.load.stop()
        drain(self.broker.port, self.history)
        checkers.check(self.history, self.power_loss)
