"""Dead letters as a whole: which queues hold them, where they came from and why.

Looks at a sample of each queue and reads no more than that, so the groups of a long queue are those of its first and
last messages. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.browsing import Browsing
from leveret.broker.reprocess.letter import Letter
from leveret.broker.vhost import LiveVhost
from leveret.core.glance import glance
from leveret.core.queue import ClassicQueue

SAMPLE = 50
QUEUES_MAX = 200
LOOKED_A_TURN = 512


class Group(msgspec.Struct, frozen=True):
    """Letters of the sample that died in the same queue for the same reason. Moments are seconds of the wall clock."""

    queue: str
    exchange: str
    reason: str
    count: int
    first_death_s: int | None
    last_death_s: int | None
    replayed: int


class DeadLetterQueue(msgspec.Struct, frozen=True):
    vhost: str
    name: str
    messages: int
    sampled: int
    groups: list[Group]


class DeadLetters:
    def __init__(self, broker: Broker, browsing: Browsing) -> None:
        self._broker = broker
        self._browsing = browsing

    async def survey(self, vhosts: Iterable[str]) -> list[DeadLetterQueue]:
        """The queues that hold dead letters, or would get them; those with most messages first."""
        found: list[tuple[LiveVhost, Any]] = []
        for name in vhosts:
            vhost = self._broker.vhosts.get(name)
            if vhost is not None:
                found += [(vhost, queue) for queue in await self._candidates(vhost)]
        found.sort(key=lambda pair: pair[1].ready_count(), reverse=True)
        return [await self._survey(vhost, queue) for vhost, queue in found[:QUEUES_MAX]]

    async def _candidates(self, vhost: LiveVhost) -> list[ClassicQueue]:
        """Those that rules of other queues lead to, and those whose next message has died before."""
        found: dict[ClassicQueue, bool] = {}
        for looked, queue in enumerate(list(vhost.queues.values()), 1):
            if looked % LOOKED_A_TURN == 0:
                await asyncio.sleep(0)
            if not isinstance(queue, ClassicQueue) or queue.deleted:
                continue
            for target in self._targets(vhost, queue.rules):
                found[target] = True
            head = glance(queue, 0, 1)
            if head and head[0].message is not None and Letter(head[0].message).origin is not None:
                found[queue] = True
        return list(found)

    def _targets(self, vhost: LiveVhost, rules: Any) -> list[ClassicQueue]:
        if rules.parking_lot is not None and isinstance(lot := vhost.queues.get(rules.parking_lot), ClassicQueue):
            return [lot]
        if rules.dead_letter_exchange is None:
            return []
        names: list[bytes] = []
        if rules.dead_letter_exchange == b"":
            names = [] if rules.dead_letter_key is None else [rules.dead_letter_key]
        else:
            bindings = self._broker.catalog.topologies[vhost.name].bindings_from
            source = rules.dead_letter_exchange.decode("utf-8", "surrogateescape")
            for binding in bindings.get(source, {}).values():
                if binding.to_queue:
                    names.append(binding.destination.encode("utf-8", "surrogateescape"))
        return [queue for name in names if isinstance(queue := vhost.queues.get(name), ClassicQueue)]

    async def _survey(self, vhost: LiveVhost, queue: Any) -> DeadLetterQueue:
        count: int = queue.ready_count()
        offsets = [(0, SAMPLE)] if count <= 2 * SAMPLE else [(0, SAMPLE), (count - SAMPLE, SAMPLE)]
        letters: list[Letter] = []
        for offset, many in offsets:
            async for seen in self._browsing.ready(queue, offset, 2 * SAMPLE if len(offsets) == 1 else many):
                letters.append(Letter(seen.message))
        return DeadLetterQueue(vhost.name, queue.record.name, count, len(letters), _groups(letters))


def _groups(letters: list[Letter]) -> list[Group]:
    grouped: dict[tuple[str, str, str], list[Letter]] = {}
    for letter in letters:
        origin = letter.origin
        if origin is not None:
            key = (origin.queue, origin.exchange.decode("utf-8", "replace"), origin.reason)
            grouped.setdefault(key, []).append(letter)
    found = []
    for (queue, exchange, reason), some in grouped.items():
        moments = [moment for letter in some if (moment := letter.first_death_s) is not None]
        replayed = sum(letter.replay_count > 0 for letter in some)
        group = Group(
            queue, exchange, reason, len(some), min(moments, default=None), max(moments, default=None), replayed
        )
        found.append(group)
    return sorted(found, key=lambda group: group.count, reverse=True)
