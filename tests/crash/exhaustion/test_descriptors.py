"""Descriptors run out: by a small limit, by clients that come and never say a word, and at a limit that is set while
the broker works. Nothing is lost, nothing stops, and whoever was there before goes on."""

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.crash.enumeration.verdict import in_its_end, reason_of
from tests.crash.exhaustion.siege import Siege, besieged
from tests.crash.exhaustion.workers import Workers

# With fewer than this a broker may refuse to start, if it says so.
_REFUSABLE_MAX: Final = 64
_SHORT_S: Final = 2.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def siege(tmp_path: Path) -> Iterator[Siege]:
    with besieged(Siege(tmp_path / "siege")) as made:
        yield made


@contextmanager
def idle_clients(ports: tuple[int, ...], count: int) -> Iterator[None]:
    """So many connections to each port by turns, which say half a word and then nothing."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < count + 200:
        pytest.skip(f"needs {count + 200} descriptors for its clients, and may have {most}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    clients: list[socket.socket] = []
    try:
        for number in range(count):
            client = socket.socket()
            clients.append(client)
            # Those that nobody accepts are in the kernel's queue, and may fill it.
            client.settimeout(0.2)
            with suppress(OSError):
                client.connect(("127.0.0.1", ports[number % len(ports)]))
                client.sendall(b"GET /api/overview HTTP/1.1\r\nHo" if number % 2 else b"AMQ")
        yield
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("limit", [40, 64, 256, 1024])
def test_idle_clients_take_all_there_are(siege: Siege, limit: int) -> None:
    """Idle connections to AMQP and HTTP, more than the limit: they do not get what the storage needs."""
    broker = siege.broker
    broker.spawn(descriptors=limit)
    if not broker.serves():
        assert limit <= _REFUSABLE_MAX, f"{limit} descriptors are enough to start: {reason_of(broker)}"
        assert in_its_end(broker) == [] and "descriptor" in reason_of(broker), broker.log_text()[-2000:]
        siege.judge(orderly=False, may_have_ended=True)
        return
    with Workers(broker.port, siege.evidence) as workers:
        workers.round(10.0)
        with idle_clients((broker.port, broker.management_port), limit + 40):
            # The backlog is on disk: each of its segments has to be opened now.
            workers.begin()
            rounds = siege.go_on(workers, _SHORT_S, wait_s=5.0)
            assert rounds > 0, f"who was connected before cannot go on:\n{broker.log_text()[-2000:]}"
        siege.recover(workers)
    siege.judge(orderly=limit in (40, 256))


def test_with_enough_of_everything(siege: Siege) -> None:
    """The control: the same work, and nothing runs out."""
    siege.broker.start()
    with Workers(siege.broker.port, siege.evidence) as workers:
        workers.begin()
        assert siege.go_on(workers, 5.0) > 5
        siege.recover(workers)
    siege.judge(orderly=True)


@pytest.mark.parametrize("spare", [0, 1, 3])
def test_a_limit_at_what_is_in_use(siege: Siege, spare: int) -> None:
    """Set from outside while it works: every further open fails, of segments, streams, indexes and sockets."""
    broker = siege.broker
    broker.start()
    with Workers(broker.port, siege.evidence) as workers:
        workers.round(10.0)
        before = resource.prlimit(broker.process, resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir(f"/proc/{broker.process}/fd"))
        resource.prlimit(broker.process, resource.RLIMIT_NOFILE, (highest + 1 + spare, before[1]))
        workers.begin()
        siege.go_on(workers, _SHORT_S)
        assert broker.is_alive, broker.log_text()[-3000:]
        resource.prlimit(broker.process, resource.RLIMIT_NOFILE, before)
        siege.recover(workers)
    siege.judge(orderly=spare != 1)
