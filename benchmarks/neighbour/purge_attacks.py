"""A long queue that is purged, or deleted with all it has, over and over."""

from __future__ import annotations

import time

from benchmarks.neighbour.attack import Attack, Ground, Tally
from benchmarks.neighbour.link import Link, content, repeated
from leveret.wire.basic_methods import BasicPublish
from leveret.wire.queue_methods import (
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)

QUEUE = "long"
MESSAGES = 1_000_000


def _fill(link: Link) -> None:
    link.call(1, QueueDeclare(QUEUE), QueueDeclareOk)
    chunk, count = repeated(content(1, BasicPublish("", QUEUE), b"", b"x"))
    for _ in range(MESSAGES // count):
        link.socket.sendall(chunk)


def _prepare(ground: Ground) -> None:
    with ground.link() as link:
        _fill(link)
        link.call(1, QueueDeclare(QUEUE, passive=True), QueueDeclareOk)


def _empty(ground: Ground, tally: Tally, until: float) -> None:
    with ground.link() as link:
        while time.monotonic() < until:
            link.call(1, QueuePurge(QUEUE), QueuePurgeOk)
            tally.add()
            _fill(link)
            link.call(1, QueueDelete(QUEUE), QueueDeleteOk)
            tally.add()
            _fill(link)


ATTACKS = (Attack("a queue of a million, purged and deleted", "times", _empty, _prepare),)
