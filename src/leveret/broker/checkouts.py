"""Messages that somebody has fetched without a connection, and for how long: leases over HTTP.

A lease is one message in the hands of one user. It counts as unacked, and ends by an ack, by a nack, or by itself when
its time is over: then the message goes back and is marked as redelivered. It ends as well when its user is deleted or
may not read the queue any more, and when the node stops. Nothing of it is written down: after a crash the message is in
its queue, like any that was not acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from leveret.broker.access import READ
from leveret.broker.broker import Broker
from leveret.broker.identity import Identity
from leveret.broker.topology import Requester, Topology
from leveret.catalog.commands import Change, Removed
from leveret.catalog.records import Permission, QueueRecord, User, Vhost
from leveret.core.contract import Queue
from leveret.core.pickup import Pickup
from leveret.core.stream.queue import StreamQueue
from leveret.errors import HardError, SoftError, TooManyLeases

LEASES_MAX = 20_000
LEASES_OF_USER_MAX = 5_000
LEASE_S_MAX = 3600.0
# How long somebody waits for messages that are on disk.
LOAD_DEADLINE_S = 10.0


class Lease:
    """One message. `tag` grows from lease to lease and never comes twice, over restarts neither."""

    __slots__ = ("_owner", "expires_ms", "hand", "id", "since_ms", "tag")

    def __init__(self, owner: Checkouts, hand: Hand, id: str, tag: int, since_ms: int, expires_ms: int) -> None:
        self._owner = owner
        self.hand = hand
        self.id = id
        self.tag = tag
        self.since_ms = since_ms
        self.expires_ms = expires_ms

    def ring(self) -> None:
        """Its time is over."""
        self._owner.expire(self)


class Hand:
    """What one user has of one queue."""

    __slots__ = ("asking", "identity", "leases", "pickup", "record")

    def __init__(self, queue: Queue, identity: Identity) -> None:
        self.record: QueueRecord = queue.record
        self.identity = identity
        self.pickup = Pickup(queue, False)
        # By tag, in the order they came.
        self.leases: dict[int, Lease] = {}
        # Requests that are about to have more, and may wait for the disk.
        self.asking = 0

    @property
    def queue(self) -> Any:
        return self.pickup.queue


class Checkouts:
    """`lease_s` is how long a lease lasts if nobody says."""

    def __init__(self, broker: Broker, topology: Topology, lease_s: float = 30.0) -> None:
        self._broker = broker
        self._topology = topology
        self.lease_s = lease_s
        self._leases: dict[str, Lease] = {}
        # By (user, queue).
        self._hands: dict[tuple[str, Queue], Hand] = {}
        self._of_user: dict[str, int] = {}
        # Beyond what any life before this one can have given, and still a whole number to JavaScript.
        self._last_tag = broker.clock.now_ms() * 1000
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
        """The queue, if he may read it and messages can be fetched from it."""
        who.access.check_queue(READ, name)
        queue = self._topology.find_queue(who, name)
        if isinstance(queue, StreamQueue):
            raise HardError(540, queue.refusal("basic.get"))
        who.vhost.leases.renew(queue)
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

    async def lease(self, who: Requester, queue: Any, lease_s: float) -> tuple[Lease, Pickup] | None:
        """The next message, which the pickup shows; None if there is none."""
        identity = who.access.identity
        self.room(identity.name)
        key = (identity.name, queue)
        hand = self._hands.get(key)
        if hand is None:
            hand = self._hands[key] = Hand(queue, identity)
            self._broker.borrowers.add(hand.pickup)
        self._last_tag += 1
        tag = self._last_tag
        hand.asking += 1
        try:
            if not await fetched(self._broker, hand.pickup, tag):
                return None
            if self._closed or self._is_lost(hand, identity.name):
                # While the disk was asked.
                hand.pickup.requeue(tag)
                queue.dispatch()
                return None
        finally:
            hand.asking -= 1
            self._drop_if_empty(key, hand)
        now_ms = self._broker.clock.now_ms()
        lease = Lease(self, hand, self._broker.dice.name(), tag, now_ms, now_ms + int(lease_s * 1000))
        hand.leases[tag] = lease
        self._leases[lease.id] = lease
        self._of_user[identity.name] = self._of_user.get(identity.name, 0) + 1
        self._broker.agenda.put(lease, lease.expires_ms)
        self.leased_total += 1
        return lease, hand.pickup

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

    def ack(self, leases: list[Lease]) -> int:
        self._broker.tick()
        acked = sum(bool(lease.hand.pickup.settle(lease.tag)) for lease in leases)
        self._end(leases)
        self.acked_total += acked
        return acked

    def nack(self, leases: list[Lease], requeue: bool) -> int:
        """Back to the queue; or away, to the dead-letter exchange if the queue has one."""
        nacked = self._give_back(leases, requeue)
        self.nacked_total += nacked
        return nacked

    def _give_back(self, leases: list[Lease], requeue: bool = True) -> int:
        self._broker.tick()
        nacked = 0
        for lease in leases:
            pickup = lease.hand.pickup
            nacked += bool(pickup.requeue(lease.tag) if requeue else pickup.discard(lease.tag))
        queues = dict.fromkeys(lease.hand.queue for lease in leases)
        self._end(leases)
        for queue in queues:
            queue.dispatch()
        self._broker.kick()
        return nacked

    def held(self, queue: Queue) -> list[tuple[Hand, Lease, Any]]:
        """Who holds what of a queue: the hand, the lease and the entry."""
        return [
            (hand, lease, hand.pickup.held[tag])
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
            self._broker.agenda.forget(lease)
            hand = lease.hand
            del hand.leases[lease.tag]
            user = hand.identity.name
            self._of_user[user] -= 1
            if self._of_user[user] == 0:
                del self._of_user[user]
            self._drop_if_empty((user, hand.queue), hand)

    def _drop_if_empty(self, key: tuple[str, Queue], hand: Hand) -> None:
        if not hand.pickup.held and not hand.asking and self._hands.get(key) is hand:
            del self._hands[key]
            self._broker.borrowers.discard(hand.pickup)

    def _changed(self, change: Change) -> None:
        """Of the catalog: leases end whose user or queue is gone, or whose user may not read any more."""
        record = change.record
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

    @staticmethod
    def _is_lost(hand: Hand, user: str) -> bool:
        identity = hand.identity
        if identity.name != user:
            return False
        return not identity.exists or not identity.allows(READ, hand.record.vhost, hand.record.name)

    def close(self) -> None:
        """The node stops: everything goes back."""
        self._closed = True
        self._give_back(list(self._leases.values()))


async def fetched(broker: Broker, pickup: Pickup, tag: int) -> bool:
    """Has the pickup fetch one message, from disk if it must: whether there was one."""
    while True:
        broker.tick()
        found: bool | None = pickup.fetch(tag)
        if found is not None:
            if found and pickup.queue.subscriber_count():
                # Somebody else may have been waiting behind it.
                broker.kick()
            return found
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pickup.queue.await_load(lambda done=arrived: done.done() or done.set_result(None))
        try:
            await asyncio.wait_for(arrived, LOAD_DEADLINE_S)
        except TimeoutError:
            raise SoftError(541, "the disk did not answer in time") from None
