"""A broker with a backlog on disk that runs out of something, under load, and gets it back.

Each test says what runs out. After that the whole script of the enumeration has to succeed, and after a restart
everything that was confirmed has to be there."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.crash.broker_process import Settings
from tests.crash.client import ConnectionLost, Refused
from tests.crash.enumeration.evidence import Evidence
from tests.crash.enumeration.launcher import ForkedBroker, Launcher
from tests.crash.enumeration.publishing import Cut, Unfinished
from tests.crash.enumeration.script import Script
from tests.crash.enumeration.verdict import after_restart, in_its_end, in_its_log, reason_of
from tests.crash.exhaustion.workers import Workers

SETTINGS: Final[Settings] = {"storage": {"segment_bytes": 64 * 1024}}
_RECOVERY_S_MAX: Final = 20.0


class Siege:
    def __init__(
        self,
        directory: Path,
        environment: dict[str, str] | None = None,
        settings: Settings = SETTINGS,
        data: Path | None = None,
        prefix: tuple[str, ...] = (),
    ) -> None:
        self._launcher = Launcher(directory, environment or os.environ, prefix=prefix)
        self.broker = ForkedBroker(self._launcher, directory / "broker", settings, data)
        self.evidence = Evidence()
        # Whether the broker closed a connection of the workers.
        self.was_cut = False

    @property
    def script(self) -> Script:
        return Script(self.broker.port, self.broker.management_port, self.evidence, lambda: self.broker.is_alive)

    def prepare(self) -> None:
        """Leaves a backlog and streams on disk, and no broker."""
        self.broker.start()
        self.script.prepare()
        self.broker.end(signal.SIGKILL)

    def go_on(self, workers: Workers, seconds: float, wait_s: float = 1.0, size: int = 2500) -> int:
        """Rounds of work while something is short; how many came to their end."""
        done = 0
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.broker.is_alive:
            try:
                workers.round(wait_s, size=size)
                done += 1
                time.sleep(0.02)
            except (Cut, Refused, *ConnectionLost):
                self.was_cut = True
                break
            except Unfinished:
                # Nothing is there to work with; later, then. What is published now is waited for at the end.
                time.sleep(0.05)
        return done

    def recover(self, workers: Workers) -> None:
        """Nothing is short any more: whoever was connected gets everything, and whoever comes can do everything."""
        try:
            workers.await_everything(_RECOVERY_S_MAX)
        except (Unfinished, Refused, *ConnectionLost) as error:
            raise AssertionError(f"{error!r} {reason_of(self.broker)}\n{self.broker.log_text()[-3000:]}") from None
        # What they hold goes back to those who come.
        workers.leave()
        assert self.script.run(), f"the broker has ended: {self.broker.log_text()[-3000:]}"

    def judge(self, orderly: bool, may_have_ended: bool = False) -> None:
        """Ends the broker, starts it again, and looks at everything."""
        wrong: list[str] = []
        if self.broker.is_alive:
            status = self.broker.end(signal.SIGTERM if orderly else signal.SIGKILL)
            if orderly and status != 0:
                wrong.append(f"stopped with status {status}: {reason_of(self.broker)}")
        else:
            orderly = False
            wrong += in_its_end(self.broker)
            if not may_have_ended:
                wrong.append(f"stopped: {reason_of(self.broker)}")
        wrong += in_its_log(self.broker, may_name_damage=False)
        wrong += after_restart(self.broker, self.evidence, orderly)
        assert not wrong, "\n".join([*wrong[:30], self.broker.log_text()[:6000]])

    def judge_what_is_left(self) -> None:
        """Ends the broker, if it has not ended, and looks only at what it has when it is started again."""
        self.broker.end(signal.SIGKILL)
        wrong = after_restart(self.broker, self.evidence, orderly=False)
        assert not wrong, "\n".join([*wrong[:30], self.broker.log_text()[:6000]])

    def close(self) -> None:
        with suppress(AssertionError, OSError):
            self.broker.end(signal.SIGKILL)
        self._launcher.close()


@contextmanager
def besieged(siege: Siege) -> Iterator[Siege]:
    """With a backlog on disk; whatever happens, no process stays behind."""
    try:
        siege.prepare()
        yield siege
    finally:
        siege.close()
