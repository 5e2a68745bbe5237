"""The reader of streams: builds stream_reader.c once, runs it against a broker and reads its report.

It says itself whether offsets grew; what a broker may leave out between them is for the case to judge. Called by
stream_cases.py."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker.load import LoadError, compiled, execute
from benchmarks.broker.peers import Running

SOURCE = Path(__file__).with_name("stream_reader.c")
SAMPLE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Seek:
    """How long it took from basic.consume to the first message, and which that was."""

    us: float
    offset: int


@dataclass(frozen=True, slots=True)
class ReadReport:
    """What a run measured. Every message had an offset, and offsets grew."""

    messages: int
    bytes: int
    seconds: float
    # Offsets that were passed over.
    missing: int
    # Where each reader started.
    firsts: tuple[int, ...]
    seeks: tuple[Seek, ...]
    broker_cpu_s: float
    rss_peak_mib: float
    # Share of the machine that others used.
    noise: float

    @property
    def rate(self) -> float:
        return self.messages / max(self.seconds, 1e-9)


class Reader:
    """A built reader, ready to run."""

    def __init__(self, program: Path) -> None:
        self.program = program

    @classmethod
    def build(cls) -> Reader:
        return cls(compiled(SOURCE))

    def run(self, broker: Running, *options: str) -> ReadReport:
        command = [str(self.program), "--port", str(broker.port), *options]
        peak = broker.rss_mib()

        def sample() -> None:
            nonlocal peak
            time.sleep(SAMPLE_SECONDS)
            peak = max(peak, broker.rss_mib())

        begun, cpu, machine = time.monotonic(), broker.cpu_seconds(), machine_cpu_seconds()
        report = execute(command, sample)
        seconds = time.monotonic() - begun
        cpu, machine = broker.cpu_seconds() - cpu, machine_cpu_seconds() - machine
        if not report["ok"]:
            # Not all of it: a hundred places to seek are more than anybody reads.
            raise LoadError(f"{' '.join(command)[:200]}: the check failed: {str(report)[:500]}")
        others = max(machine - cpu - report["cpu_s"], 0.0)
        return ReadReport(
            messages=report["messages"],
            bytes=report["bytes"],
            seconds=report["seconds"],
            missing=report["missing"],
            firsts=tuple(reader["first"] for reader in report["readers"]),
            seeks=tuple(Seek(seek["us"], seek["offset"]) for seek in report["seeks"]),
            broker_cpu_s=cpu,
            rss_peak_mib=peak,
            noise=others / max(seconds, 1e-9) / (os.cpu_count() or 1),
        )


def machine_cpu_seconds() -> float:
    """CPU time that all processes and the kernel took since the machine started."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts = map(int, fields[:7])
    return (user + nice + system + interrupts + soft_interrupts) / os.sysconf("SC_CLK_TCK")
