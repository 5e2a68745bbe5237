"""The broker: the catalog, the live virtual hosts that mirror it, and who is connected.

Owns all of it; nothing at module level, so that several brokers can live in one process. Sessions come to it for
whatever touches more than their own connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import structs

from leveret.auth.audit import Acting, Audit
from leveret.auth.limits import Limits
from leveret.auth.login import AuthSettings, Logins
from leveret.broker.activity import Churn, Retired
from leveret.broker.blocked_connections import BlockedConnections
from leveret.broker.connected import Connected
from leveret.broker.dead_letter_worker import DeadLetterWorker
from leveret.broker.events import Events
from leveret.broker.product_name import Announced
from leveret.broker.queue_expiry import QueueExpiry
from leveret.broker.reserved_names import refuse_reserved_queue
from leveret.broker.sealing import Sealer
from leveret.broker.stream_groups import StreamGroups
from leveret.broker.timer_queue import TimerQueue
from leveret.broker.vhost import LiveVhost
from leveret.catalog import commands
from leveret.catalog.catalog import Catalog
from leveret.catalog.commands import Added, Change, Command, Removed, encode_command
from leveret.catalog.passwords import SALT_BYTES, hash_known_password
from leveret.catalog.records import (
    Arguments,
    BindingRecord,
    ExchangeRecord,
    GlobalParameter,
    Parameter,
    Permission,
    Policy,
    QueueRecord,
    Reprocessing,
    Suspension,
    TopicPermission,
    User,
    Vhost,
)
from leveret.catalog.snapshot import is_durable
from leveret.core.connection.channel import Channel
from leveret.core.connection.leased_get import LeasedGet
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.core.queue.contract import Queue
from leveret.core.queue.mover import Mover
from leveret.core.queue.office import Office
from leveret.core.queue.release import Release
from leveret.queues.holder import ExchangeHolder
from leveret.runtime.clock import Clock
from leveret.runtime.dice import Dice
from leveret.storage.layout import LINK_KEY_FILE
from leveret.storage.store import Store

DEFAULT_VHOST = "/"
DEFAULT_USER = "guest"
DEFAULT_PASSWORD = "guest"


class Broker:
    def __init__(self, dice: Dice, clock: Clock, store: Store | None = None, auth: AuthSettings | None = None) -> None:
        self.dice = dice
        self.clock = clock
        # None for a broker that keeps nothing, as in many tests.
        self.store = store
        self.catalog = Catalog()
        # Encrypts what links' URIs have of passwords, on disk; None for a broker that keeps nothing.
        self.sealer = None if store is None else Sealer(store.root / LINK_KEY_FILE, dice.salt)
        # What every interface calls the broker.
        self.announced = Announced()
        # What queues share: the time, dead letters, alarms.
        self.office = Office(clock.now_ms(), journal=None if store is None else store.journal)
        self.timers = TimerQueue(clock.now_ms, self.tick, lambda: self.kick())
        self.office.alarm = self.timers.put
        self.office.forget = self.timers.forget
        self.dead_letter_worker = DeadLetterWorker(
            self.office, None if store is None else store.journal, self, clock.wall
        )
        self.queue_expiry = QueueExpiry(self.timers, clock.now_ms, self._delete_unused)
        # Which consumers of streams share their work, and whose turn it is.
        self.stream_groups = StreamGroups(self.timers, clock.now_ms)
        # Sends what was put into write buffers; set by whoever runs the broker on a loop.
        self.kick: Callable[[], None] = lambda: None
        self.logins = Logins(self.catalog, dice, clock, auth, self._store_hash)
        self.limits = Limits(self.catalog)
        # Who changed what; None where nobody asks.
        self.audit: Audit | None = None
        # Arguments that exchanges route by which were declared without them; set before the first virtual host is made.
        self.exchange_defaults: Arguments = {}
        self.vhosts: dict[str, LiveVhost] = {}
        self.connections: dict[int, Connected] = {}
        # The same by their names.
        self.connections_named: dict[str, Connected] = {}
        # Those that are being opened or closed, which nobody need be told of.
        self.half_open: dict[int, Connected] = {}
        self._last_connection_id = 0
        # Connections that are not read because they publish faster than the disk takes it.
        self.stalled: dict[int, Connected] = {}
        # Those who hold messages of queues without being connected.
        self.movers: set[Mover | LeasedGet] = set()
        self.events = Events(clock.now_ms())
        # Told of every change of the catalog, once everything mirrors it; not of those that a start repeats.
        self.listeners: list[Callable[[Change], None]] = [lambda change: self.events.changed(change, clock.now_ms())]
        # What is short at present and why that is known, by source of the alarm; of these, those for which publishers
        # are not read.
        self.alarms: dict[str, str] = {}
        self._blocking: dict[str, str] = {}
        self.connections_opened_total = 0
        self.connections_closed_total = 0
        self.churn = Churn()
        # What those had counted who are gone.
        self.retired = Retired()
        self.blocked_connections = BlockedConnections(clock.monotonic)

    def create_defaults(self) -> None:
        """What an empty broker starts with: the vhost / and guest, who may do everything there."""
        self.apply(commands.PutVhost(Vhost(DEFAULT_VHOST)))
        password = DEFAULT_PASSWORD.encode()
        password_hash = hash_known_password(password, self.dice.salt(SALT_BYTES))
        self.apply(commands.PutUser(User(DEFAULT_USER, password_hash, ("administrator",))))
        self.logins.remember(DEFAULT_USER, password_hash, password)
        self.apply(commands.PutPermission(Permission(DEFAULT_USER, DEFAULT_VHOST, ".*", ".*", ".*")))

    @property
    def logins_refused_total(self) -> int:
        return self.logins.refused_total

    def _store_hash(self, user: str, password_hash: str) -> None:
        self.apply(commands.PutUser(structs.replace(self.catalog.users[user], password_hash=password_hash)))

    def start(self, loop: asyncio.AbstractEventLoop, kick: Callable[[], None]) -> None:
        """From now on time passes."""
        self.kick = kick
        self.logins.start()
        self.timers.start(loop)
        self.dead_letter_worker.start(loop, kick)

    def tick(self) -> None:
        """Tells the data plane what time it is. To be called whenever something comes in from outside."""
        self.office.now = max(self.office.now, self.clock.now_ms())

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Work that comes from outside: the data plane knows the time, and what it has written is sent at the end."""
        self.tick()
        try:
            yield
        finally:
            self.kick()

    def resume_time(self, now_ms: int) -> None:
        """At the start, before there is a message: for messages it is so late, whatever the clock says."""
        self.clock.resume(now_ms)
        self.office.now = now_ms

    def _delete_unused(self, queue: Queue) -> None:
        record: QueueRecord = queue.record
        self.apply(commands.DeleteQueue(record.vhost, record.name))

    def declare_durable_queue(self, vhost: str, name: str) -> None:
        """One that the broker needs itself; raises SoftError if the virtual host has no room for it, or its name is
        reserved."""
        refuse_reserved_queue(name)
        self.limits.topology.check_queues(vhost, name, {})
        self.apply(commands.DeclareQueue(QueueRecord(vhost, name, "classic", True, False, 0, {}, *self.new_identity())))

    # ---- what survives

    def new_queue_id(self) -> int:
        """For a queue that survives; 0 if nothing does."""
        return 0 if self.store is None else self.catalog.next_queue_id

    def new_identity(self) -> tuple[int, int]:
        """The id and the moment of a queue that is declared now and survives. The moment tells it from one that had the
        same id and name in a data directory that was deleted since."""
        queue_id = self.new_queue_id()
        return queue_id, self.office.now if queue_id else 0

    def all_queues(self) -> Iterator[ClassicQueue | ExchangeHolder]:
        """Everything that holds messages."""
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                if isinstance(queue, ClassicQueue):
                    yield queue
            for exchange in vhost.exchanges.values():
                if isinstance(exchange.exchange_store, ExchangeHolder):
                    yield exchange.exchange_store

    def all_channels(self) -> Iterator[Channel]:
        """Everything that holds messages which were handed out and not acknowledged."""
        for connection in self.connections.values():
            yield from connection.counted()[1]

    def disk_calmed(self) -> None:
        if self.stalled:
            stalled, self.stalled = self.stalled, {}
            for connection in stalled.values():
                connection.disk_calmed()

    def collect_unacked(self, number: int, found: dict[tuple[int, int], object]) -> None:
        """What connections and the broker's own jobs hold of a segment, and dead letters on their way."""
        self._tell(lambda connection: connection.collect_located(number, found))
        for mover in self.movers:
            mover.collect_located(number, found)
        self.office.collect_located(number, found)

    # ---- the catalog and its mirror

    def apply(self, command: Command, by: Acting | None = None) -> None:
        """Changes what exists: the catalog first, then its log, then everything that mirrors it. `by` is whoever wants
        it, for the audit log."""
        # First of all: what cannot be written must not happen.
        octets = b"" if self.sealer is None else encode_command(self.sealer.seal(command))
        changes = self.catalog.apply(command)
        if self.store is not None and any(is_durable(self.catalog, change) for change in changes):
            self.store.append_command(octets)
            if by is not None and self.audit is not None:
                self.audit.changed(by, command)
        governed: set[str] = set()
        for change in changes:
            if isinstance(change.record, Policy):
                # All policies of a virtual host are looked at in one pass, however many have changed.
                if change.record.vhost in governed:
                    continue
                governed.add(change.record.vhost)
            self.reflect(change)
            if isinstance(change.record, QueueRecord):
                self.churn.queues_created += isinstance(change, Added)
                self.churn.queues_deleted += isinstance(change, Removed)
        for listener in self.listeners:
            for change in changes:
                listener(change)

    def reflect(self, change: Change, replayed: bool = False) -> None:
        """Brings everything that mirrors the catalog in step with it."""
        record = change.record
        if isinstance(record, QueueRecord | ExchangeRecord | BindingRecord):
            self.vhosts[record.vhost].reflect(change)
        elif isinstance(record, Vhost):
            self._reflect_vhost(record, change)
        elif isinstance(record, Policy):
            self.tick()
            self.vhosts[record.vhost].policies_changed(replayed)
        elif isinstance(record, Reprocessing):
            # Whoever runs the job has written this, or sees that its queue is gone.
            pass
        elif isinstance(record, Parameter | GlobalParameter):
            # Whoever acts on them reads them when it does.
            pass
        elif isinstance(record, Suspension):
            # Asked about at every login. Users are suspended at a start, before anybody is connected.
            pass
        elif isinstance(record, Permission | TopicPermission):
            self._tell(lambda connection: connection.permissions_changed(record.user))
        elif isinstance(change, Removed):
            self._tell(lambda connection: connection.user_deleted(record.name))
        else:
            self._tell(lambda connection: connection.permissions_changed(record.name))

    def _reflect_vhost(self, vhost: Vhost, change: Change) -> None:
        if isinstance(change, Removed):
            self._tell(lambda connection: connection.vhost_deleted(vhost.name))
            self.vhosts.pop(vhost.name).policy_application.close()
        elif isinstance(change, Added) and vhost.name not in self.vhosts:
            self.vhosts[vhost.name] = LiveVhost(
                vhost.name,
                self.dice.pick,
                self.store,
                self.catalog.policies[vhost.name],
                self.office,
                self.queue_expiry,
                self.retired,
                lambda: self._tell(lambda connection: connection.ack_timeouts_changed()),
                self.exchange_defaults,
                self.dice.uuid,
            )

    # ---- connections

    def new_connection_id(self) -> int:
        self._last_connection_id += 1
        return self._last_connection_id

    def connected(self, connection_id: int, connection: Connected) -> None:
        self.connections[connection_id] = connection
        self.connections_named[connection.name] = connection
        self.connections_opened_total += 1
        self.events.connection("connection.opened", connection, self.clock.now_ms())

    def disconnected(self, connection_id: int) -> None:
        self.limits.leave_place(connection_id)
        connection = self.connections.pop(connection_id, None)
        if connection is not None:
            self.connections_closed_total += 1
            self.events.connection("connection.closed", connection, self.clock.now_ms())
            if self.connections_named.get(connection.name) is connection:
                del self.connections_named[connection.name]
            connection.count_into(self.retired)

    def close_connections(self, text: str, code: int = 320) -> None:
        """Closes every connection, as an operator or a shutdown does."""
        self._tell(lambda connection: connection.close_by_broker(code, text))

    def _tell(self, call: Callable[[Connected], None]) -> None:
        for connection in list(self.connections.values()):
            call(connection)

    # ---- alarms

    @property
    def blocked_reason(self) -> str | None:
        """Why publishing connections are not read at present, or None."""
        return next(iter(self._blocking.values()), None)

    def raise_alarm(self, source: str, reason: str, blocks: bool = True) -> None:
        if self.alarms.get(source) != reason:
            self.events.tell("alarm.set", self.clock.now_ms(), {"source": source, "reason": reason})
        self.alarms[source] = reason
        if blocks:
            began = source not in self._blocking
            self._blocking[source] = reason
            if began:
                self._tell_blocked()

    def clear_alarm(self, source: str) -> None:
        if self.alarms.pop(source, None) is not None:
            self.events.tell("alarm.cleared", self.clock.now_ms(), {"source": source})
        if self._blocking.pop(source, None) is not None:
            self._tell_blocked()

    def is_blocked_by(self, source: str) -> bool:
        return source in self._blocking

    def _tell_blocked(self) -> None:
        reason = self.blocked_reason
        self._tell(lambda connection: connection.blocked_changed(reason))

    def quiesce(self) -> None:
        """Nothing happens by itself any more: no message expires, becomes due or is dead-lettered, no queue is deleted
        for lack of use. What is on its way stays in the log as a message of its queue."""
        self.timers.stop()
        self.dead_letter_worker.stop()
        for holder in list(self.office.returning):
            if isinstance(holder, Release):
                # What was purged is not to come back.
                holder.finish()

    def close(self) -> None:
        self.quiesce()
        self.logins.close()
