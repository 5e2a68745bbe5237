"""Brokers and disks for one test each; whatever happens in the test, they end with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.broker_process import BrokerProcess
from tests.crash.faults import FaultyDisk
from tests.crash.volume import MIB, Volume, skip_without_volumes

_VOLUME_BYTES: Final = 1024 * MIB


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker on the disk of the machine; not started yet."""
    running = BrokerProcess(tmp_path)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    """A disk whose faults the test switches."""
    return FaultyDisk(tmp_path / "shim", tmp_path / "data")


@pytest.fixture
def broker_on_faulty_disk(tmp_path: Path, disk: FaultyDisk) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path, environment=disk.environment)
    try:
        yield running
    finally:
        disk.mend()
        running.close()


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    """A disk whose power can be cut."""
    skip_without_volumes()
    with Volume(tmp_path / "disk", _VOLUME_BYTES) as mounted:
        yield mounted


@pytest.fixture
def broker_on_volume(tmp_path: Path, volume: Volume) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path, data_directory=volume.path / "data", prefix=volume.prefix)
    try:
        yield running
    finally:
        running.close()
