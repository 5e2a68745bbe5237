"""The cases of streams: publishing, reading at the tail, and what a long one costs to read, to seek in and to keep.

The long stream is written once for each broker and shared by all cases that need it. Called by cases.py."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from weakref import WeakKeyDictionary

from benchmarks.broker import page_cache
from benchmarks.broker.case import Bench, Case, Figures, Goal, Stage, noise, throughput
from benchmarks.broker.durable_cases import await_ready
from benchmarks.broker.load import LoadError
from benchmarks.broker.peers import Running
from benchmarks.broker.reader import Reader, ReadReport, Seek

# 5 GiB of bodies.
LONG = 5 * 1024 * 1024
# More than in the cases of queues: a stream is for bulk, and what is in flight bounds what one sync takes along.
CONFIRM_WINDOW = 5_000
READERS = 10
SEEKS = 100
REPLAY_RATE_MAX = 500_000
SAMPLE_SECONDS = 0.1

STREAM = ("--queue-args", "x-queue-type=stream")
PUBLISH = ("--size", "1024", "--persistent", "--confirm", str(CONFIRM_WINDOW), *STREAM)
ACKS = ("--ack", "100", "--prefetch", "1000")

Sample = tuple[float, float]  # a moment in seconds, and resident memory in MiB then


@dataclass(frozen=True, slots=True)
class LongStream:
    """What is known of the stream that a broker was filled with."""

    messages: int
    # Wall clock in whole seconds, none of them behind the last message.
    moments: range
    figures: Figures


_long_streams: WeakKeyDictionary[Running, LongStream] = WeakKeyDictionary()


@cache
def _reader() -> Reader:
    return Reader.build()


def _publish(bench: Bench, broker: Running) -> Figures:
    report = bench.load.run(broker.port, broker.pid, "--seconds", str(bench.seconds), *PUBLISH, "--consumers", "0")
    return {
        "rate": report.confirmed_per_s,
        "cpu_us": report.broker_cpu_s * 1e6 / max(report.confirmed, 1),
        "memory_mib": report.rss_peak_mib,
        "noise": noise(report),
    }


def long_stream(bench: Bench, broker: Running) -> LongStream:
    """The broker's long stream; written now if this is the first case that wants it."""
    if broker not in _long_streams:
        _long_streams[broker] = _fill(bench, broker)
    return _long_streams[broker]


def _fill(bench: Bench, broker: Running) -> LongStream:
    count = bench.count(broker, LONG)
    samples: list[Sample] = []

    def sample() -> None:
        samples.append((time.monotonic(), broker.rss_mib()))
        time.sleep(SAMPLE_SECONDS)

    begun = time.time()
    report = bench.load.run(broker.port, broker.pid, "--fill", "--messages", str(count), *PUBLISH, meanwhile=sample)
    figures = {
        "rate": report.confirmed / max(report.seconds, 1e-9),
        "cpu_us": report.broker_cpu_s * 1e6 / max(report.confirmed, 1),
        "memory_mib": report.rss_peak_mib,
        "messages": float(count),
        "noise": noise(report),
    }
    if samples:
        figures["grown_ratio"] = grown(samples)
    return LongStream(count, moments(begun, report.seconds), figures)


def moments(begun: float, seconds: float) -> range:
    """The whole seconds of a fill that took so long; if there is none in it, the one before, which is its start."""
    last = int(begun + seconds)
    return range(min(int(begun) + 1, last), last + 1)


def grown(samples: Sequence[Sample]) -> float:
    """Memory in the last tenth of the time, as a multiple of that in the first."""
    begun, ended = samples[0][0], samples[-1][0]
    first = max(mib for at, mib in samples if at <= begun + (ended - begun) / 10)
    last = max(mib for at, mib in samples if at >= ended - (ended - begun) / 10)
    return last / max(first, 1e-9)


def _memory(bench: Bench, broker: Running) -> Figures:
    return long_stream(bench, broker).figures


def _restart(bench: Bench, broker: Running) -> Figures:
    """kill -9 as the fill left it, then a clean restart. Only once: another kill would find all in good order."""
    stream = long_stream(bench, broker)
    time.sleep(broker.peer.settle_seconds)
    figures: Figures = {}
    for stage, kill, how in (("killed", True, "kill -9"), ("restart", False, "a clean restart")):
        stop_seconds = broker.restart(kill=kill)
        figures |= {
            f"{stage}.seconds": broker.start_seconds,
            f"{stage}.stop_seconds": stop_seconds,
            f"{stage}.memory_mib": broker.rss_mib(),
            f"{stage}.messages": float(stream.messages),
        }
        await_ready(bench, broker, stream.messages, how, exact=broker.peer.offsets_exact)
    return figures


# ---- reading


def _files(broker: Running) -> list[Path]:
    """Those of the stream, in order; an error if there are none, because then nothing would be cold."""
    files = sorted(path for path in broker.directory.glob(broker.peer.stream_files) if path.is_file())
    if not files:
        raise LoadError(f"{broker.peer.name}: no files of streams at {broker.directory / broker.peer.stream_files}")
    return files


def _replay(bench: Bench, broker: Running) -> Figures:
    """The whole stream from a cold disk, and beside it a plain read of the same files, as cold."""
    stream = long_stream(bench, broker)
    files = _files(broker)
    page_cache.drop(files)
    plain_seconds = max(page_cache.read_through(files), 1e-9)
    plain_rate = stream.messages / plain_seconds
    report = _read_cold(broker, stream, 1)
    goal = min(REPLAY_RATE_MAX, plain_rate / 3)
    figures = _read_figures(report) | {"goal_ratio": report.rate / goal}
    return {f"replay.{key}": value for key, value in figures.items()} | {
        "plain.rate": plain_rate,
        "plain.seconds": plain_seconds,
        "plain.messages": float(stream.messages),
    }


