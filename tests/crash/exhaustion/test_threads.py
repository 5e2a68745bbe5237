"""No thread can be started any more: what needs one waits or does without, and nothing is lost."""

import errno
from pathlib import Path

import pytest

from tests.crash.enumeration.calls import Fault, FaultyCalls, Kind
from tests.crash.enumeration.verdict import in_its_end
from tests.crash.exhaustion.siege import Siege, besieged
from tests.crash.exhaustion.workers import Workers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_no_thread_after_the_start(tmp_path: Path) -> None:
    calls = FaultyCalls(tmp_path / "shim", tmp_path / "siege" / "broker" / "data")
    with besieged(Siege(tmp_path / "siege", calls.environment)) as siege:
        broker = siege.broker
        calls.reset()
        broker.start()
        calls.reset(Fault(Kind.THREAD.name, 1, errno.EAGAIN), sticky=True)
        with Workers(broker.port, siege.evidence) as workers:
            workers.begin()
            assert siege.go_on(workers, 2.0, wait_s=5.0) > 0, broker.log_text()[-3000:]
            calls.mend()
            siege.recover(workers)
        siege.judge(orderly=True)


def test_no_thread_at_the_start(tmp_path: Path) -> None:
    """It starts without, or refuses and says why; either way everything is there after."""
    calls = FaultyCalls(tmp_path / "shim", tmp_path / "siege" / "broker" / "data")
    with besieged(Siege(tmp_path / "siege", calls.environment)) as siege:
        calls.reset(Fault(Kind.THREAD.name, 1, errno.EAGAIN), sticky=True)
        siege.broker.spawn()
        if not siege.broker.serves():
            assert in_its_end(siege.broker) == [], siege.broker.log_text()[-2000:]
        calls.mend()
        siege.judge(orderly=True, may_have_ended=True)
