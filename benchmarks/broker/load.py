"""The load generator: builds amqpload.c once, runs it against a broker and reads its report.

Knows nothing of cases or brokers beyond a port and a process id. Called by the cases; reader.py builds and runs the
reader of streams the same way."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
SOURCE_DEFAULT = PROJECT.parent / "shared" / "tools" / "amqpload.c"
CACHE = PROJECT / ".cache"
# A broker that makes no progress ends a run much sooner; this is for one that crawls.
RUN_SECONDS_MAX = 1800.0

# Called again and again during a run.
Meanwhile = Callable[[], None]


class LoadError(Exception):
    """The load generator cannot be built, or a run did not end with every message accounted for."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a run with its own time, count, broker CPU and broker memory."""

    seconds: float
    items: int
    broker_cpu_s: float
    rss_start_mib: float
    rss_end_mib: float

    @property
    def bytes_per_item(self) -> float:
        return (self.rss_end_mib - self.rss_start_mib) * 1024 * 1024 / max(self.items, 1)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a run measured. Its own check (nothing lost, doubled, out of order) has passed."""

    published: int
    consumed: int
    consumed_per_s: float
    confirmed: int
    confirmed_per_s: float
    seconds: float
    broker_cpu_s: float
    other_cpu_s: float
    e2e_us: dict[str, float]
    confirm_us: dict[str, float]
    rss_peak_mib: float
    phases: dict[str, Phase]


class Load:
    """A built load generator, ready to run."""

    def __init__(self, program: Path) -> None:
        self.program = program

    @classmethod
    def build(cls) -> Load:
        """Compiles the source unless this very source is compiled already."""
        source = Path(os.environ.get("AMQPLOAD_SOURCE", SOURCE_DEFAULT))
        if not source.is_file():
            raise LoadError(f"no load generator at {source}: set AMQPLOAD_SOURCE to the path of amqpload.c")
        return cls(compiled(source))

    def run(self, port: int, pid: int, *options: str, meanwhile: Meanwhile | None = None) -> LoadReport:
        """One run against the broker on `port`, whose process tree starts at `pid`."""
        command = [str(self.program), "--json", "--port", str(port), "--broker-pid", str(pid), *options]
        report = execute(command, meanwhile)
        if not report["ok"]:
            raise LoadError(f"{' '.join(command)}: the check failed: {report['check']}")
        return _read(report)

    def ready(self, port: int) -> int:
        """How many messages the queue of an earlier run holds ready; takes none, and a tenth of a second."""
        # A drain by nobody, which gives up at once: the only run that leaves a queue as it is. Its check must fail.
        options = ("--drain", "--consumers", "0", "--stall", "0", "--keep")
        report = execute([str(self.program), "--json", "--port", str(port), *options], None)
        count: int = report["check"]["left_in_queues"]
        return count


def compiled(source: Path) -> Path:
    """The program that a C file makes; compiled unless this very source is already."""
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise LoadError("no C compiler: install gcc, or set CC")
    program = CACHE / f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not program.exists():
        CACHE.mkdir(exist_ok=True)
        fresh = program.with_suffix(f".{os.getpid()}")
        built = subprocess.run(
            [compiler, "-O2", "-o", str(fresh), str(source)], capture_output=True, text=True, check=False
        )
        if built.returncode != 0:
            raise LoadError(f"{compiler} cannot build {source}:\n{built.stderr}")
        fresh.rename(program)
    return program


def execute(command: list[str], meanwhile: Meanwhile | None) -> dict[str, Any]:
    """The report of one run; a LoadError if there is none."""
    end = time.monotonic() + RUN_SECONDS_MAX
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            # What it prints fits into the pipe, so that nobody needs to read meanwhile.
            while meanwhile and process.poll() is None and time.monotonic() < end:
                meanwhile()
            output, errors = process.communicate(timeout=max(end - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            raise LoadError(f"{' '.join(command)}: not finished after {RUN_SECONDS_MAX:.0f} s") from None
        finally:
            process.kill()
    if not output.startswith("{"):
        raise LoadError(f"{' '.join(command)}: {(output + errors).strip()}")
    report: dict[str, Any] = json.loads(output)
    return report


def _read(report: dict[str, Any]) -> LoadReport:
    """Only the keys the benchmark uses; amqpload writes many more."""
    phases = {
        phase["name"]: Phase(
            seconds=phase["seconds"],
            items=phase["items"],
            broker_cpu_s=phase["broker_cpu_s"],
            rss_start_mib=phase["rss_start_mb"],
            rss_end_mib=phase["rss_end_mb"],
        )
        for phase in report["phases"]
    }
    return LoadReport(
        published=report["published"],
        consumed=report["consumed"],
        consumed_per_s=report["consumed_per_s"],
        confirmed=report["confirmed"],
        confirmed_per_s=report["confirmed_per_s"],
        seconds=report["seconds"],
        broker_cpu_s=report["broker_cpu_s"],
        other_cpu_s=report["other_cpu_s"],
        e2e_us=report["latency_us"]["e2e"],
        confirm_us=report["latency_us"]["confirm"],
        rss_peak_mib=report["broker_rss_mb"]["peak"],
        phases=phases,
    )
