"""The cases with transient messages, and the list of all.

Each is a function from a load generator and a running broker to figures. Called by __main__.py."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.broker.case import Bench, Case, Figures, Goal, noise, throughput
from benchmarks.broker.durable_cases import DURABLE_CASES
from benchmarks.broker.peers import Running
from benchmarks.broker.stream_cases import STREAM_CASES

CONFIRM_WINDOW = 1000
QUEUES = 10_000
CONNECTIONS = 5_000
SETTLE_SECONDS = 1.0


def _topic(bench: Bench, broker: Running) -> Figures:
    """Many bindings against few, one right after the other."""
    few, many = (
        throughput("--exchange-type", "topic", "--queues", "10", "--bindings", str(bindings))(bench, broker)
        for bindings in (10, 10_000)
    )
    return many | {"cost_ratio": many["cpu_us"] / max(few["cpu_us"], 1e-9)}


def _ruled(*options: str) -> Callable[[Bench, Running], Figures]:
    """A queue with an expiry, a limit, priorities and dead letters against a plain one, one right after the other."""

    def measure(bench: Bench, broker: Running) -> Figures:
        plain, ruled = (throughput(*options, *more)(bench, broker) for more in ((), RULES))
        return ruled | {"plain_ratio": ruled["rate"] / max(plain["rate"], 1e-9)}

    return measure


def _latency(bench: Bench, broker: Running) -> Figures:
    report = bench.load.run(
        broker.port, broker.pid, "--latency", "--rate", "5000", "--seconds", str(bench.seconds), "--size", "16"
    )
    return {
        "rate": report.consumed_per_s,
        "cpu_us": report.broker_cpu_s * 1e6 / max(report.consumed, 1),
        "p50_us": report.e2e_us["p50"],
        "p99_us": report.e2e_us["p99"],
        "memory_mib": report.rss_peak_mib,
        "noise": noise(report),
    }


def _many(phase_name: str, *options: str) -> Callable[[Bench, Running], Figures]:
    """Only declare and connect: the time and memory of the phase."""

    def measure(bench: Bench, broker: Running) -> Figures:
        time.sleep(SETTLE_SECONDS)
        report = bench.load.run(broker.port, broker.pid, "--idle", "--seconds", "1", "--publishers", "0", *options)
        phase = report.phases[phase_name]
        return {
            "rate": phase.items / max(phase.seconds, 1e-9),
            "cpu_us": phase.broker_cpu_s * 1e6 / max(phase.items, 1),
            "seconds": phase.seconds,
            "bytes_each": phase.bytes_per_item,
            "memory_mib": report.rss_peak_mib,
        }

    return measure


def _start(bench: Bench, broker: Running) -> Figures:
    time.sleep(SETTLE_SECONDS)
    return {"seconds": broker.start_seconds, "memory_mib": broker.rss_mib()}


ACKED = ("--size", "1024", "--ack", "100", "--prefetch", "1000", "--confirm", str(CONFIRM_WINDOW))
RULES = (
    "--queue-args",
    "x-message-ttl=60000,x-max-length=1000000,x-max-priority=5,x-dead-letter-exchange=amq.fanout",
    "--priorities",
    "5",
)
FANOUT = ("--size", "16", "--exchange-type", "fanout", "--queues", "10")
HEADERS = ("--size", "16", "--exchange-type", "headers", "--bindings", "1000")

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case(
            "small",
            "16 B transient, auto-ack",
            throughput("--size", "16"),
            (Goal("rate", 2_000_000, "2 M/s", at_least=True), Goal("cpu_us", 0.4, "0.4 us")),
        ),
        Case(
            "kib",
            "1 KiB transient, auto-ack",
            throughput("--size", "1024"),
            (Goal("rate", 600_000, "600 k/s", at_least=True),),
        ),
        Case(
            "acked",
            "1 KiB, ack every 100, prefetch 1000, confirms",
            throughput(*ACKED),
            (Goal("rate", 400_000, "400 k/s", at_least=True),),
        ),
        Case(
            "rules",
            "the same with TTL, max-length, 5 priorities, DLX",
            _ruled(*ACKED),
            (Goal("plain_ratio", 0.6, "0.6x plain", at_least=True),),
        ),
        Case(
            "fanout",
            "fanout to 10 queues, 16 B (per delivery)",
            throughput(*FANOUT),
            (Goal("rate", 4_000_000, "4 M/s", at_least=True),),
        ),
        Case(
            "topic",
            "topic, 10,000 bindings over 10 queues",
            _topic,
            (Goal("cost_ratio", 1.5, "1.5x cost of 10"),),
        ),
        Case(
            "headers",
            "headers, 1,000 bindings",
            throughput(*HEADERS),
            (Goal("rate", 100_000, "100 k/s", at_least=True),),
        ),
        Case(
            "latency",
            "latency at 5,000 msg/s",
            _latency,
            (Goal("p50_us", 100, "p50 100 us"), Goal("p99_us", 1000, "p99 1 ms")),
        ),
        Case(
            "queues",
            f"{QUEUES:,} queues declared",
            _many("declare", "--queues", str(QUEUES), "--consumers", "0"),
            (Goal("seconds", 1.0, "1 s"), Goal("bytes_each", 1.5 * 1024, "1.5 KiB each")),
            new_broker_each_time=True,
        ),
        Case(
            "connections",
            f"{CONNECTIONS:,} connections, each with a consumer",
            _many("connect", "--queues", str(CONNECTIONS), "--consumers", str(CONNECTIONS)),
            (Goal("seconds", 5.0, "5 s"), Goal("bytes_each", 15 * 1024, "15 KiB each")),
            new_broker_each_time=True,
        ),
        Case(
            "start",
            "start to first answer, idle memory",
            _start,
            (Goal("seconds", 0.3, "0.3 s"), Goal("memory_mib", 45, "45 MiB")),
            new_broker_each_time=True,
            repeats_min=5,
            smallest=frozenset({"seconds"}),
        ),
        *DURABLE_CASES,
        *STREAM_CASES,
    )
}
