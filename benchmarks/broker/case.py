"""What a case is: a question to a broker, the figures that answer it, and the goals that Leveret is to reach.

The questions themselves stand in cases.py, durable_cases.py and stream_cases.py; report.py prints the answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.broker.load import Load, LoadReport
from benchmarks.broker.peers import Peer, Running

# rate: messages (fanout: deliveries) a second; cpu_us: broker CPU for each; p50_us, p99_us: end to end, or until the
# confirm; memory_mib: resident, at its peak or idle; seconds: how long it took; bytes_each: memory a queue or
# connection; cost_ratio: CPU a message with many bindings to that with few; plain_ratio: the rate
# with rules to that without; sync_us: one bare write and fdatasync
# there right before; sync_ratio: time a message to that; end_ratio: rate of the last quarter of a drain to that of
# the first; messages: how many lay in the queue; noise: share of the machine that others used; grown_ratio: memory at
# the end of a fill to that at its start; goal_ratio: rate to the lower of two goals; one_ratio: rate of ten readers to
# that of one; max_us: the longest of all.
# A case with stages puts the name of the stage before: "drain.rate".
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on one figure."""

    figure: str
    limit: float
    text: str
    at_least: bool = False

    def reached(self, figures: Figures) -> bool:
        """A figure that was not measured reaches nothing."""
        if self.figure not in figures:
            return False
        return figures[self.figure] >= self.limit if self.at_least else figures[self.figure] <= self.limit


@dataclass(frozen=True, slots=True)
class Bench:
    """What a case is given beside the broker."""

    load: Load
    seconds: float
    # All counted messages times this; for trying a case out, not for figures.
    scale: float = 1.0
    # The whole backlog for every broker, however long it takes.
    full: bool = False

    def count(self, broker: Running, messages: int) -> int:
        """How many of the case's messages this broker gets."""
        share = 1.0 if self.full else broker.peer.backlog_share
        return max(int(messages * share * self.scale), 1)


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a case with a row of its own."""

    name: str
    title: str
    goals: tuple[Goal, ...]

    def of(self, figures: Figures) -> Figures:
        """The stage's own figures, without its name before them; all of them if it has no name."""
        if not self.name:
            return figures
        prefix = f"{self.name}."
        return {key.removeprefix(prefix): value for key, value in figures.items() if key.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    title: str
    measure: Callable[[Bench, Running], Figures]
    goals: tuple[Goal, ...] = ()
    # Instead of goals, for a case that goes on in several steps.
    stages: tuple[Stage, ...] = ()
    # Memory and start-up are told of a broker that has done nothing yet.
    new_broker_each_time: bool = False
    repeats_min: int = 1
    repeats_max: int = 1000
    # Figures of which the smallest counts, not the median.
    smallest: frozenset[str] = frozenset()
    # Persistent messages in durable queues: asked of each queue type of a broker that has several.
    durable: bool = False
    # Takes minutes with a slow broker: those only get it when asked for.
    long: bool = False
    # Cases in a row with the same name here have the same brokers, and what earlier ones put there; empty: its own.
    shares: str = ""

    def parts(self) -> tuple[Stage, ...]:
        return self.stages or (Stage("", self.title, self.goals),)

    def suits(self, peer: Peer, *, full: bool) -> bool:
        if peer.durable_only and not self.durable:
            return False
        return full or not self.long or peer.backlog_share == 1.0

    def repeats(self, asked: int) -> int:
        return min(max(asked, self.repeats_min), self.repeats_max)


def noise(report: LoadReport) -> float:
    return max(report.other_cpu_s, 0.0) / max(report.seconds, 0.001) / (os.cpu_count() or 1)


def throughput(*options: str) -> Callable[[Bench, Running], Figures]:
    """As many messages as go through; figures are per delivery."""

    def measure(bench: Bench, broker: Running) -> Figures:
        report = bench.load.run(
            broker.port, broker.pid, "--seconds", str(bench.seconds), *options, *broker.peer.queue_options
        )
        return {
            "rate": report.consumed_per_s,
            "cpu_us": report.broker_cpu_s * 1e6 / max(report.consumed, 1),
            "memory_mib": report.rss_peak_mib,
            "noise": noise(report),
        }

    return measure
