"""Dead letters as a whole: which queues hold them, where they came from and why.

Looks at a sample of each queue and reads no more than that, so the groups of a long queue are those of its first and
last messages. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from leveret.auth.access import READ
from leveret.broker.broker import Broker
from leveret.broker.topology import Requester
from leveret.broker.vhost import LiveVhost
from leveret.core.codec.names import name_octets, name_text
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.glance import glance
from leveret.operations.browsing import Browsing
from leveret.operations.reprocess.letter import Letter
from leveret.runtime.time_slice import TimeSlice

SAMPLE = 50
QUEUES_MAX = 200


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
        # One survey at a time: it reads and decodes thousands of messages.
        self._turn = asyncio.Lock()

    async def survey(self, asking: Iterable[Requester]) -> list[DeadLetterQueue]:
        """The queues that hold dead letters, or would get them; those with most messages first. One requester for each
        virtual host: what is told of a queue stands in its messages, so it takes what getting them takes."""
        async with self._turn:
            return await self._survey_all(asking, TimeSlice())

    async def _survey_all(self, asking: Iterable[Requester], turn: TimeSlice) -> list[DeadLetterQueue]:
        found: list[tuple[LiveVhost, Any]] = []
        for who in asking:
            for queue in await self._candidates(who.vhost, turn):
                await turn.rest()
                if not queue.record.owner and who.access.allows_queue(READ, queue.record.name):
                    found.append((who.vhost, queue))
        found.sort(key=lambda pair: pair[1].ready_count(), reverse=True)
        return [await self._survey(vhost, queue, turn) for vhost, queue in found[:QUEUES_MAX]]

    async def _candidates(self, vhost: LiveVhost, turn: TimeSlice) -> list[ClassicQueue]:
        """Those that rules of other queues lead to, and those whose next message has died before."""
        found: dict[ClassicQueue, bool] = {}
        # Many queues have the same place for their dead letters, to which many bindings may lead.
        known: set[tuple[bytes | None, ...]] = set()
        for queue in list(vhost.queues.values()):
            await turn.rest()
            if not isinstance(queue, ClassicQueue) or queue.deleted:
                continue
            rules = queue.rules
            place = (rules.parking_lot, rules.dead_letter_exchange, rules.dead_letter_key)
            if place not in known:
                known.add(place)
                found.update(dict.fromkeys(self._targets(vhost, rules), True))
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
            source = name_text(rules.dead_letter_exchange)
            for binding in bindings.get(source, {}).values():
                if binding.to_queue:
                    names.append(name_octets(binding.destination))
        return [queue for name in names if isinstance(queue := vhost.queues.get(name), ClassicQueue)]

    async def _survey(self, vhost: LiveVhost, queue: Any, turn: TimeSlice) -> DeadLetterQueue:
        count: int = queue.ready_count()
        offsets = [(0, SAMPLE)] if count <= 2 * SAMPLE else [(0, SAMPLE), (count - SAMPLE, SAMPLE)]
        letters: list[Letter] = []
        for offset, many in offsets:
            async for seen in self._browsing.ready(queue, offset, 2 * SAMPLE if len(offsets) == 1 else many):
                letters.append(Letter(seen.message))
                await turn.rest()
        return DeadLetterQueue(vhost.name, queue.record.name, count, len(letters), await _groups(letters, turn))


async def _groups(letters: list[Letter], turn: TimeSlice) -> list[Group]:
    grouped: dict[tuple[str, str, str], list[Letter]] = {}
    for letter in letters:
        # The publisher's headers decide how long decoding takes.
        await turn.rest()
        origin = letter.origin
        if origin is not None:
            key = (origin.queue, origin.exchange.decode("utf-8", "replace"), origin.reason)
            grouped.setdefault(key, []).append(letter)
    found = []
    for (queue, exchange, reason), some in grouped.items():
        await turn.rest()
        moments = [moment for letter in some if (moment := letter.first_death_s) is not None]
        replayed = sum(letter.replay_count > 0 for letter in some)
        group = Group(
            queue, exchange, reason, len(some), min(moments, default=None), max(moments, default=None), replayed
        )
        found.append(group)
    return sorted(found, key=lambda group: group.count, reverse=True)
