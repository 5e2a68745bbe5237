"""Queues that operators have paused: consumers get nothing of them until they are resumed. Everything else goes on:
messages come in, expire and are counted, gets and reprocessing take them.

A pause of a durable queue survives a restart: whoever paused it because what is behind it is broken would not want the
broker to forget that. It is kept as a parameter with the queue's id, so that a queue which is made anew under the same
name begins like any other."""

from __future__ import annotations

from leveret.broker.broker import Broker
from leveret.broker.topology import Requester, queue_text
from leveret.broker.vhost import octets
from leveret.catalog import commands
from leveret.catalog.commands import Change, Removed
from leveret.catalog.records import Parameter, QueueRecord
from leveret.core.queue import ClassicQueue
from leveret.errors import SoftError

# Under this name the catalog keeps pauses; not for people, and so in no export.
COMPONENT = "leveret-pause"


class Pauses:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        broker.listeners.append(self._changed)

    def open(self) -> None:
        """After a start: pauses again what was."""
        for parameter in self._kept():
            queue = self._queue(parameter)
            if queue is None:
                self._forget(parameter.vhost, parameter.name)
            else:
                queue.pause(True)

    def set(self, who: Requester, name: str, paused: bool) -> None:
        """Whoever asks was found to be allowed to."""
        queue = who.vhost.queues.get(octets(name))
        if queue is None:
            raise SoftError(404, f"no {queue_text(who.vhost.name, name)}")
        if not isinstance(queue, ClassicQueue):
            raise SoftError(406, f"{queue_text(who.vhost.name, name)} is no queue that can be paused")
        record: QueueRecord = queue.record
        self._broker.tick()
        if queue.paused != paused:
            queue.pause(paused)
            self._broker.kick()
        if not record.id:
            return
        if paused:
            self._broker.apply(commands.PutParameter(Parameter(record.vhost, COMPONENT, record.name, record.id)))
        elif (record.vhost, COMPONENT, record.name) in self._broker.catalog.parameters:
            self._forget(record.vhost, record.name)

    def _kept(self) -> list[Parameter]:
        return [one for one in self._broker.catalog.parameters.values() if one.component == COMPONENT]

    def _queue(self, parameter: Parameter) -> ClassicQueue | None:
        vhost = self._broker.vhosts.get(parameter.vhost)
        queue = None if vhost is None else vhost.queues.get(octets(parameter.name))
        return queue if isinstance(queue, ClassicQueue) and queue.record.id == parameter.value else None

    def _forget(self, vhost: str, name: str) -> None:
        self._broker.apply(commands.DeleteParameter(vhost, COMPONENT, name))

    def _changed(self, change: Change) -> None:
        record = change.record
        if isinstance(change, Removed) and isinstance(record, QueueRecord):
            if (record.vhost, COMPONENT, record.name) in self._broker.catalog.parameters:
                self._forget(record.vhost, record.name)
