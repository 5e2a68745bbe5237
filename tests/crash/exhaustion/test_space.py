"""The file system has no room, or no inodes, from one moment to the next, and has them again.

Without inodes no file can be made, but what is open can be written: the broker goes on. Without room a write fails,
which may be the end of the store, if it says so; then everything is there at the next start."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.broker_process import Settings
from tests.crash.enumeration.verdict import in_its_end, reason_of
from tests.crash.exhaustion.siege import SETTINGS, Siege, besieged
from tests.crash.exhaustion.workers import Workers
from tests.crash.fault_scenarios import names_the_disk
from tests.crash.faults import wait_for
from tests.crash.volume import MIB, Volume, skip_without_volumes

_FREE_BYTES_MIN: Final = 2 * MIB
_SETTINGS: Final[Settings] = {**SETTINGS, "alarms": {"disk_free_bytes_min": _FREE_BYTES_MIN}}
_PLENTY_BYTES: Final = 64 * MIB
_PLENTY_FILES: Final = 10_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    skip_without_volumes()
    with Volume(tmp_path / "disk", _PLENTY_BYTES, "tmpfs") as mounted:
        yield mounted


@pytest.fixture
def siege(tmp_path: Path, volume: Volume) -> Iterator[Siege]:
    made = Siege(tmp_path / "siege", settings=_SETTINGS, data=volume.path / "data", prefix=volume.prefix)
    with besieged(made) as ready:
        yield ready


@pytest.mark.parametrize("files", [0, 1, 4])
def test_no_inodes(siege: Siege, volume: Volume, files: int) -> None:
    siege.broker.start()
    with Workers(siege.broker.port, siege.evidence) as workers:
        workers.round(10.0)
        volume.limit(_PLENTY_BYTES, files)
        workers.begin()
        siege.go_on(workers, 2.0)
        assert siege.broker.is_alive, siege.broker.log_text()[-3000:]
        volume.limit(_PLENTY_BYTES, _PLENTY_FILES)
        siege.recover(workers)
    siege.judge(orderly=files == 1)


def test_too_little_room(siege: Siege, volume: Volume) -> None:
    """Below the limit, but not full: publishers wait, consumers go on."""
    siege.broker.start()
    with Workers(siege.broker.port, siege.evidence) as workers:
        workers.round(10.0)
        volume.limit(_FREE_BYTES_MIN // 2, _PLENTY_FILES)
        workers.begin()
        siege.go_on(workers, 3.0)
        assert siege.broker.is_alive, siege.broker.log_text()[-3000:]
        volume.limit(_PLENTY_BYTES, _PLENTY_FILES)
        siege.recover(workers)
    siege.judge(orderly=True)


@pytest.mark.parametrize("free_bytes", [0, 16 * 1024, 256 * 1024])
def test_no_room(siege: Siege, volume: Volume, free_bytes: int) -> None:
    siege.broker.start()
    with Workers(siege.broker.port, siege.evidence) as workers:
        workers.round(10.0)
        volume.limit(free_bytes, _PLENTY_FILES)
        workers.begin()
        siege.go_on(workers, 3.0)
        volume.limit(_PLENTY_BYTES, _PLENTY_FILES)
        if not siege.was_cut:
            siege.recover(workers)
        else:
            wait_for("the end of the broker", lambda: not siege.broker.is_alive, 15.0)
            assert in_its_end(siege.broker) == [] and names_the_disk(reason_of(siege.broker)), reason_of(siege.broker)
    siege.judge(orderly=True, may_have_ended=True)
