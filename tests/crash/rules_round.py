"""Rounds of crashes on queues with rules: the same deaths as in rounds.py, another load and other checkers."""

import time
from typing import Final

from tests.crash import rules_checkers
from tests.crash.broker_process import BrokerProcess
from tests.crash.client import connected
from tests.crash.fault_scenarios import await_confirms
from tests.crash.load import drain
from tests.crash.messages import BODY_BYTES_MIN, MessageId, body_of
from tests.crash.rounds import Crash, CrashRound
from tests.crash.rules_load import (
    ADDRESSES,
    ALL_QUEUES,
    QUEUES,
    Purpose,
    RulesHistory,
    RulesLoad,
    declare_rules,
    once_properties,
)

_RECLAIM_S_MAX: Final = 60.0


class RulesRound(CrashRound):
    """Drained once, at its end: what is in a queue of the dead then was put there by all lives together."""

    drain_every = 0

    def __init__(self, broker: BrokerProcess, crash: Crash, seed: int, power_loss: bool = False) -> None:
        self.told = RulesHistory()
        super().__init__(broker, crash, seed, power_loss)

    def _make_history(self) -> RulesHistory:
        return self.told

    def _make_load(self, seed: int) -> RulesLoad:
        return RulesLoad(self.broker.port, self.told, seed)

    def _declare(self) -> None:
        declare_rules(self.broker.port)

    def _die(self) -> None:
        self.told.deaths.append(time.time())
        super()._die()

    def _judge(self) -> None:
        assert isinstance(self.load, RulesLoad)
        self.load.stop_publishers()
        self.load.wait_until_quiet()
        self.load.stop()
        drain(self.broker.port, self.told, ALL_QUEUES)
        rules_checkers.check(self.told, self.power_loss)
        assert self.told.repeated_count > 0, "no duplicate was sent"
        if not self.power_loss:
            self._await_reclaim()
        self._expect_known()

    def _await_reclaim(self) -> None:
        """Nothing is left, so the segments go in which most keys were noted first; one is written to, one is spare. Not
        asked where the power can be cut: that disk is not to be seen from here."""
        segments = self.broker.data_directory / "log"
        before = max(int(path.stem) for path in segments.glob("*.segment")) - 1
        deadline = time.monotonic() + _RECLAIM_S_MAX
        while min(int(path.stem) for path in segments.glob("*.segment")) < before:
            assert time.monotonic() < deadline, f"old segments are still there: {sorted(segments.iterdir())}"
            time.sleep(0.05)

    def _expect_known(self) -> None:
        """Everything that was confirmed is sent once more, and none of it is taken."""
        for purpose in (Purpose.ONCE_IN_QUEUE, Purpose.ONCE_BY_EXCHANGE, Purpose.ONCE_CONSUMED):
            assert repeat_all(self.broker.port, self.told, purpose) == 0, f"{purpose.name} was taken a second time"


def repeat_all(port: int, history: RulesHistory, purpose: Purpose) -> int:
    """Publishes every confirmed message of a purpose again: how many were taken."""
    messages = [MessageId(int(purpose), sequence) for sequence in sorted(history.published[purpose].confirmed)]
    queue = QUEUES[purpose][0]
    with connected(port) as client:
        client.call(1, "confirm.select")
        bodies = [body_of(message, BODY_BYTES_MIN) for message in messages]
        client.publish_burst(ADDRESSES[purpose], bodies, [once_properties(message) for message in messages])
        await_confirms(client, len(messages))
        taken = client.call(1, "queue.purge", queue=queue)["message_count"]
        assert isinstance(taken, int)
        return taken
