"""CPU of three engines in one process, in memory: `python -m benchmarks.raft`.

The engine alone, and with the driver and payloads of 1 KiB: microseconds an entry over all three nodes; then what idle
groups cost at ticks of 50 ms. Needs `make engine`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

from benchmarks.raft.nodes import DriverNode, EngineNode, elect, exchange

TICK_S = 0.05


def measure(nodes: dict[int, EngineNode], groups: int, window: int, total: int) -> tuple[float, float]:
    """Microseconds of CPU, and octets between nodes, for each entry."""
    elect(nodes, groups)
    leader = nodes[1]
    for node in nodes.values():
        node.committed = node.octets = 0
    begun, number = time.process_time(), 0
    while leader.committed < total:
        for _ in range(window):
            leader.propose(number % groups + 1)
            number += 1
        exchange(nodes)
        for node in nodes.values():
            node.forget(groups)
    spent = time.process_time() - begun
    return spent / leader.committed * 1e6, sum(node.octets for node in nodes.values()) / leader.committed


def idle(groups: int, ticks: int) -> tuple[float, float]:
    """Share of a core, and kB/s, for each node."""
    nodes = {number: EngineNode(number, groups) for number in (1, 2, 3)}
    elect(nodes, groups)
    for node in nodes.values():
        node.octets = 0
    begun = time.process_time()
    for _ in range(ticks):
        for node in nodes.values():
            node.engine.tick()
        exchange(nodes)
    spent = time.process_time() - begun
    octets = sum(node.octets for node in nodes.values())
    return spent / ticks / 3 / TICK_S, octets / ticks / 3 / TICK_S / 1e3


def show(
    kind: str, make: Callable[[int, int], EngineNode], cases: Sequence[tuple[int, int, int]], scale: float
) -> None:
    for groups, window, total in cases:
        nodes = {number: make(number, groups) for number in (1, 2, 3)}
        cost, octets = measure(nodes, groups, window, max(window, int(total * scale)))
        print(f"{kind}, {groups:2} groups, {window:3} at a time: {cost:6.1f} us CPU an entry, {octets:6.0f} octets")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.raft", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="0.1 for a short look")
    scale = parser.parse_args().scale
    cases = [(1, 1, 4000), (1, 32, 20000), (32, 32, 20000), (32, 256, 40000)]
    show("engine alone       ", EngineNode, cases, scale)
    show("driver, 1 KiB each ", DriverNode, cases, scale)
    for groups in (1, 32, 128):
        share, rate = idle(groups, max(20, int(400 * scale)))
        print(f"idle, {groups:3} groups: {100 * share:5.3f} % of a core a node, {rate:5.1f} kB/s")


if __name__ == "__main__":
    main()
