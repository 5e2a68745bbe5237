"""Bringing a broker back: what its store has, or the defaults of an empty one. Called once, before it serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from leveret.broker.broker import DEFAULT_VHOST, Broker
from leveret.broker.suspensions import show_suspensions, suspend_everybody
from leveret.catalog import commands
from leveret.catalog.commands import Command, decode_command, encode_command
from leveret.catalog.records import QueueRecord, Vhost
from leveret.catalog.repair import is_possible, missing_vhost
from leveret.catalog.snapshot import snapshot
from leveret.catalog.unusable import unusable_patterns
from leveret.errors import StartupError
from leveret.runtime.log import get_logger
from leveret.storage.store import Store
from leveret.storage.timekeeping import Moment

log = get_logger(__name__)


def recover(broker: Broker, prepare: Callable[[bool], None] | None = None) -> None:
    """`prepare` adds what every start adds, and is told whether there was nothing; without it an empty broker gets its
    defaults. What it does is on disk with the rest, or nothing is."""
    prepare = prepare or partial(_create_defaults, broker)
    store = broker.store
    if store is None:
        prepare(True)
        return
    sealer = broker.sealer
    assert sealer is not None
    found = [sealer.open(_decoded(command)) for command in store.take_commands()]
    for command in _singly(found, store.catalog.damaged):
        if not store.catalog.damaged or _make_possible(broker, command):
            _replay(broker, command)
    _name_unusable_patterns(broker)
    store.snapshot = lambda: [encode_command(sealer.seal(command)) for command in snapshot(broker.catalog)]
    store.paging.all_queues = broker.all_queues
    store.paging.all_channels = broker.all_channels
    store.on_calm = broker.disk_calmed
    store.tick = broker.tick
    store.streams.now_ms = broker.clock.now_ms
    store.collect_unacked = broker.collect_unacked
    # Not merely without users: an operator may have deleted them all, guest first.
    prepare(not found or (store.catalog.damaged and not broker.catalog.users))
    _adopt_orphans(broker, store)
    if store.catalog.damaged:
        # Before the catalog is written anew: then nobody could tell any more that something was lost.
        suspend_everybody(broker, [str(damage) for damage in store.catalog_damages])
    show_suspensions(broker)
    store.rewrite_catalog_now()
    broker.resume_time(store.resumed_ms(int(broker.clock.wall() * 1000)))
    store.moments.now = lambda: Moment(broker.clock.now_ms(), int(broker.clock.wall() * 1000))
    broker.tick()
    store.restore(broker.office.now)


def _name_unusable_patterns(broker: Broker) -> None:
    """What an older version stored and this one cannot match: it is safe, and somebody must set it anew."""
    for found in unusable_patterns(broker.catalog):
        effect = "applies to nothing" if found.field == "pattern" else "allows nothing"
        log.error(
            f"a stored pattern is of no use: this {found.kind} {effect} until it is set anew",
            vhost=found.vhost,
            name=found.name,
            field=found.field,
            pattern=found.pattern,
            problem=found.problem,
        )


def _create_defaults(broker: Broker, fresh: bool) -> None:
    if fresh:
        broker.create_defaults()


def _singly(found: list[Command], damaged: bool) -> Iterator[Command]:
    """Where commands were lost, each is looked at by itself, those that came together too."""
    for command in found:
        if damaged and isinstance(command, commands.Together):
            yield from command.commands
        else:
            yield command


def _decoded(command: bytes) -> Command:
    try:
        return decode_command(command)
    except Exception as error:
        # Its checksum is right, so this is no damage: another version of Leveret wrote it.
        raise StartupError(f"the catalog holds a command that this version does not know: {error}") from error


def _replay(broker: Broker, command: Command) -> None:
    """Like `Broker.apply`, but what comes from the log is not logged again."""
    for change in broker.catalog.apply(command):
        broker.reflect(change, replayed=True)


def _make_possible(broker: Broker, command: Command) -> bool:
    """Damage took commands away that this one may build on: mends that, or says that it is left out."""
    missing = missing_vhost(broker.catalog, command)
    if missing is not None:
        _replay(broker, missing)
    possible = is_possible(broker.catalog, command)
    if not possible:
        log.error("a command is left out, because what it needs was lost", command=repr(command))
    return possible


def _adopt_orphans(broker: Broker, store: Store) -> None:
    """Messages whose queue a damaged catalog no longer knows are put where people find them."""
    topologies = broker.catalog.topologies.values()
    known = {queue.id for topology in topologies for queue in topology.queues.values() if queue.id}
    known |= {exchange.id for topology in topologies for exchange in topology.exchanges.values() if exchange.id}
    next_queue_id = broker.catalog.next_queue_id
    orphans = store.orphans(known, next_queue_id)
    streams = store.stream_orphans(known, next_queue_id)
    if (orphans or streams) and DEFAULT_VHOST not in broker.catalog.vhosts:
        broker.apply(commands.PutVhost(Vhost(DEFAULT_VHOST)))
    # Ids that the log speaks of are not given again, whatever became of their queues.
    broker.catalog.apply(commands.SkipQueueIds(store.next_queue_id))
    for queue_id in streams:
        name = f"leveret.recovered-{queue_id}"
        record = QueueRecord(DEFAULT_VHOST, name, "stream", True, False, 0, {"x-queue-type": "stream"}, queue_id)
        broker.apply(commands.DeclareQueue(record))
        log.error("a stream that the catalog lost has another name", queue=name)
    for queue_id, book in orphans.items():
        name = f"leveret.recovered-{queue_id}"
        record = QueueRecord(DEFAULT_VHOST, name, "classic", True, False, 0, {}, queue_id)
        broker.apply(commands.DeclareQueue(record))
        log.error("messages of a queue that the catalog lost are in another one", queue=name, messages=book.count)
