"""The load generator: builds amqpload.c once, runs it against a broker and reads its report.

Knows nothing of cases or brokers beyond a port and a process id. Called by cases.py."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
SOURCE_DEFAULT = PROJECT.parent / "shared" / "tools" / "amqpload.c"
CACHE = PROJECT / ".cache"
RUN_SECONDS_MAX = 600.0


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
    seconds: float
    broker_cpu_s: float
    other_cpu_s: float
    e2e_us: dict[str, float]
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
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise LoadError("no C compiler: install gcc, or set CC")
        program = CACHE / f"amqpload-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
        if not program.exists():
            CACHE.mkdir(exist_ok=True)
            fresh = program.with_suffix(f".{os.getpid()}")
            built = subprocess.run(
                [compiler, "-O2", "-o", str(fresh), str(source)], capture_output=True, text=True, check=False
            )
            if built.returncode != 0:
                raise LoadError(f"{compiler} cannot build {source}:\n{built.stderr}")
            fresh.rename(program)
        return cls(program)

    def run(self, port: int, pid: int, *options: str) -> LoadReport:
        """One run against the broker on `port`, whose process tree starts at `pid`."""
        command = [str(self.program), "--json", "--port", str(port), "--broker-pid", str(pid), *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            raise LoadError(f"{' '.join(command)}: not finished after {RUN_SECONDS_MAX:.0f} s") from None
        if not done.stdout.startswith("{"):
            raise LoadError(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()}")
        report = json.loads(done.stdout)
        if not report["ok"]:
            raise LoadError(f"{' '.join(command)}: the check failed: {report['check']}")
        return _read(report)


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
        seconds=report["seconds"],
        broker_cpu_s=report["broker_cpu_s"],
        other_cpu_s=report["other_cpu_s"],
        e2e_us=report["latency_us"]["e2e"],
        rss_peak_mib=report["broker_rss_mb"]["peak"],
        phases=phases,
    )
