"""`leveret serve` as a process of its own, ended when the test ends."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import leveret

SOURCES = str(Path(leveret.__file__).parents[1])
SECONDS_MAX = 60


def environment(**more: str) -> dict[str, str]:
    """This one's, with the package under test to be found and nothing that would change what it does."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("COV_", "PYTEST_"))}
    return {**plain, "PYTHONPATH": SOURCES, "PYTHONDONTWRITEBYTECODE": "1", **more}


def command(*arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, *flags, "-m", "leveret", *arguments]


def finished(*arguments: str, flags: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
    """Runs a command that ends by itself."""
    return subprocess.run(
        command(*arguments, flags=flags),
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


class Server:
    """A running `leveret serve` that has said where it listens."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.announced: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            self.announced.append(line.rstrip("\n"))
            if line.startswith("  data "):
                break
        found = re.search(r"amqp://(\S+):(\d+)", "\n".join(self.announced))
        assert found, f"it did not say where it listens: {self.announced} {self.errors()}"
        self.host, self.port = found[1], int(found[2])

    def errors(self) -> str:
        """All of standard error; waits for the process to end."""
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def serving(*arguments: str, descriptors_max: int | None = None, **more: str) -> Iterator[Server]:
    def limit() -> None:
        if descriptors_max is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors_max, descriptors_max))

    process = subprocess.Popen(
        command("serve", "--port", "0", *arguments),
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
    )
    try:
        yield Server(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=SECONDS_MAX)
