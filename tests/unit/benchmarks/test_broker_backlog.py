"""The benchmark's long queues: restarts, the check that nothing is lost by one, and rates along a drain."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.broker import durable_cases
from benchmarks.broker.case import Bench
from benchmarks.broker.durable_cases import await_ready, quarter_rates
from benchmarks.broker.load import Load, LoadError
from benchmarks.broker.peers import Running, running

# Answers anything with one byte, which is all that a start is waited for, and counts its starts in a file.
BROKER = """
import socket, sys
open("starts", "a").write("x")
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    while True:
        connection, _ = server.accept()
        with connection:
            connection.recv(8)
            connection.sendall(b"A")
"""


class Toy:
    """A broker that starts in no time."""

    name = "toy"
    queue_options: tuple[str, ...] = ()
    backlog_share = 0.1
    durable_only = False
    settle_seconds = 0.0
    stream_files = "streams/*"
    offsets_exact = True

    def installed(self) -> bool:
        return True

    def version(self) -> str:
        return "1"

    def start(self, directory: Path, port: int) -> list[subprocess.Popen[bytes]]:
        return [
            subprocess.Popen(
                [sys.executable, "-S", "-c", BROKER, str(port)],
                cwd=directory,
                start_new_session=True,
                stderr=subprocess.DEVNULL,
            )
        ]


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Running]:
    with running(Toy(), tmp_path) as broker:
        yield broker


def load_that_prints(tmp_path: Path, text: str) -> Load:
    program = tmp_path / "amqpload"
    program.write_text(f"#!/bin/sh\necho '{text}'\n")
    program.chmod(0o755)
    return Load(program)


@pytest.mark.parametrize("kill", [True, False])
def test_a_restarted_broker_is_a_new_process_with_the_same_port_and_files(toy: Running, kill: bool) -> None:
    before, port = toy.pid, toy.port
    assert toy.restart(kill=kill) < 60
    assert (toy.pid != before, toy.port) == (True, port)
    assert (toy.directory / "starts").read_text() == "xx"
    assert 0 < toy.start_seconds < 60
    with pytest.raises(ProcessLookupError):
        os.kill(before, 0)


def test_a_closed_broker_leaves_nothing(tmp_path: Path) -> None:
    with running(Toy(), tmp_path) as broker:
        pid = broker.pid
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_slow_broker_gets_a_share_of_the_backlog_unless_asked(toy: Running, tmp_path: Path) -> None:
    load = Load(tmp_path)
    assert Bench(load, 1.0).count(toy, 1000) == 100
    assert Bench(load, 1.0, scale=0.5).count(toy, 1000) == 50
    assert Bench(load, 1.0, full=True).count(toy, 1000) == 1000


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ('{"ok": false, "check": {"left_in_queues": 7}}', "after kill -9 the queue holds 7"),
        ("closed by broker: 404 NOT_FOUND", "after kill -9 .*404 NOT_FOUND"),
    ],
)
def test_messages_missing_after_a_restart_are_an_error(
    monkeypatch: pytest.MonkeyPatch, toy: Running, tmp_path: Path, printed: str, said: str
) -> None:
    monkeypatch.setattr(durable_cases, "READY_SECONDS_MAX", 0.0)
    bench = Bench(load_that_prints(tmp_path, printed), 1.0)
    with pytest.raises(LoadError, match=f"8 messages were confirmed, but {said}"):
        await_ready(bench, toy, 8, "kill -9")


def test_a_complete_queue_is_not_waited_for(toy: Running, tmp_path: Path) -> None:
    bench = Bench(load_that_prints(tmp_path, '{"ok": false, "check": {"left_in_queues": 8}}'), 1.0)
    await_ready(bench, toy, 8, "kill -9")


def test_quarters_of_a_drain_have_rates_of_their_own() -> None:
    # 1000 messages: ten a second down to the middle, from there five.
    samples = [(0.0, 1000), (1.0, 1000)]
    samples += [(1.0 + second, 1000 - 10 * second) for second in range(1, 51)]
    samples += [(51.0 + second, 500 - 5 * second) for second in range(1, 101)]
    assert quarter_rates(samples) == pytest.approx((10.0, 5.0))


@pytest.mark.parametrize("samples", [[], [(0.0, 0)], [(0.0, 100), (1.0, 90), (2.0, 40), (3.0, 0)]])
def test_a_drain_too_short_to_sample_has_no_rates(samples: list[tuple[float, int]]) -> None:
    assert quarter_rates(samples) is None
