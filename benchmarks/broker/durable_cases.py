"""The cases with persistent messages in durable queues: what a confirm costs, and what a long queue costs.

Every one of them confirms; a broker that confirms before its disk has the message is faster here and loses it in a
power cut, so each row is to be read with what that broker promises. Called by cases.py."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.broker.case import Bench, Case, Figures, Goal, Stage, noise, throughput
from benchmarks.broker.disk import append_synced
from benchmarks.broker.load import LoadError, LoadReport, Meanwhile
from benchmarks.broker.peers import Running

CONFIRM_WINDOW = 1000
BACKLOG = 1_000_000
LONG = 10_000_000
LATENCY_RATE = 5_000
# After a restart a broker may answer before its queues are there: RabbitMQ first elects a leader for a quorum queue.
READY_SECONDS_MAX = 10.0
SAMPLE_SECONDS = 0.1

ACKS = ("--ack", "100", "--prefetch", "1000")
WINDOW = ("--persistent", "--confirm", str(CONFIRM_WINDOW))
KIB = ("--size", "1024")
FOUR = ("--queues", "4", "--publishers", "4", "--consumers", "4")

Sample = tuple[float, int]  # a moment in seconds, and how many messages were ready then


def _window1(bench: Bench, broker: Running) -> Figures:
    """Each message waits for the confirm of the one before. Nobody consumes: only the way to the disk is timed."""
    bare = append_synced(broker.directory)
    options = ("--persistent", *KIB, "--confirm", "1", "--consumers", "0")
    report = bench.load.run(
        broker.port, broker.pid, "--seconds", str(bench.seconds), *options, *broker.peer.queue_options
    )
    each_us = 1e6 / max(report.confirmed_per_s, 1e-9)
    return _confirm_figures(report) | {"sync_us": bare.mean_us, "sync_ratio": each_us / bare.mean_us}


def _confirm_latency(bench: Bench, broker: Running) -> Figures:
    """From the moment a message was due until its confirm, at a rate that any broker here keeps up with."""
    bare = append_synced(broker.directory)
    options = ("--latency", "--rate", str(LATENCY_RATE), *KIB, *WINDOW, *ACKS)
    report = bench.load.run(
        broker.port, broker.pid, "--seconds", str(bench.seconds), *options, *broker.peer.queue_options
    )
    return _confirm_figures(report) | {"sync_us": bare.p50_us, "sync_ratio": report.confirm_us["p50"] / bare.p50_us}


def _confirm_figures(report: LoadReport) -> Figures:
    return {
        "rate": report.confirmed_per_s,
        "cpu_us": report.broker_cpu_s * 1e6 / max(report.confirmed, 1),
        "p50_us": report.confirm_us["p50"],
        "p99_us": report.confirm_us["p99"],
        "memory_mib": report.rss_peak_mib,
        "noise": noise(report),
    }


def _backlog(bench: Bench, broker: Running) -> Figures:
    """Fill, kill -9 as the load left it, a clean restart, drain. After each restart all messages must be there."""
    count = bench.count(broker, BACKLOG)
    figures = _fill(bench, broker, count, *KIB)
    time.sleep(broker.peer.settle_seconds)
    for stage, kill, how in (("killed", True, "kill -9"), ("restart", False, "a clean restart")):
        stop_seconds = broker.restart(kill=kill)
        figures |= {
            f"{stage}.seconds": broker.start_seconds,
            f"{stage}.stop_seconds": stop_seconds,
            f"{stage}.memory_mib": broker.rss_mib(),
            f"{stage}.messages": float(count),
        }
        await_ready(bench, broker, count, how)
    return figures | _drain_figures(_drain(bench, broker, count, *KIB))


def _long(bench: Bench, broker: Running) -> Figures:
    """A queue so long that anything that grows with its length shows: in memory, or in the rate of its drain."""
    size = ("--size", "100")
    count = bench.count(broker, LONG)
    figures = _fill(bench, broker, count, *size)
    samples: list[Sample] = []

    def sample() -> None:
        ready = bench.load.ready(broker.port)
        samples.append((time.monotonic(), ready))
        time.sleep(SAMPLE_SECONDS)

    sample()
    figures |= _drain_figures(_drain(bench, broker, count, *size, meanwhile=sample))
    rates = quarter_rates(samples)
    if rates:
        first, last = rates
        figures |= {"drain.first_rate": first, "drain.last_rate": last, "drain.end_ratio": last / first}
    return figures


def _fill(bench: Bench, broker: Running, count: int, *options: str) -> Figures:
    report = bench.load.run(
        broker.port, broker.pid, "--fill", "--messages", str(count), *options, *WINDOW, *broker.peer.queue_options
    )
    return {
        "fill.rate": report.confirmed / max(report.seconds, 1e-9),
        "fill.cpu_us": report.broker_cpu_s * 1e6 / max(report.confirmed, 1),
        "fill.memory_mib": report.rss_peak_mib,
        "fill.messages": float(count),
        "fill.noise": noise(report),
    }


def _drain(bench: Bench, broker: Running, count: int, *options: str, meanwhile: Meanwhile | None = None) -> LoadReport:
    """The load generator takes what the queue says it holds; that this is all that was confirmed is checked here."""
    # The queue is kept, since `meanwhile` may ask for it just when the drain is over; the broker ends with the case.
    report = bench.load.run(broker.port, broker.pid, "--drain", "--keep", *options, *ACKS, meanwhile=meanwhile)
    if report.consumed != count:
        raise LoadError(f"{broker.peer.name}: {count:,} messages were confirmed but {report.consumed:,} came out")
    return report


def _drain_figures(report: LoadReport) -> Figures:
    return {
        "drain.rate": report.consumed_per_s,
        "drain.cpu_us": report.broker_cpu_s * 1e6 / max(report.consumed, 1),
        "drain.memory_mib": report.rss_peak_mib,
        "drain.messages": float(report.consumed),
        "drain.noise": noise(report),
    }


def await_ready(bench: Bench, broker: Running, count: int, how: str, *, exact: bool = True) -> None:
    """Until the queue holds all that was confirmed; an error that says what it holds instead if it never does.

    Not `exact`: its own count may have more in it than messages."""
    end = time.monotonic() + READY_SECONDS_MAX
    while True:
        try:
            ready = bench.load.ready(broker.port)
            if ready == count or (ready > count and not exact):
                return
            found = f"the queue holds {ready:,}"
        except LoadError as error:
            found = str(error)
        if time.monotonic() > end:
            raise LoadError(f"{broker.peer.name}: {count:,} messages were confirmed, but after {how} {found}")
        time.sleep(SAMPLE_SECONDS)


def quarter_rates(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """Messages a second over the first and over the last quarter of a drain; nothing if it was too short to tell."""
    top = max((ready for _, ready in samples), default=0)
    # The first sample at the top is from before the drain, and so are those that show the same.
    first = [(at, ready) for at, ready in samples if top > ready >= 0.75 * top]
    last = [(at, ready) for at, ready in samples if 0 < ready <= 0.25 * top]
    if len(first) < 2 or len(last) < 2:
        return None
    return _slope(first), _slope(last)


def _slope(samples: Sequence[Sample]) -> float:
    (begun, before), (ended, after) = samples[0], samples[-1]
    return (before - after) / (ended - begun)


DURABLE_CASES: tuple[Case, ...] = (
    Case(
        "durable",
        "1 KiB persistent, confirms, ack every 100, 1 queue",
        throughput(*KIB, *WINDOW, *ACKS),
        (Goal("rate", 200_000, "200 k/s", at_least=True),),
        durable=True,
    ),
    Case(
        "durable4",
        "the same with 4 queues, 4 publishers, 4 consumers",
        throughput(*KIB, *WINDOW, *ACKS, *FOUR),
        (Goal("rate", 250_000, "250 k/s", at_least=True),),
        durable=True,
    ),
    Case(
        "window1",
        "1 KiB persistent, one at a time",
        _window1,
        (Goal("sync_ratio", 2.0, "2x fdatasync"),),
        durable=True,
    ),
    Case(
        "confirms",
        "confirm latency at 5,000 msg/s, 1 KiB persistent",
        _confirm_latency,
        (Goal("sync_ratio", 1.5, "p50 1.5x fdatasync"), Goal("p99_us", 5000, "p99 5 ms")),
        durable=True,
    ),
    Case(
        "backlog",
        "backlog of 1 KiB persistent",
        _backlog,
        stages=(
            Stage(
                "fill",
                "backlog of 1 KiB persistent: fill",
                (Goal("rate", 200_000, "200 k/s", at_least=True), Goal("memory_mib", 250, "250 MiB")),
            ),
            Stage("restart", "backlog: restart after SIGTERM", (Goal("seconds", 2.0, "2 s"),)),
            Stage("killed", "backlog: restart after kill -9", (Goal("seconds", 3.0, "3 s"),)),
            Stage("drain", "backlog: drain", (Goal("rate", 300_000, "300 k/s", at_least=True),)),
        ),
        new_broker_each_time=True,
        durable=True,
    ),
    Case(
        "long",
        "long queue of 100 B persistent",
        _long,
        stages=(
            Stage("fill", "long queue of 100 B persistent: fill", (Goal("memory_mib", 1024, "1 GiB"),)),
            Stage("drain", "long queue: drain", (Goal("end_ratio", 0.8, "end 0.8x of start", at_least=True),)),
        ),
        new_broker_each_time=True,
        repeats_max=1,
        durable=True,
        long=True,
    ),
)
