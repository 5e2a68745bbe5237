"""Power loss as a broker sees it: it stops in the middle of whatever it does, and only what was synced is there after.

The order matters. The broker is frozen first, because an fdatasync that is under way may claim success when the file
system is shut down beneath it, and a broker that still runs would confirm. What it sent before it froze is in the
sockets, and the load reads it from there whether the broker lives or not."""

import os
import signal
import time
from pathlib import Path
from typing import Final

from tests.crash.broker_process import BrokerProcess
from tests.crash.volume import Volume

_FREEZE_S_MAX: Final = 60.0
# Stopped, being traced, in the kernel (from where it goes on to stopped), dead.
_HARMLESS_STATES: Final = frozenset("TtDZX")


def _threads_of_group(group: int) -> list[Path]:
    """The stat files of all threads of all processes of the group."""
    threads = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (process / "stat").read_text().rpartition(")")[2].split()
            if int(after_name[2]) == group:
                threads += list((process / "task").glob("*/stat"))
        except OSError:
            continue
    return threads


def _state(thread: Path) -> str:
    try:
        return thread.read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def freeze(group: int) -> None:
    """Stops all processes of a group and returns when none of their threads can run any more."""
    os.killpg(group, signal.SIGSTOP)
    deadline = time.monotonic() + _FREEZE_S_MAX
    while any(_state(thread) not in _HARMLESS_STATES for thread in _threads_of_group(group)):
        assert time.monotonic() < deadline, f"not frozen after {_FREEZE_S_MAX} s"
        time.sleep(0.001)


def lose_power(broker: BrokerProcess, volume: Volume) -> None:
    """Ends the broker as a power cut would, and mounts its disk again with what is left on it."""
    assert broker.process is not None and broker.is_alive, f"it ended before:\n{broker.log_tail()}"
    freeze(broker.process.pid)
    volume.shut_down()
    broker.kill()
    volume.unmount()
    volume.mount()
