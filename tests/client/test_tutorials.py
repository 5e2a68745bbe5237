"""docs/tutorials, done as they say: each page's commands in their order, with asyncio and without, on both brokers."""

from __future__ import annotations

import queue
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.client.topology_scene import Scene
from tests.unit.node.process import environment

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("[0-9]-*.md"))
ADDRESS = "amqp://guest:guest@localhost:5672/"
INTERRUPT = "^C"
WAIT_S = 30.0


class Terminal(NamedTuple):
    """A console of a page: what is typed, what comes, and whether it runs until it is interrupted."""

    words: tuple[str, ...]
    lines: list[str]
    is_lasting: bool


def terminals(page: Path) -> list[Terminal]:
    found = []
    for text in re.findall(r"```console\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL):
        typed, *lines = text.splitlines()
        prompt, python, *words = shlex.split(typed)
        assert (prompt, python) == ("$", "python")
        is_lasting = lines[-1] == INTERRUPT
        found.append(Terminal(tuple(words), lines[:-1] if is_lasting else lines, is_lasting))
    return found


def programs(page: Path) -> Path:
    return ROOT / "examples" / "tutorials" / page.stem.replace("-", "_")


class Running:
    """A program in a terminal that somebody reads."""

    def __init__(self, folder: Path, words: list[str]) -> None:
        command = [sys.executable, "-u", "-W", "error", *words]
        with (folder / "stderr").open("a") as errors:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE, stderr=errors
            )
        self._come: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._come.put(line.rstrip("\n"))
        self._come.put(None)

    def lines(self, seconds: float) -> Iterator[str]:
        """As they come, until the end of the program or of the time."""
        until = time.monotonic() + seconds
        while True:
            try:
                line = self._come.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return
            if line is None:
                return
            yield line

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.mark.parametrize("form", ["", "_blocking"], ids=["asyncio", "blocking"])
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page(page: Path, form: str, scene: Scene, tmp_path: Path) -> None:
    for program in programs(page).glob("*.py"):
        text = program.read_text("utf-8")
        assert text.count(ADDRESS) == 1
        (tmp_path / program.name).write_text(text.replace(ADDRESS, scene.url))
    started: list[tuple[Running, Terminal]] = []
    try:
        for terminal in terminals(page):
            name, *arguments = terminal.words
            running = Running(tmp_path, [name.replace(".py", f"{form}.py"), *arguments])
            started.append((running, terminal))
            if terminal.is_lasting:
                assert next(running.lines(WAIT_S), None) == terminal.lines[0], errors(tmp_path)
            else:
                assert list(running.lines(WAIT_S)) == terminal.lines, errors(tmp_path)
                assert running.process.wait(WAIT_S) == 0, errors(tmp_path)
        check_lasting([(running, terminal) for running, terminal in started if terminal.is_lasting], tmp_path)
    finally:
        for running, _ in started:
            running.end()


def check_lasting(lasting: list[tuple[Running, Terminal]], folder: Path) -> None:
    """Those with the same command share work, and who gets what is up to the moment."""
    for command in {terminal.words for _, terminal in lasting}:
        group = [(running, terminal) for running, terminal in lasting if terminal.words == command]
        expected = Counter(line for _, terminal in group for line in terminal.lines[1:])
        come: Counter[str] = Counter()
        until = time.monotonic() + WAIT_S
        while come.total() < expected.total() and time.monotonic() < until:
            for running, _ in group:
                come.update(running.lines(0.05))
        for running, _ in group:
            running.process.send_signal(signal.SIGINT)
            come.update(running.lines(WAIT_S))
            assert running.process.wait(WAIT_S) == 0, errors(folder)
        assert come == expected, errors(folder)


def errors(folder: Path) -> str:
    return (folder / "stderr").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_shows_every_program_as_it_is(page: Path) -> None:
    text = page.read_text("utf-8")
    shown = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    files = {path.name: path.read_text("utf-8") for path in programs(page).glob("*.py")}
    assert sorted(shown) == sorted(files.values())
    assert all(f"`{name}`" in text for name in files)


def test_the_overview_names_every_page() -> None:
    text = (ROOT / "docs" / "tutorials" / "README.md").read_text("utf-8")
    assert len(PAGES) == 6 and all(f"({page.name})" in text for page in PAGES)
