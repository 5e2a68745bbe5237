"""Alerts that wait are in a file: another life of the broker goes on with them, whatever became of the first."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from leveret.errors import StartupError
from leveret.operations.reprocess.spec import ARCHIVED, Alert
from leveret.operations.webhooks import waiting_file as module
from leveret.operations.webhooks.templates import Sender
from leveret.operations.webhooks.webhooks import ID, WebhookOptions, Webhooks
from leveret.runtime.https import FetchError
from leveret.runtime.secret import Secret

ONE, TWO = "https://one.example/token-1", "https://two.example/token-2"
SENDER = Sender("leveret@here", "shop")


def alert(queue: str) -> Alert:
    return Alert(0, "/", queue, "7", ARCHIVED, 1, "/archive")


class Endpoint:
    def __init__(self, dead: bool = False) -> None:
        self.dead = dead
        self.tries = 0
        self.taken: list[tuple[str, str]] = []

    async def post(self, url: str, ca: str, body: bytes, headers: dict[str, str], deadline_s: float) -> None:
        self.tries += 1
        if self.dead:
            raise FetchError("no", 503)
        self.taken.append((url, headers[ID]))


class Life:
    """One run of a broker's webhooks on the file."""

    names = 0

    def __init__(self, folder: Path, endpoint: Endpoint) -> None:
        self.path = folder / "alerts" / "waiting"
        self.hooks = Webhooks(self._name, lambda: 1.7e9, endpoint.post, self.path)

    def _name(self) -> str:
        Life.names += 1
        return f"id {Life.names}"

    def start(self, *urls: str) -> None:
        self.hooks.start(WebhookOptions(tuple(Secret(url) for url in urls), pause_s=60.0), SENDER)

    async def killed(self) -> None:
        """Ends as a kill does: nothing more is written."""
        file = self.hooks._file
        assert file is not None
        for task in [file._task, *(line._task for line in self.hooks._lines)]:
            if task is not None:
                task.cancel()
        if file._thread is not None:
            file._thread.shutdown(wait=True, cancel_futures=True)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("waited in vain")


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def test_a_killed_broker_sends_what_waited(tmp_path: Path) -> None:
    async def work() -> None:
        endpoint = Endpoint(dead=True)
        first = Life(tmp_path, endpoint)
        first.start(ONE, TWO)
        first.hooks.send(alert("a"))
        first.hooks.send(alert("b"))
        ids = [waiting.id for waiting in first.hooks._lines[0].waiting]
        await until(lambda: first.path.exists() and b'"b"' in first.path.read_bytes())
        await first.killed()
        endpoint.dead = False
        second = Life(tmp_path, endpoint)
        second.start(ONE, TWO)
        assert second.hooks.outcomes.restored_total == 4
        await until(lambda: len(endpoint.taken) == 4)
        assert sorted(endpoint.taken) == sorted((url, name) for url in (ONE, TWO) for name in ids)
        await second.hooks.stop()
        third = Life(tmp_path, endpoint)
        third.start(ONE, TWO)
        assert third.hooks.pending == 0
        await third.hooks.stop()

    run(work)


def test_a_stop_keeps_what_one_more_try_did_not_deliver(tmp_path: Path) -> None:
    async def work() -> None:
        endpoint = Endpoint(dead=True)
        first = Life(tmp_path, endpoint)
        first.start(ONE)
        first.hooks.send(alert("a"))
        await until(lambda: endpoint.tries == 1)
        await first.hooks.stop()
        assert endpoint.tries == 2
        endpoint.dead = False
        second = Life(tmp_path, endpoint)
        second.start(ONE)
        await until(lambda: len(endpoint.taken) == 1)
        await second.hooks.stop()

    run(work)


def test_addresses_are_not_in_the_file_and_those_that_left_are_counted(tmp_path: Path) -> None:
    async def work() -> None:
        endpoint = Endpoint(dead=True)
        first = Life(tmp_path, endpoint)
        first.start(ONE)
        first.hooks.send(alert("\udcff"))
        await first.hooks.stop()
        assert b"token-1" not in first.path.read_bytes()
        assert first.path.stat().st_mode & 0o077 == 0
        second = Life(tmp_path, endpoint)
        second.start(TWO)
        assert (second.hooks.pending, second.hooks.outcomes.dropped_total) == (0, 1)
        await second.hooks.stop()
        third = Life(tmp_path, endpoint)
        third.start(ONE)
        assert third.hooks.pending == 0
        await third.hooks.stop()

    run(work)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data.replace(b"dead", b"DEAD"), lambda _: b""])
def test_a_damaged_file_is_set_aside(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    async def work() -> None:
        endpoint = Endpoint(dead=True)
        first = Life(tmp_path, endpoint)
        first.start(ONE)
        first.hooks.send(alert("dead"))
        await first.hooks.stop()
        first.path.write_bytes(change(first.path.read_bytes()))
        second = Life(tmp_path, endpoint)
        second.start(ONE)
        assert second.hooks.pending == 0
        assert second.path.with_name("waiting.damaged").exists()
        await second.hooks.stop()

    run(work)


def test_a_shortage_at_the_start_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        endpoint = Endpoint(dead=True)
        first = Life(tmp_path, endpoint)
        first.start(ONE)
        first.hooks.send(alert("a"))
        await first.hooks.stop()

        def none_left(_: Path) -> bytes:
            raise OSError(errno.EMFILE, "Too many open files")

        second = Life(tmp_path, endpoint)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", none_left)
            with pytest.raises(StartupError, match="Too many open files"):
                second.start(ONE)
        second.start(ONE)
        assert second.hooks.pending == 1
        await second.hooks.stop()

    run(work)


def test_a_write_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(module, "RETRY_S", 0.01)
        replace, failures = module.replace_file, [errno.ENOSPC, errno.EIO]

        def sometimes(path: Path, data: bytes) -> None:
            if failures:
                raise OSError(failures.pop(), "no")
            replace(path, data)

        monkeypatch.setattr(module, "replace_file", sometimes)
        endpoint = Endpoint(dead=True)
        first = Life(tmp_path, endpoint)
        first.start(ONE)
        first.hooks.send(alert("a"))
        await until(first.path.exists)
        await first.killed()
        second = Life(tmp_path, endpoint)
        second.start(ONE)
        assert second.hooks.pending == 1
        await second.hooks.stop()

    run(work)
