"""Runs the cases against each broker in turn and prints one table. `--help` lists the options."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

from benchmarks.broker.case import Bench, Case, Figures
from benchmarks.broker.cases import CASES
from benchmarks.broker.disk import DiskError, append_synced, data_root, mounted
from benchmarks.broker.load import CACHE, Load, LoadError
from benchmarks.broker.peers import PEERS, Peer, PeerError, Running, running
from benchmarks.broker.report import NOISE_NOTED, goals_missed, render


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description=__doc__)
    parser.add_argument(
        "--only", action="extend", type=case_names, metavar="CASE,...", help=f"some of {', '.join(CASES)}"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each throughput run (default 5)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case; the median counts (default 3)")
    parser.add_argument("--peers", default=",".join(PEERS), help="brokers, comma-separated (default: all installed)")
    parser.add_argument(
        "--data-root", type=Path, metavar="DIR", help="where the brokers keep their files (default: /tmp)"
    )
    parser.add_argument(
        "--full", action="store_true", help="the whole backlog, long queue and long stream for RabbitMQ, too"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="times the messages of backlog, long and long streams, to try it out"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every run there")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    return parser.parse_args(words)


def case_names(text: str) -> list[str]:
    """Names of cases, comma-separated."""
    names = text.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no such case: {', '.join(unknown)} (there are {', '.join(CASES)})")
    return names


def chosen_peers(names: str) -> list[Peer]:
    """The named brokers that are installed; says which are not."""
    unknown = set(names.split(",")) - set(PEERS)
    if unknown:
        sys.exit(f"no such broker: {', '.join(sorted(unknown))} (there are {', '.join(PEERS)})")
    peers = []
    for name in names.split(","):
        if PEERS[name].installed():
            peers.append(PEERS[name])
        else:
            print(f"{name} is not installed here (or does not start): left out", file=sys.stderr)
    if not peers:
        sys.exit("no broker to measure")
    return peers


def able_peers(case: Case, peers: Sequence[Peer], *, full: bool) -> list[Peer]:
    """Those that the case is asked of; says which are left out because they take too long."""
    able = [peer for peer in peers if case.suits(peer, full=full)]
    for peer in peers:
        if case.long and peer not in able:
            print(f"{case.name}: left out for {peer.name}, which takes minutes; --full adds it", file=sys.stderr)
    return able


def raise_file_limit() -> None:
    """As many open files as allowed, for the load generator and the brokers alike, which inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Brokers:
    """Those that are running, each started when it is first asked for."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self._root = root
        self._stack = stack
        self._running: dict[str, Running] = {}

    def of(self, peer: Peer) -> Running:
        if peer.name not in self._running:
            self._running[peer.name] = self._stack.enter_context(running(peer, self._root))
        return self._running[peer.name]


def measure(
    case: Case, bench: Bench, peers: Sequence[Peer], repeats: int, root: Path, shared: Brokers
) -> dict[str, list[Figures]]:
    """All repeats of one case, the brokers taking turns, each first as often as the other."""
    figures: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
    for repeat in range(case.repeats(repeats)):
        for peer in peers if repeat % 2 == 0 else reversed(peers):
            print(f"{case.name} {repeat + 1}: {peer.name} ...", end=" ", file=sys.stderr, flush=True)
            with ExitStack() as own:
                brokers = Brokers(root, own) if case.new_broker_each_time else shared
                figures[peer.name].append(case.measure(bench, brokers.of(peer)))
            print(_short(figures[peer.name][-1]), file=sys.stderr, flush=True)
    return figures


def _short(figures: Figures) -> str:
    return ", ".join(f"{key} {value:,.2f}" for key, value in figures.items())


def machine() -> str:
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    kernel = f"{platform.system()} {platform.release()}"
    return f"{os.cpu_count()} cores of {model}, {kernel}, Python {platform.python_version()}"


def disk(root: Path) -> str:
    """Where the brokers' files lie, and what a bare write and fdatasync costs there."""
    mount, bare = mounted(root), append_synced(root)
    return (
        f"{root}: {mount.kind} on {mount.device}, "
        f"write and fdatasync of 1.1 KiB {bare.p50_us:,.0f} us (p99 {bare.p99_us:,.0f} us)"
    )


def main(words: Sequence[str] | None = None) -> int:
    options = arguments(words)
    raise_file_limit()
    peers = chosen_peers(options.peers)
    cases = [CASES[name] for name in CASES if not options.only or name in options.only]
    versions = {peer.name: peer.version() for peer in peers}
    results: dict[str, dict[str, list[Figures]]] = {}
    try:
        root = data_root(options.data_root, CACHE)
        storage = disk(root)
    except (DiskError, OSError) as error:
        sys.exit(str(error))
    try:
        bench = Bench(Load.build(), options.seconds, options.scale, options.full)
        for _, together in groupby(cases, key=lambda case: case.shares or case.name):
            with ExitStack() as stack:
                shared = Brokers(root, stack)
                for case in together:
                    able = able_peers(case, peers, full=options.full)
                    results[case.name] = measure(case, bench, able, options.repeats, root, shared)
    except (LoadError, PeerError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 2
    finally:
        if results:
            print(f"\n{machine()}; {', '.join(f'{name} {version}' for name, version in versions.items())}")
            print(storage)
            print(render(cases, results))
            print(f"~ other processes took more than {NOISE_NOTED:.0%} of the machine during the median run")
    if options.json:
        record = {
            "machine": machine(),
            "disk": storage,
            "versions": versions,
            "seconds": options.seconds,
            "scale": options.scale,
            "results": results,
        }
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    return 1 if options.strict and goals_missed(cases, results) else 0


if __name__ == "__main__":
    sys.exit(main())
