"""Client libraries side by side on one broker.

    python -m benchmarks.client [--broker leveret|rabbitmq] [--rounds 3] [--scale 1.0]

In each round every library does every case, in turns; the median counts. A library's process shares two cores with the
broker's. The queue is durable; messages are of 1 KiB."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pika  # type: ignore[import-untyped]

from benchmarks.broker.peers import Leveret, Peer, RabbitMQ, running
from benchmarks.client.work import QUEUE, Task

LIBRARIES = ("leveret", "aio_pika", "pika")
DEADLINE_S = 300.0
SIZE = 1024
# Case, messages of a fast library and of a slow one, publishes at once, whether they are persistent: where the time of
# each counts they are not, since the disk's would be most of it.
CASES = (
    ("publish one by one", "publish", 3_000, 3_000, 1, False),
    ("publish, 100 at once", "publish", 100_000, 10_000, 100, True),
    ("publish a batch", "batch", 200_000, 10_000, 1000, True),
    ("consume with acks", "consume", 100_000, 20_000, 1, True),
    ("there and back", "round_trip", 3_000, 3_000, 1, False),
)
PREFETCH = 1000


def prepare(url: str, messages: int) -> None:
    """A queue with so many messages in it."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_delete(QUEUE)
        channel.queue_declare(QUEUE, durable=True)
        for _ in range(messages):
            channel.basic_publish("", QUEUE, b"x" * SIZE)


def measure(library: str, task: Task) -> dict[str, float]:
    prepare(task.url, task.messages if task.case == "consume" else 0)
    command = [sys.executable, "-m", "benchmarks.client.worker", library, json.dumps(asdict(task))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if done.returncode != 0:
        sys.exit(f"{library}, {task.case}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def run(peer: Peer, rounds: int, scale: float, only: Sequence[str]) -> None:
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    with running(peer, Path(tempfile.gettempdir())) as broker:
        url = f"amqp://guest:guest@127.0.0.1:{broker.port}/"
        for _ in range(rounds):
            for title, case, fast, slow, concurrency, persistent in CASES:
                for library in LIBRARIES:
                    if only and not any(word in title for word in only):
                        continue
                    messages = max(100, round(scale * (fast if library == "leveret" else slow)))
                    task = Task(case, url, messages, SIZE, concurrency, PREFETCH, persistent)
                    found.setdefault((title, library), []).append(measure(library, task))
    print(f"{'':<24}{'':<10}{'msg/s':>10}{'p50 us':>10}{'p99 us':>10}{'rate':>8}")
    for (title, library), figures in found.items():
        rate = _median(figures, "rate")
        of_aio_pika = rate / _median(found[title, "aio_pika"], "rate")
        print(
            f"{title:<24}{library:<10}{rate:>10,.0f}{_median(figures, 'p50_us'):>10.0f}"
            f"{_median(figures, 'p99_us'):>10.0f}{of_aio_pika:>7.1f}x"
        )


def _median(figures: list[dict[str, float]], name: str) -> float:
    values = [figure[name] for figure in figures if name in figure]
    return statistics.median(values) if values else 0.0


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.client", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--broker", choices=("leveret", "rabbitmq"), default="leveret", help="default: leveret")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the messages (default 1)")
    parser.add_argument("--only", action="append", default=[], help="only cases with this in their name")
    chosen = parser.parse_args(words)
    run(Leveret() if chosen.broker == "leveret" else RabbitMQ(), chosen.rounds, chosen.scale, chosen.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
