"""The harness turns red when a rule is broken: the same rounds and checkers on brokers and disks that lie."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.broken_broker import program
from tests.crash.broker_process import BrokerProcess
from tests.crash.fault_scenarios import (
    BATCH,
    await_confirms,
    bodies_in_queue,
    comes_marked_after_a_kill,
    fail_a_batch,
    publish_batch,
    publisher_on,
)
from tests.crash.faults import FaultyDisk
from tests.crash.power import lose_power
from tests.crash.rounds import SMALL_SEGMENTS, CrashRound, seed_of
from tests.crash.rules_checkers import findings
from tests.crash.rules_load import Purpose
from tests.crash.rules_round import RulesRound
from tests.crash.volume import Volume

# A lie costs something in nearly every cycle; a few make sure.
_CYCLES: Final = 3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def broken_broker(tmp_path: Path, disk: FaultyDisk) -> Iterator[BrokerProcess]:
    """On a faulty disk, and deaf to what it says."""
    running = BrokerProcess(tmp_path, environment=disk.environment, program=program("ignore-sync-errors"))
    try:
        yield running
    finally:
        running.close()


def test_kills_find_what_was_not_written(broker_on_faulty_disk: BrokerProcess, disk: FaultyDisk) -> None:
    """The disk takes what is declared and, from then on, forgets every write."""
    crash_round = CrashRound(broker_on_faulty_disk, BrokerProcess.kill, seed_of(0))
    with pytest.raises(AssertionError, match=r"x lost"):
        crash_round.run(_CYCLES, after_declaring=lambda: disk.__setitem__("write_lies", 1))


def test_power_loss_finds_what_was_not_synced(broker_on_volume: BrokerProcess, volume: Volume) -> None:
    broker_on_volume.configure({"storage": {"sync": False}})
    crash_round = CrashRound(broker_on_volume, lambda it: lose_power(it, volume), seed_of(0), power_loss=True)
    with pytest.raises(AssertionError, match=r"x lost"):
        crash_round.run(_CYCLES)


def test_kills_do_not_find_what_was_not_synced(broker: BrokerProcess) -> None:
    """Which is why there are power losses: after a kill the page cache still has everything."""
    broker.configure({"storage": {"sync": False}})
    CrashRound(broker, BrokerProcess.kill, seed_of(0)).run(_CYCLES)


def test_sync_errors_find_who_ignores_them(broken_broker: BrokerProcess, disk: FaultyDisk) -> None:
    with pytest.raises(AssertionError, match="a confirm for a failed batch"):
        fail_a_batch(broken_broker, disk, "sync_fails_at", 1)


def test_a_kill_finds_what_a_failed_sync_took(broken_broker: BrokerProcess, disk: FaultyDisk) -> None:
    """What Linux has dropped is gone for good, whatever the next sync says."""
    broken_broker.start()
    with publisher_on(broken_broker.port) as client:
        # All of them: a single one may be that of a file which is made ahead, and takes no message with it.
        disk["syncs_fail"] = 1
        publish_batch(client, "taken")
        await_confirms(client, BATCH)
        broken_broker.kill()
    assert disk["sync_failed_count"] > 0
    disk.mend()
    broken_broker.start()
    assert len(bodies_in_queue(broken_broker.port)) < BATCH


def test_a_kill_finds_who_forgets_deliveries(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, program=program("forget-deliveries"))
    try:
        broker.start()
        assert not comes_marked_after_a_kill(broker, "forgotten")
    finally:
        broker.close()


def test_kills_find_broken_rules(tmp_path: Path) -> None:
    """A broker that forgets keys, keeps what it has sent on, and does not wait."""
    broker = BrokerProcess(tmp_path, SMALL_SEGMENTS, program=program("break-rules"))
    crash_round = RulesRound(broker, BrokerProcess.kill, seed_of(0))
    try:
        with pytest.raises(AssertionError, match=r"x twice"):
            crash_round.run(1)
    finally:
        broker.close()
    wrong = findings(crash_round.told)
    for purpose in (Purpose.WORK, Purpose.RETRIED, Purpose.ONCE_IN_QUEUE, Purpose.ONCE_BY_EXCHANGE):
        assert any(finding.startswith("twice") and f" of {purpose.name} is" in finding for finding in wrong), purpose
    assert any(finding.startswith("early") for finding in wrong)
