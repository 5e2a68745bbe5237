"""Queues that operators have paused: consumers get nothing of them until they are resumed. Everything else goes on:
messages come in, expire and are counted, gets and reprocessing take them.

A pause of a durable queue survives a restart: the reason for the pause, such as a broken consumer, usually outlives
the restart. It is kept under the queue's id, which is never given twice: a queue that is made anew under the
same name begins like any other."""

from __future__ import annotations

from leveret.broker.broker import Broker
from leveret.broker.topology import Requester, check_owner, queue_text
from leveret.catalog import commands
from leveret.catalog.commands import Change, Removed
from leveret.catalog.definitions import OWN_PREFIX
from leveret.catalog.records import GlobalParameter, QueueRecord
from leveret.core.codec.names import name_octets
from leveret.core.queue.classic_queue import ClassicQueue
from leveret.errors import SoftError

# The broker's own, and so in no list and no export.
PREFIX = f"{OWN_PREFIX}pause."


class Pauses:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        broker.listeners.append(self._changed)

    def open(self) -> None:
        """After a start: pauses again what was."""
        kept = {name for name in self._broker.catalog.global_parameters if name.startswith(PREFIX)}
        if not kept:
            return
        for queue in self._broker.all_queues():
            if isinstance(queue, ClassicQueue) and _name(queue.record) in kept:
                queue.pause(True)
                kept.discard(_name(queue.record))
        for name in kept:
            # Damage took the queue away.
            self._broker.apply(commands.DeleteGlobalParameter(name))

    def set(self, who: Requester, name: str, paused: bool) -> None:
        """The caller's right was checked before."""
        queue = who.vhost.queues.get(name_octets(name))
        if queue is None:
            raise SoftError(404, f"no {queue_text(who.vhost.name, name)}")
        check_owner(who, queue.record)
        if not isinstance(queue, ClassicQueue):
            raise SoftError(406, f"{queue_text(who.vhost.name, name)} is no queue that can be paused")
        record: QueueRecord = queue.record
        if queue.paused != paused:
            with self._broker.turn():
                queue.pause(paused)
            kind = "queue.paused" if paused else "queue.resumed"
            what = {"name": record.name, "vhost": record.vhost}
            self._broker.events.tell(kind, self._broker.clock.now_ms(), what, record.vhost)
        if record.id and paused:
            self._broker.apply(commands.PutGlobalParameter(GlobalParameter(_name(record), record.name)))
        else:
            self._forget(record)

    def _forget(self, record: QueueRecord) -> None:
        if record.id and _name(record) in self._broker.catalog.global_parameters:
            self._broker.apply(commands.DeleteGlobalParameter(_name(record)))

    def _changed(self, change: Change) -> None:
        if isinstance(change, Removed) and isinstance(change.record, QueueRecord):
            self._forget(change.record)


def _name(record: QueueRecord) -> str:
    return f"{PREFIX}{record.id}"