def _ten(bench: Bench, broker: Running) -> Figures:
    """The same messages read by one and by ten who share them, one right after the other."""
    stream = long_stream(bench, broker)
    one, ten = (_read_cold(broker, stream, readers) for readers in (1, READERS))
    return _read_figures(ten) | {"one_ratio": ten.rate / one.rate}


def _read_cold(broker: Running, stream: LongStream, readers: int) -> ReadReport:
    """Each reader has its own stretch of the stream, all at once, from a cold disk."""
    page_cache.drop(_files(broker))
    each = stream.messages // readers
    starts = [each * reader for reader in range(readers)]
    report = _reader().run(
        broker, "--readers", str(readers), "--from", ",".join(map(str, starts)), "--messages", str(each), *ACKS
    )
    if report.messages != each * readers:
        raise LoadError(f"{broker.peer.name}: {each * readers:,} messages were asked for, {report.messages:,} came")
    if broker.peer.offsets_exact and (report.missing or list(report.firsts) != starts):
        began = ", ".join(map(str, report.firsts))
        raise LoadError(f"{broker.peer.name}: {report.missing:,} offsets are missing; readers began at {began}")
    return report


def _read_figures(report: ReadReport) -> Figures:
    return {
        "rate": report.rate,
        "cpu_us": report.broker_cpu_s * 1e6 / max(report.messages, 1),
        "memory_mib": report.rss_peak_mib,
        "messages": float(report.messages),
        "noise": report.noise,
    }


# ---- seeking


def _seek(bench: Bench, broker: Running) -> Figures:
    """From basic.consume to the first delivery, anywhere in the stream, on a cold disk."""
    stream = long_stream(bench, broker)
    dice = random.Random(5)
    offsets = [dice.randrange(stream.messages) for _ in range(SEEKS)]
    moments = [dice.choice(stream.moments) for _ in range(SEEKS)]
    by_offset = _seek_cold(broker, map(str, offsets))
    for asked, seek in zip(offsets, by_offset, strict=True):
        if seek.offset != asked and (broker.peer.offsets_exact or seek.offset < asked):
            raise LoadError(f"{broker.peer.name}: asked for offset {asked}, got {seek.offset}")
    by_moment = _seek_cold(broker, (f"@{moment}" for moment in moments))
    check_order(broker.peer.name, moments, by_moment)
    messages = {"offset.messages": float(stream.messages), "moment.messages": float(stream.messages)}
    return _seek_figures("offset", by_offset) | _seek_figures("moment", by_moment) | messages


def _seek_cold(broker: Running, starts: Iterable[str]) -> Sequence[Seek]:
    page_cache.drop(_files(broker))
    return _reader().run(broker, "--seek", "--from", ",".join(starts)).seeks


def check_order(name: str, moments: Sequence[int], seeks: Sequence[Seek]) -> None:
    """A later moment is not further to the front."""
    found = sorted(zip(moments, (seek.offset for seek in seeks), strict=True))
    if [offset for _, offset in found] != sorted(offset for _, offset in found):
        raise LoadError(f"{name}: moments and the offsets that were found for them: {found}")


def _seek_figures(stage: str, seeks: Sequence[Seek]) -> Figures:
    times = [seek.us for seek in seeks]
    return {
        f"{stage}.p50_us": statistics.median(times),
        f"{stage}.p99_us": statistics.quantiles(times, n=100)[98],
        f"{stage}.max_us": max(times),
    }


# The long stream is that of one broker for all of these, so that it is written once.
SHARED = "long stream"

STREAM_CASES: tuple[Case, ...] = (
    Case(
        "stream-publish",
        "stream: publish 1 KiB, confirms",
        _publish,
        (Goal("rate", 300_000, "300 k/s", at_least=True),),
    ),
    Case(
        "stream-tail",
        "stream: publish and one consumer at the tail",
        throughput(*PUBLISH, *ACKS),
    ),
    Case(
        "stream-memory",
        "long stream of 1 KiB: fill",
        _memory,
        (Goal("grown_ratio", 1.2, "end 1.2x of start"),),
        repeats_max=1,
        shares=SHARED,
    ),
    Case(
        "stream-restart",
        "long stream: restart",
        _restart,
        stages=(
            Stage("restart", "long stream: restart after SIGTERM", ()),
            Stage("killed", "long stream: restart after kill -9", ()),
        ),
        repeats_max=1,
        shares=SHARED,
    ),
    Case(
        "stream-replay",
        "long stream: replay from a cold disk",
        _replay,
        stages=(
            Stage(
                "replay",
                "long stream: replay from a cold disk",
                (Goal("goal_ratio", 1.0, "500 k/s or 1/3 of a plain read", at_least=True),),
            ),
            Stage("plain", "long stream: plain read of its files", ()),
        ),
        shares=SHARED,
    ),
    Case(
        "stream-ten",
        "long stream: ten readers at different offsets",
        _ten,
        (Goal("one_ratio", 0.8, "0.8x of one", at_least=True),),
        shares=SHARED,
    ),
    Case(
        "stream-seek",
        "long stream: seek",
        _seek,
        stages=(
            Stage("offset", "long stream: seek an offset", (Goal("max_us", 5000, "max 5 ms"),)),
            Stage("moment", "long stream: seek a timestamp", (Goal("max_us", 5000, "max 5 ms"),)),
        ),
        shares=SHARED,
    ),
)
