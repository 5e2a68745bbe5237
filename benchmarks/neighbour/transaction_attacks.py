"""Transactions as large as they may be, one after the other: a commit takes effect in one step."""

from __future__ import annotations

import time

from benchmarks.neighbour.attack import Attack, Ground, Tally
from benchmarks.neighbour.link import FRAME_BODY, Link, content
from leveret.auth.node_limits import NodeLimits
from leveret.core.codec.properties import encode_properties
from leveret.wire.basic_methods import BasicAck, BasicConsume, BasicConsumeOk, BasicPublish
from leveret.wire.method import Table
from leveret.wire.queue_methods import QueueDeclare, QueueDeclareOk, QueuePurge, QueuePurgeOk
from leveret.wire.tx_methods import TxCommit, TxCommitOk, TxSelect, TxSelectOk

TRANSIENT, DURABLE = "transient", "durable"
PERSISTENT = encode_properties(delivery_mode=2)
SHORT: Table = {"x-max-length": 10}
# What a broker takes that has the limit that this one was built with.
WORK_MAX = getattr(NodeLimits(), "transaction_work_max", 65_536)
OCTETS = 1_000


def _prepare(ground: Ground) -> None:
    with ground.link() as link:
        link.call(1, QueueDeclare(TRANSIENT, arguments=SHORT), QueueDeclareOk)
        link.call(1, QueueDeclare(DURABLE, durable=True), QueueDeclareOk)


def _commit(link: Link, message: bytes, count: int) -> None:
    link.socket.sendall(message * count)
    link.call(1, TxCommit(), TxCommitOk)


def _publish_small(ground: Ground, tally: Tally, until: float) -> None:
    with ground.link() as link:
        link.call(1, TxSelect(), TxSelectOk)
        message = content(1, BasicPublish("", TRANSIENT), b"", b"x")
        while time.monotonic() < until:
            _commit(link, message, WORK_MAX // 2)
            tally.add()


def _publish_persistent(ground: Ground, tally: Tally, until: float) -> None:
    with ground.link() as link, ground.link() as other:
        link.call(1, TxSelect(), TxSelectOk)
        message = content(1, BasicPublish("", DURABLE), PERSISTENT, b"x" * OCTETS)
        while time.monotonic() < until:
            _commit(link, message, WORK_MAX // 2)
            tally.add()
            other.call(1, QueuePurge(DURABLE), QueuePurgeOk)


def _acknowledge(ground: Ground, tally: Tally, until: float) -> None:
    """A consumer without a prefetch takes what another one publishes, and acknowledges all of it in a transaction."""
    with ground.link() as link, ground.link() as publisher:
        link.call(1, TxSelect(), TxSelectOk)
        link.call(1, BasicConsume(DURABLE), BasicConsumeOk)
        message = content(1, BasicPublish("", DURABLE), PERSISTENT, b"x")
        tag = 0
        while time.monotonic() < until:
            publisher.socket.sendall(message * WORK_MAX)
            for _ in range(WORK_MAX):
                while link.frame()[0] != FRAME_BODY:
                    pass
            tag += WORK_MAX
            link.send(1, BasicAck(tag, multiple=True))
            link.call(1, TxCommit(), TxCommitOk)
            tally.add()


ATTACKS = (
    Attack("the largest transactions, 1 octet", "commits", _publish_small, _prepare),
    Attack("the largest transactions, persistent", "commits", _publish_persistent, _prepare),
    Attack("the largest transactions of acks", "commits", _acknowledge, _prepare),
)
