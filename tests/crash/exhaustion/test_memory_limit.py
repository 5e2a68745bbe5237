"""Memory cannot be had any more: the broker goes on with what it has, or ends; nothing that was confirmed is lost.

Where memory runs out it may be in the interpreter, in the loop or in compiled code, so how the broker ends is not
asked for. That it seldom comes to this is what the watermark is for (test_memory.py)."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.exhaustion.siege import Siege, besieged
from tests.crash.exhaustion.workers import Workers
from tests.crash.volume import MIB

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def siege(tmp_path: Path) -> Iterator[Siege]:
    with besieged(Siege(tmp_path / "siege")) as made:
        yield made


def address_space_bytes(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmSize:")).split()[1]) * 1024


@pytest.mark.parametrize("spare_bytes", [0, MIB, 8 * MIB])
def test_no_memory(siege: Siege, spare_bytes: int) -> None:
    broker = siege.broker
    broker.start()
    before = resource.prlimit(broker.process, resource.RLIMIT_AS)
    with Workers(broker.port, siege.evidence) as workers:
        workers.round(10.0)
        limit = address_space_bytes(broker.process) + spare_bytes
        resource.prlimit(broker.process, resource.RLIMIT_AS, (limit, before[1]))
        workers.begin()
        siege.go_on(workers, 3.0, size=200_000)
        if broker.is_alive:
            resource.prlimit(broker.process, resource.RLIMIT_AS, before)
    siege.judge_what_is_left()
