"""What a decent client notices of each known attack on the broker that both use.

    python -m benchmarks.neighbour [--only WORD] [--seconds 4] [--rate 200] [--json FILE] [--before FILE]

For each row a broker is started, both tenants get a virtual host of their own, and while one of them attacks, the other
publishes and consumes at a fixed rate. Everything stays on loopback and ends with its row. Prints the Markdown table
that docs/security.md shows; `--before` takes the --json of an earlier run for a column beside it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.neighbour import (
    http_attacks,
    login_attacks,
    memory_attacks,
    purge_attacks,
    routing_attacks,
    stream_attacks,
    transaction_attacks,
)
from benchmarks.neighbour.attack import Attack
from benchmarks.neighbour.measure import measure
from benchmarks.neighbour.report import round_trip, table

ATTACKS: tuple[Attack, ...] = (
    *routing_attacks.ATTACKS,
    *transaction_attacks.ATTACKS,
    *purge_attacks.ATTACKS,
    *stream_attacks.ATTACKS,
    *http_attacks.ATTACKS,
    *memory_attacks.ATTACKS,
    *login_attacks.ATTACKS,
)
ALONE = "no attack"
GOAL_P99_MS = 50.0


def chosen_attacks(words: Sequence[str]) -> dict[str, Attack | None]:
    """By name, alone first; all of them, or those with one of these words in their name."""
    rows: dict[str, Attack | None] = {ALONE: None, **{attack.name: attack for attack in ATTACKS}}
    return {name: attack for name, attack in rows.items() if not words or any(word in name for word in words)}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.neighbour", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="only attacks with this in their name; repeatable")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each measurement (default 4)")
    parser.add_argument("--rate", type=int, default=200, help="messages a second of the decent client (default 200)")
    parser.add_argument("--json", type=Path, help="adds the figures to this file")
    parser.add_argument("--before", type=Path, help="the --json of an earlier run, for a column of its own")
    parser.add_argument("--strict", action="store_true", help=f"exit with 1 if a p99 is above {GOAL_P99_MS:.0f} ms")
    chosen = parser.parse_args(words)
    results: dict[str, Any] = {}
    for name, attack in chosen_attacks(chosen.only).items():
        results[name] = measure(attack, chosen.seconds, chosen.rate)
        print(f"{name}: {round_trip(results[name])}", file=sys.stderr, flush=True)
        if chosen.json is not None:
            kept = json.loads(chosen.json.read_text()) if chosen.json.exists() else {}
            chosen.json.write_text(json.dumps({**kept, name: results[name]}, indent=1) + "\n")
    before = json.loads(chosen.before.read_text()) if chosen.before is not None else {}
    print(table(results, before))
    missed = [name for name, figures in results.items() if not figures["round_trip_p99_ms"] <= GOAL_P99_MS]
    return 1 if chosen.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main())
