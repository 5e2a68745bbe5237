"""Leases over HTTP: messages that were fetched without a connection, and for how long.

A lease is one message in the hands of one user. It counts as unacked, and ends by an ack, by a nack, or by itself when
its time is over: then the message goes back and is marked as redelivered. It ends as well when its user is deleted or
may not read the queue any more, and when the node stops. Nothing of it is written down: after a crash the message is in
its queue, like any that was not acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from leveret.auth.access import READ
from leveret.auth.identity import Identity
from leveret.broker.broker import Broker
from leveret.broker.topology import Requester, Topology
from leveret.catalog.commands import Change, Removed
from leveret.catalog.records import Permission, QueueRecord, User, Vhost
from leveret.core.connection.leased_get import LeasedGet
from leveret.core.queue.contract import Queue
from leveret.errors import HardError, SoftError, TooManyLeases
from leveret.operations.firehose import HTTP

LEASES_MAX = 20_000
LEASES_OF_USER_MAX = 5_000
LEASE_S_MAX = 3600.0
# How long a request waits for messages that are on disk.
LOAD_DEADLINE_S = 10.0


class Lease:
    """One message. `tag` grows from lease to lease and never comes twice, over restarts neither. `number` counts from 1
    for each user and queue, and is 0 for a lease that was asked for without one."""

    __slots__ = ("_owner", "expires_ms", "hand", "id", "number", "since_ms", "tag")

    def __init__(
        self, owner: HttpLeases, hand: LeaseHolder, id: str, tag: int, since_ms: int, expires_ms: int, number: int
    ) -> None:
        self._owner = owner
        self.hand = hand
        self.id = id
        self.tag = tag
        self.number = number
        self.since_ms = since_ms
        self.expires_ms = expires_ms

    def ring(self) -> None:
        """Its time is over."""
        self._owner.expire(self)


class LeaseHolder:
    """What one user has of one queue."""

    __slots__ = ("asking", "identity", "leased_get", "leases", "numbered", "record")

    def __init__(self, queue: Queue, identity: Identity) -> None:
        self.record: QueueRecord = queue.record
        self.identity = identity
        self.leased_get = LeasedGet(queue, False)
        # By tag, in the order they came.
        self.leases: dict[int, Lease] = {}
        # Those that have a number, by it.
        self.numbered: dict[int, Lease] = {}
        # Requests that are about to have more, and may wait for the disk.
        self.asking = 0

    @property
    def queue(self) -> Any:
        return self.leased_get.queue


class HttpLeases:
    """`lease_s` is how long a lease lasts by default."""

    def __init__(self, broker: Broker, topology: Topology, lease_s: float = 30.0) -> None:
        self._broker = broker
        self._topology = topology
        self.lease_s = lease_s
        self._leases: dict[str, Lease] = {}
        # By (user, queue).
        self._hands: dict[tuple[str, Queue], LeaseHolder] = {}
        self._of_user: dict[str, int] = {}
        # Beyond what any life before this one can have given, and still a whole number to JavaScript.
        self._last_tag = broker.clock.now_ms() * 1000
        # The last number given to a user, by (virtual host, queue). It is kept when the leases are over, so that an ack
        # that comes late, or twice, does not settle a message that was leased since.
        self._numbers: dict[tuple[str, str], dict[str, int]] = {}
        self._closed = False
        self.leased_total = 0
        self.expired_total = 0
        self.acked_total = 0
        self.nacked_total = 0
        broker.listeners.append(self._changed)

    def __len__(self) -> int:
        return len(self._leases)

    # ---- fetching

    def find(self, who: Requester, name: str) -> Any:
        """The queue, if the user may read it and messages can be fetched from it."""
        who.access.check_queue(READ, name)
        queue = self._topology.find_queue(who, name)
        if (refusal := queue.refusal("basic.get")) is not None:
            raise HardError(540, refusal)
        who.vhost.queue_expiry.renew(queue)
        return queue

    def room(self, user: str) -> int:
        """How many leases the user may still have. Raises TooManyLeases if none."""
        room = min(LEASES_MAX - len(self._leases), LEASES_OF_USER_MAX - self._of_user.get(user, 0))
        if room <= 0 or self._closed:
            raise TooManyLeases(
                f"user '{user}', or all users together, hold as many messages as there may be leases: acknowledge "
                "some, or wait until they expire"
            )
        return room

    async def lease(
        self, who: Requester, queue: Any, lease_s: float, numbered: bool = False
    ) -> tuple[Lease, LeasedGet] | None:
        """The next message, which the leased get shows; None if there is none."""
        identity = who.access.identity
        self.room(identity.name)
        key = (identity.name, queue)
        hand = self._hands.get(key)
        if hand is None:
            hand = self._hands[key] = LeaseHolder(queue, identity)
            self._broker.movers.add(hand.leased_get)
        self._last_tag += 1
        tag = self._last_tag
        hand.asking += 1
        try:
            if not await fetched(self._broker, hand.leased_get, tag, identity.name):
                return None
            if self._closed or self._is_lost(hand, identity.name):
                # While the disk was asked.
                hand.leased_get.requeue(tag)
                queue.dispatch()
                return None
        finally:
            hand.asking -= 1
            self._drop_if_empty(key, hand)
        now_ms = self._broker.clock.now_ms()
        number = self.next_number(identity.name, queue) if numbered else 0
        lease = Lease(self, hand, self._broker.dice.name(), tag, now_ms, now_ms + int(lease_s * 1000), number)
        hand.leases[tag] = lease
        if number:
            hand.numbered[number] = lease
        self._leases[lease.id] = lease
        self._of_user[identity.name] = self._of_user.get(identity.name, 0) + 1
        self._broker.timers.put(lease, lease.expires_ms)
        self.leased_total += 1
        return lease, hand.leased_get

    def next_number(self, user: str, queue: Any) -> int:
        record: QueueRecord = queue.record
        numbers = self._numbers.setdefault((record.vhost, record.name), {})
        numbers[user] = numbers.get(user, 0) + 1
        return numbers[user]

    # ---- what becomes of them

    def by_ids(self, user: str, queue: Queue, ids: Iterable[str]) -> tuple[list[Lease], list[str]]:
        """Those of this user and queue, and the ids that are none (any more)."""
        found: dict[str, Lease] = {}
        unknown: dict[str, bool] = {}
        for id in ids:
            lease = self._leases.get(id)
            if lease is None or lease.hand.identity.name != user or lease.hand.queue is not queue:
                unknown[id] = True
            else:
                found[id] = lease
        return list(found.values()), list(unknown)

    def by_tag(self, user: str, queue: Queue, tag: int, multiple: bool) -> list[Lease]:
        """The one with this tag; or all up to it, as AMQP's `multiple` has it, where 0 means every one."""
        hand = self._hands.get((user, queue))
        if hand is None:
            return []
        if multiple:
            return [lease for known, lease in hand.leases.items() if tag in (0, known) or known < tag]
        return [hand.leases[tag]] if tag in hand.leases else []

    def by_number(self, user: str, queue: Queue, number: int, multiple: bool) -> list[Lease]:
        """The same by numbers: leases without one are not meant."""
        hand = self._hands.get((user, queue))
        if hand is None:
            return []
        if multiple:
            return [lease for known, lease in hand.numbered.items() if number == 0 or known <= number]
        return [hand.numbered[number]] if number in hand.numbered else []

    def ack(self, leases: list[Lease]) -> int:
        self._broker.tick()
        acked = sum(bool(lease.hand.leased_get.settle(lease.tag)) for lease in leases)
        self._end(leases)
        self.acked_total += acked
        return acked

    def nack(self, leases: list[Lease], requeue: bool) -> int:
        """Back to the queue; or away, to the dead-letter exchange if the queue has one."""
        nacked = self._give_back(leases, requeue)
        self.nacked_total += nacked
        return nacked

    def _give_back(self, leases: list[Lease], requeue: bool = True) -> int:
        nacked = 0
        with self._broker.turn():
            for lease in leases:
                leased_get = lease.hand.leased_get
                nacked += bool(leased_get.requeue(lease.tag) if requeue else leased_get.discard(lease.tag))
            queues = dict.fromkeys(lease.hand.queue for lease in leases)
            self._end(leases)
            for queue in queues:
                queue.dispatch()
        return nacked

    def held(self, queue: Queue) -> list[tuple[LeaseHolder, Lease, Any]]:
        """Who holds what of a queue: the hand, the lease and the entry."""
        return [
            (hand, lease, hand.leased_get.held[tag])
            for (_, of), hand in self._hands.items()
            if of is queue
            for tag, lease in hand.leases.items()
        ]

    # ---- the end of a lease

    def expire(self, lease: Lease) -> None:
        if lease.id in self._leases:
            self.expired_total += 1
            self._give_back([lease])

    def _end(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            if self._leases.pop(lease.id, None) is None:
                continue
            self._broker.timers.forget(lease)
            hand = lease.hand
            del hand.leases[lease.tag]
            hand.numbered.pop(lease.number, None)
            user = hand.identity.name
            self._of_user[user] -= 1
            if self._of_user[user] == 0:
                del self._of_user[user]
            self._drop_if_empty((user, hand.queue), hand)

    def _drop_if_empty(self, key: tuple[str, Queue], hand: LeaseHolder) -> None:
        if not hand.leased_get.held and not hand.asking and self._hands.get(key) is hand:
            del self._hands[key]
            self._broker.movers.discard(hand.leased_get)

    def _changed(self, change: Change) -> None:
        """Of the catalog: leases end whose user or queue is gone, or whose user may not read any more."""
        record = change.record
        if isinstance(change, Removed):
            self._forget_numbers(record)
        ended: list[Lease] = []
        if isinstance(record, QueueRecord | Vhost) and isinstance(change, Removed):
            ended = [lease for hand in self._hands.values() if hand.queue.deleted for lease in hand.leases.values()]
        elif isinstance(record, User | Permission):
            user = record.name if isinstance(record, User) else record.user
            ended = [
                lease for hand in self._hands.values() if self._is_lost(hand, user) for lease in hand.leases.values()
            ]
        if ended:
            self._give_back(ended)

    def _forget_numbers(self, record: Any) -> None:
        if isinstance(record, QueueRecord):
            self._numbers.pop((record.vhost, record.name), None)
        elif isinstance(record, Vhost):
            self._numbers = {key: numbers for key, numbers in self._numbers.items() if key[0] != record.name}
        elif isinstance(record, User):
            for numbers in self._numbers.values():
                numbers.pop(record.name, None)

    @staticmethod
    def _is_lost(hand: LeaseHolder, user: str) -> bool:
        identity = hand.identity
        if identity.name != user:
            return False
        return not identity.exists or not identity.allows(READ, hand.record.vhost, hand.record.name)

    def close(self) -> None:
        """The node stops: everything goes back."""
        self._closed = True
        self._give_back(list(self._leases.values()))


async def fetched(broker: Broker, leased_get: LeasedGet, tag: int, user: str) -> bool:
    """Has the leased get fetch one message for this user, from disk if it must: whether there was one."""
    while True:
        broker.tick()
        found: bool | None = leased_get.fetch(tag)
        if found is not None:
            if found and leased_get.queue.subscriber_count():
                # Consumers may wait for the messages behind it.
                broker.kick()
            vhost = broker.vhosts.get(leased_get.queue.record.vhost)
            if found and vhost is not None and vhost.firehose is not None:
                trace = vhost.firehose.trace(HTTP, 0, user)
                trace.delivered(leased_get.queue, leased_get.message, leased_get.body, leased_get.redelivered)
            return found
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        leased_get.queue.await_load(lambda done=arrived: done.done() or done.set_result(None))
        try:
            await asyncio.wait_for(arrived, LOAD_DEADLINE_S)
        except TimeoutError:
            raise SoftError(541, "the disk did not answer in time") from None
