"""The steps of long histories of queues with rules, and how their arguments are chosen: see test_rules_model."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.property.histories import Step, several
from tests.property.rules_reference import Terms

SETTLED, DISCARDED, REQUEUED = 0, 1, 2


def some_terms(random: Random) -> Terms:
    pick = random.choice
    return Terms(
        ttl=pick([None, None, None, 50, 10, 0]),
        length=pick([None, None, None, 8, 4, 2, 0]),
        octets=pick([None, None, None, None, 700, 300, 0]),
        overflow=pick([0, 0, 1, 2]),
        limit=pick([None, None, None, 2, 1, 0]),
        buries=pick([True, False]),
    )


def some_message(random: Random) -> dict[str, Any]:
    pick = random.choice
    return {
        "size": pick([8, 8, 60, 250]),
        "priority": random.randint(0, 5),
        "ttl": pick([None, None, None, None, 30, 5, 0]),
        "delay": pick([0, 0, 0, 0, 1, 20]),
        "persistent": pick([True, True, False]),
        "key": pick([None, "a", "b", "c", "d"]),
        "own_ttl": pick([0, 0, 50, 100]),
    }


def some_queue(random: Random) -> int:
    return random.choice([0, 0, 0, 1])


def always(_: Any) -> bool:
    return True


def some_begin(random: Random) -> dict[str, Any]:
    return {
        "priorities": random.choices([0, 0, 3], k=2),
        "windows": random.choices([None, None, (3, 0), (2, 40)], k=2),
        "durable": random.choices([True, True, False], k=2),
    }


def some_backlog(random: Random) -> dict[str, Any]:
    sizes = several(random, 8, lambda: random.choice([8, 60, 250]))
    persistent, delay = random.choice([True, False]), random.choice([0, 0, 20])
    return {"queue": some_queue(random), "sizes": sizes, "persistent": persistent, "delay": delay}


def some_get(random: Random) -> dict[str, Any]:
    no_ack = random.choice([False, False, True])
    return {"queue": some_queue(random), "count": random.randint(1, 5), "no_ack": no_ack}


def some_consume(random: Random) -> dict[str, Any]:
    no_ack = random.choice([False, False, True])
    return {"queue": some_queue(random), "prefetch": random.randint(1, 4), "no_ack": no_ack}


def some_settle(random: Random) -> dict[str, Any]:
    picks = several(random, 5, lambda: random.randint(0, 1000))
    return {"picks": picks, "verdict": random.choice([SETTLED, DISCARDED, REQUEUED, REQUEUED])}


def some_rules(random: Random) -> dict[str, Any]:
    return {"queue": some_queue(random), "terms": some_terms(random), "dated": random.choice([True, False])}


def some_press(random: Random) -> dict[str, Any]:
    octets = random.choice([0, 1, 300, 10000])
    return {"queue": some_queue(random), "pressed": random.choice([True, True, False]), "octets": octets}


STEPS: list[Step] = [
    (0, "begin", some_begin, always),
    (
        18,
        "publish",
        lambda r: {"queue": some_queue(r), "messages": several(r, 6, lambda: some_message(r))},
        always,
    ),
    (12, "publish_plain", some_backlog, always),
    (10, "get", some_get, always),
    (
        5,
        "consume",
        some_consume,
        lambda m: sum(len(channel_session.takers) for channel_session in m.channel_sessions) < 4,
    ),
    (
        3,
        "cancel",
        lambda r: {"index": r.randint(0, 1000)},
        lambda m: any(channel_session.takers for channel_session in m.channel_sessions),
    ),
    (12, "settle", some_settle, lambda m: m.held),
    (1, "purge", lambda r: {"queue": some_queue(r), "really": True}, always),
    (1, "delete", lambda r: {"queue": some_queue(r), "really": True}, always),
    (5, "set_rules", some_rules, always),
    (8, "advance", lambda r: {"ms": r.choice([1, 5, 20, 60]), "late": r.choice([True, False])}, always),
    (4, "carry", lambda r: {"count": r.choice([1, 2, 1000])}, lambda m: m.office.letters),
    (4, "go_on", lambda _: {}, lambda m: m.office.unfinished),
    (3, "commit", lambda _: {}, lambda m: m.disk),
    (5, "press", some_press, lambda m: m.disk),
    (8, "read_on", lambda r: {"steps": r.choice([1, 2, 3, 8])}, lambda m: m.disk and (m.load or m.disk.wanting)),
    (2, "come_to_rest", lambda r: {"really": True, "ring": r.choice([True, False])}, always),
]
