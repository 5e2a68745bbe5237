"""Publishes what a job moves: through an exchange as a mandatory message, or says why it was not accepted.

The copy is in the log's open batch when `carry` returns. A caller that settles the original in the same turn of the
loop has both in one batch, which is on disk as a whole or not at all: no crash finds the message twice, or nowhere."""

from __future__ import annotations

from leveret.broker.broker import Broker
from leveret.broker.vhost import LiveVhost
from leveret.catalog.records import Reprocessing
from leveret.core.codec.message import Message, new_message
from leveret.core.codec.names import NAME_OCTETS_MAX, name_octets
from leveret.core.codec.properties import Properties
from leveret.core.queue.contract import Queue
from leveret.errors import SoftError
from leveret.operations.reprocess.letter import Letter


class Carrier:
    """Carries the letters of one job."""

    def __init__(self, broker: Broker, vhost: LiveVhost, job: Reprocessing) -> None:
        self._broker = broker
        self._vhost = vhost
        self._job = job

    def replay(self, letter: Letter) -> str | None:
        """Sends it to where the job says; why not, if it stays."""
        job = self._job
        if job.to == "target":
            return self._publish(letter, name_octets(job.exchange), [name_octets(job.routing_key)], letter.replayed())
        origin = letter.origin
        if origin is None:
            return "its headers do not tell where it died"
        if job.to == "origin-queue":
            return self._publish(letter, b"", [name_octets(origin.queue)], letter.replayed())
        return self._publish(letter, origin.exchange, list(origin.routing_keys), letter.replayed())

    def archive(self, letter: Letter) -> str | None:
        """Sends it to the archive as it is; why not, if it stays."""
        archive = self._job.archive
        assert archive is not None
        key = name_octets(archive.routing_key)
        if archive.exchange == "" and key not in self._vhost.queues:
            try:
                self._broker.declare_durable_queue(self._vhost.name, archive.routing_key)
            except SoftError as error:
                return f"the archive cannot be made: {error.text}"
        return self._publish(letter, name_octets(archive.exchange), [key], letter.properties)

    def _publish(self, letter: Letter, name: bytes, keys: list[bytes], properties: Properties) -> str | None:
        # Clients write these headers, too: the names may be none.
        if max(map(len, [name, *keys])) > NAME_OCTETS_MAX:
            return "the exchange or routing key in its headers is too long"
        exchange = self._vhost.exchanges.get(name)
        if exchange is None:
            return f"there is no exchange '{_shown(name)}'"
        targets = self._vhost.router.resolve(exchange, keys, properties)
        if not targets:
            return f"no queue is reached by exchange '{_shown(name)}' and key '{_shown(keys[0])}'"
        return self._deliver(new_message(name, keys[0], properties, letter.message.body), targets)

    def _deliver(self, message: Message, targets: tuple[Queue, ...]) -> str | None:
        office = self._broker.office
        if office.deliver(message, targets) == len(targets):
            return None
        # A queue that refuses may post the copy as a dead letter. The original stays, so that one must not go on.
        letters = office.take_letters()
        office.put_back([letter for letter in letters if letter.message is not message or letter.position > 0])
        return f"queue '{_shown(targets[0].name)}' is full" if len(targets) == 1 else "one of its queues is full"


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "replace")
