"""The programs of this folder, one for each client: what it takes to build one, and running its scenarios.

A program is called with the name of a scenario, the broker's address and a name for what it declares. It prints what it
saw as JSON. Everything that is built is in build/clients."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from tests.clients.brokers import Broker

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
BUILT: Final = ROOT / "build" / "clients"
BUILD_SECONDS_MAX: Final = 900
SCENARIO_SECONDS_MAX: Final = 120


class ToolMissing(Exception):
    """What a client is built with is not installed, or too old. Its tests are skipped with this as the reason."""


def _tool(name: str, least: str, package: str, *version: str) -> str:
    """Where a tool is, which must be of that version at least; `version` makes it print its own."""
    found = shutil.which(name)
    advice = f"install {least} or newer, Debian's package is {package}"
    if found is None:
        raise ToolMissing(f"{name} is missing: {advice}")
    said = subprocess.run([found, *version], capture_output=True, text=True, timeout=60, check=True)
    if version_numbers(said.stdout + said.stderr) < version_numbers(least):
        raise ToolMissing(f"{name} is too old: {advice}")
    return found


def version_numbers(text: str) -> tuple[int, ...]:
    """The first version number of a text."""
    # Maven prints its name in bold, and the number of that stands before the version.
    match = re.search(r"\d+(?:\.\d+)*", re.sub(r"\x1b\[[\d;]*m", "", text))
    assert match, text
    return tuple(map(int, match[0].split(".")))


def _run(command: list[str], directory: Path, **environment: str) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command[:3])} fails:\n{(done.stdout + done.stderr)[-4000:]}"


def _go() -> list[str]:
    program = BUILT / "go" / "clients"
    go = _tool("go", "1.21", "golang-go", "version")
    _run([go, "build", "-o", str(program), "."], HERE / "go", GOFLAGS="-mod=readonly")
    return [str(program)]


def cargo_lock(pins: str, generated: str) -> str:
    """Cargo.lock from the pins, which are one without the lines that name a registry; cargo says how it names it."""
    source = next(line for line in generated.splitlines() if line.startswith("source = "))
    lines: list[str] = []
    for line in pins.splitlines():
        lines += [source, line] if line.startswith("checksum = ") else [line]
    return "\n".join(lines) + "\n"


def _rust() -> list[str]:
    cargo = _tool("cargo", "1.88", "cargo", "--version")
    stage = BUILT / "rust"
    shutil.copytree(HERE / "rust", stage, dirs_exist_ok=True)
    lock, pins = stage / "Cargo.lock", (HERE / "rust" / "Cargo.pins").read_text()
    if not lock.exists():
        _run([cargo, "generate-lockfile"], stage)
    lock.write_text(cargo_lock(pins, lock.read_text()))
    _run([cargo, "build", "--locked", "--quiet"], stage)
    return [str(stage / "target" / "debug" / "clients")]


def pinned_jars(pins: str) -> dict[str, str]:
    """The hash of each jar, from lines as sha256sum prints them."""
    return {name: digest for digest, name in (line.split() for line in pins.splitlines())}


def wrong_jars(directory: Path, pins: dict[str, str]) -> list[str]:
    """Names of jars that are missing there, are others than pinned, or are pinned nowhere."""
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in directory.glob("*.jar")}
    return sorted(name for name in found.keys() | pins.keys() if found.get(name) != pins.get(name))


def _java() -> list[str]:
    java, javac = (_tool(name, "17", "openjdk-17-jdk-headless", "-version") for name in ("java", "javac"))
    maven = _tool("mvn", "3.8", "maven", "--version")
    jars, classes = BUILT / "java" / "jars", BUILT / "java" / "classes"
    pins = pinned_jars((HERE / "java" / "jars.sha256").read_text())
    if wrong_jars(jars, pins):
        shutil.rmtree(jars, ignore_errors=True)
        options = ["--batch-mode", "--quiet", f"-DoutputDirectory={jars}"]
        _run([maven, *options, "dependency:copy-dependencies"], HERE / "java")
    wrong = wrong_jars(jars, pins)
    assert not wrong, f"maven has installed what is not pinned in jars.sha256: {wrong}"
    sources = [str(path) for path in sorted((HERE / "java").glob("*.java"))]
    path = f"{jars}/*"
    _run([javac, "-Xlint:all,-processing,-try", "-Werror", "-d", str(classes), "-cp", path, *sources], HERE / "java")
    return [java, "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{path}"]


def _java_amqp() -> list[str]:
    return [*_java(), "Amqp"]


def _java_stream() -> list[str]:
    return [*_java(), "Streams"]


def _python() -> str:
    pins = _PYTHON_PINS.read_text()
    home, stamp = BUILT / "python", BUILT / "python" / "installed.txt"
    if not stamp.exists() or stamp.read_text() != pins:
        venv.create(home, with_pip=True, clear=True)
        command = [str(home / "bin" / "pip"), "--disable-pip-version-check", "--quiet", "install", "--require-hashes"]
        _run([*command, "-r", str(_PYTHON_PINS)], ROOT, PYTHONPATH="")
        stamp.write_text(pins)
    return str(home / "bin" / "python")


def _taskiq() -> list[str]:
    return [_python(), str(HERE / "python" / "taskiq_program.py")]


def _faststream() -> list[str]:
    return [_python(), str(HERE / "python" / "faststream_program.py")]


@dataclass(frozen=True)
class Client:
    """A client library, and how its program is built, which yields the command."""

    library: str
    language: str
    build: Callable[[], list[str]]
    # The file that pins its version, and the text that the version follows there.
    pins: Path
    before: str
    speaks_streams: bool = False

    @property
    def version(self) -> str:
        match = re.search(re.escape(self.before) + r"\s*(\d[\w.]*\w)", self.pins.read_text())
        assert match, f"{self.pins} does not pin {self.library}"
        return match[1]


_POM: Final = HERE / "java" / "pom.xml"
_PYTHON_PINS: Final = ROOT / "requirements" / "clients.txt"
CLIENTS: Final = {
    "go": Client("amqp091-go", "Go", _go, HERE / "go" / "go.mod", "amqp091-go v"),
    "rust": Client("lapin", "Rust", _rust, HERE / "rust" / "Cargo.pins", 'name = "lapin"\nversion = "'),
    "java": Client("amqp-client", "Java", _java_amqp, _POM, "amqp-client</artifactId>\n      <version>"),
    "java-stream": Client(
        "stream-client", "Java", _java_stream, _POM, "stream-client</artifactId>\n      <version>", speaks_streams=True
    ),
    "taskiq": Client("taskiq-aio-pika", "Python", _taskiq, _PYTHON_PINS, "taskiq-aio-pika=="),
    "faststream": Client("faststream", "Python", _faststream, _PYTHON_PINS, "faststream=="),
}


@dataclass(frozen=True)
class Program:
    """A client's program that is built."""

    client: Client
    command: list[str]

    @contextmanager
    def started(self, scenario: str, broker: Broker, name: str, errors: IO[bytes]) -> Iterator[subprocess.Popen[str]]:
        """The program at a scenario, with pipes to talk to it; ended when the test is."""
        url = broker.stream_url if self.client.speaks_streams else broker.url
        process = subprocess.Popen(
            [*self.command, scenario, url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": ""},
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    def run(self, scenario: str, broker: Broker, name: str, errors: Path) -> Any:
        """Runs a scenario to its end; what it printed."""
        with errors.open("wb") as log, self.started(scenario, broker, name, log) as process:
            output, _ = process.communicate(timeout=SCENARIO_SECONDS_MAX)
        assert process.returncode == 0, f"{output}{errors.read_text()[-4000:]}"
        return json.loads(output)
