"""The steps of long histories of a log, and how their arguments are chosen: see test_rebuild_model."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.property.histories import Step, several

SETTLED, DISCARDED, REQUEUED = 0, 1, 2


def some_sizes(random: Random) -> list[int]:
    return several(random, 5, lambda: random.choice([8, 60, 250]))


def some_start(random: Random) -> dict[str, Any]:
    lazy = random.choices([True, False], k=3)
    return {"lazy": lazy, "pressed": random.choice([True, False]), "ttl": random.choice([0, 8000])}


def some_publish(random: Random) -> dict[str, Any]:
    persistent = random.choice([True, True, False])
    return {"queue": random.choice([0, 0, 1, 2, 3]), "sizes": some_sizes(random), "persistent": persistent}


def some_special(random: Random) -> dict[str, Any]:
    return {
        "queue": random.choice([1, 2, 2, 3, 3]),
        "sizes": some_sizes(random),
        "priority": random.randint(0, 5),
        "delay": random.choice([0, 0, 1000, 3000, 30000]),
        "expires": random.choice([True, False]),
        "key": random.choice([None, "a", "b", "c", "d", "e"]),
    }


def some_settle(random: Random) -> dict[str, Any]:
    picks = several(random, 6, lambda: random.randint(0, 1000))
    return {"picks": picks, "verdict": random.choice([SETTLED, SETTLED, DISCARDED, REQUEUED])}


def always(_: Any) -> bool:
    return True


STEPS: list[Step] = [
    (0, "declare", some_start, always),
    (10, "publish", some_publish, always),
    (18, "publish_special", some_special, always),
    (6, "advance", lambda r: {"seconds": r.randint(1, 4)}, always),
    (4, "carry", lambda r: {"count": r.randint(1, 4), "to": r.choice([0, 1])}, always),
    (16, "deliver", lambda r: {"queue": r.randint(1, 3), "count": r.randint(1, 6)}, always),
    (12, "settle", some_settle, lambda m: m.held),
    (1, "purge", lambda r: {"queue": r.randint(1, 3)}, always),
    (3, "load", lambda r: {"queue": r.randint(1, 3)}, always),
    (10, "commit", lambda _: {}, always),
    (8, "compact", lambda r: {"index": r.randint(0, 1000)}, always),
    (8, "delete", lambda _: {}, always),
    (4, "crash", lambda r: {"all_seen": r.choice([True, False])}, always),
]
