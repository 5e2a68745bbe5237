"""What a service manager is told, on a real datagram socket."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.runtime.service_manager import ServiceManager
from tests.unit.runtime.endpoints import run

SECONDS_MAX = 60.0


@pytest.fixture(params=["file", "abstract"])
def listening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        path = str(tmp_path / "notify")
        sock.bind(path if request.param == "file" else f"\0{path}")
        sock.settimeout(SECONDS_MAX)
        yield path if request.param == "file" else f"@{path}", sock


def heard(sock: socket.socket) -> list[str]:
    return sock.recv(4096).decode().splitlines()


def is_silent(sock: socket.socket) -> bool:
    """If not, one datagram less waits."""
    if not select.select([sock], [], [], 0)[0]:
        return True
    sock.recv(4096)
    return False


def test_each_step_is_told_once(listening: tuple[str, socket.socket]) -> None:
    path, sock = listening
    environment = {"NOTIFY_SOCKET": path}

    async def test() -> None:
        manager = ServiceManager(environment)
        manager.ready("serves")
        assert heard(sock) == ["READY=1", "STATUS=serves"]
        with manager.reloading():
            reloading, moment = heard(sock)
            assert (reloading, moment.partition("=")[0]) == ("RELOADING=1", "MONOTONIC_USEC")
            assert int(moment.partition("=")[2]) > 0
            assert is_silent(sock)
        assert heard(sock) == ["READY=1"]
        manager.stopping("two\nlines")
        assert heard(sock) == ["STOPPING=1", "STATUS=two lines"]
        manager.close()
        assert is_silent(sock)

    run(test)
    # What the node starts is not the service.
    assert environment == {}


def test_the_loop_says_that_it_lives_until_it_ends(listening: tuple[str, socket.socket]) -> None:
    path, sock = listening

    async def test() -> None:
        loop = asyncio.get_running_loop()
        sock.setblocking(False)
        manager = ServiceManager({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": str(os.getpid())})
        manager.ready("serves")
        told = [(await asyncio.wait_for(loop.sock_recv(sock, 4096), SECONDS_MAX)).decode() for _ in range(4)]
        assert told == ["READY=1\nSTATUS=serves", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
        manager.close()
        while not is_silent(sock):
            pass
        await asyncio.sleep(0.05)
        assert is_silent(sock)

    run(test)


@pytest.mark.parametrize("more", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "never"}, {"WATCHDOG_USEC": "0"}])
def test_whoever_is_not_watched_says_nothing(tmp_path: Path, more: dict[str, str]) -> None:
    async def test() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            path = str(tmp_path / "notify")
            sock.bind(path)
            manager = ServiceManager({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000", **more})
            manager.ready("serves")
            assert heard(sock)[0] == "READY=1"
            await asyncio.sleep(0.02)
            assert is_silent(sock)

    run(test)


def test_without_a_manager_and_with_one_that_is_gone_the_broker_goes_on(tmp_path: Path) -> None:
    async def test() -> None:
        for environment in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone")}):
            manager = ServiceManager(environment)
            manager.ready("serves")
            with manager.reloading():
                pass
            manager.stopping("stops")
            manager.close()

    run(test)
