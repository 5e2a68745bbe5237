"""A shovel's work: from a queue or an exchange of one broker to a queue or an exchange of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leveret.client.errors import ChannelClosed
from leveret.client.transport.channel import Channel
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.core.client.outgoing import MANDATORY
from leveret.core.client.relay import Relay
from leveret.core.codec.field_types import Int64
from leveret.links.dialing import Dialed
from leveret.links.message_edits import shovel_edit
from leveret.links.shovel_spec import DELETE_AT_QUEUE_LENGTH, NO_ACK, ON_CONFIRM, ON_PUBLISH, End, ShovelSpec
from leveret.links.supervisor import LinkWork
from leveret.links.transfer import STREAM_OFFSET, Transfer
from leveret.wire.exchange_methods import ExchangeDeclare
from leveret.wire.queue_methods import QueueBind, QueueDeclare

__all__ = ["RELAY_MODES", "ShovelWork", "short_string"]

RELAY_MODES = {ON_CONFIRM: 0, ON_PUBLISH: 1, NO_ACK: 2}
NOT_FOUND = 404


class ShovelWork(LinkWork):
    """Remembers over reconnects how many messages are left to move and where a stream's consumer was."""

    def __init__(
        self,
        name: str,
        vhost: str,
        kind: str,
        spec: ShovelSpec,
        cluster_name: Callable[[], str],
        wall: Callable[[], float],
    ) -> None:
        self.name = name
        self.title = f"Shovel {name}"
        self.vhost = vhost
        self.kind = kind
        self.spec = spec
        self.source_uris = spec.source.uris
        self.target_uris = spec.destination.uris
        self.reconnect_delay_s = spec.reconnect_delay_s
        self._cluster_name = cluster_name
        self._wall = wall
        # None until it is known.
        self._left: int | None = spec.delete_after if spec.delete_after != DELETE_AT_QUEUE_LENGTH else None
        self._next_offset: int | None = None

    async def begin(self, source: Dialed, target: Dialed) -> Transfer:
        await self._prepare_destination(target)
        queue, waiting = await self._prepare_source(source)
        if self._left is None:
            self._left = waiting
        outbound = await target.channel()
        if self.spec.ack_mode == ON_CONFIRM:
            await outbound.confirm()
        inbound = await source.channel()
        if self.spec.ack_mode != NO_ACK:
            await inbound.prefetch(self.spec.prefetch)
        delivery_buffer = DeliveryBuffer(f"leveret.{self.title}".encode("utf-8", "surrogateescape")[:200])
        relay = self._relay(delivery_buffer, inbound, outbound, source.shown, target.shown)
        relay.left = self._left
        transfer = Transfer(relay, inbound, outbound, queue, self.spec.prefetch or 1000)
        if self._left != 0:
            await self._consume(inbound, queue, delivery_buffer, transfer)
        else:
            transfer.ended.set_result(None)
        return transfer

    def end(self, transfer: Transfer) -> None:
        relay = transfer.relay
        if self._left is not None and self._left > 0:
            # What was not confirmed comes again.
            moved = relay.confirmed_total if self.spec.ack_mode == ON_CONFIRM else relay.forwarded_total
            self._left = max(0, self._left - moved)
        if transfer.next_offset is not None:
            self._next_offset = transfer.next_offset

    def _relay(
        self, delivery_buffer: DeliveryBuffer, inbound: Channel, outbound: Channel, source: str, target: str
    ) -> Relay:
        destination = self.spec.destination
        exchange, key, bits = destination.exchange, destination.key, 0
        if destination.queue is not None:
            # The shovel has made sure of the queue. If it is deleted meanwhile, the message comes back instead of
            # being dropped and confirmed.
            exchange, key, bits = "", destination.queue, MANDATORY
        entry = self._entry(source, target) if self.spec.add_forward_headers else None
        edit = shovel_edit(self.spec.publish_properties, entry, self._now_s if self.spec.add_timestamp_header else None)
        return Relay(
            delivery_buffer,
            inbound.codec,
            outbound.codec,
            RELAY_MODES[self.spec.ack_mode],
            short_string(exchange),
            short_string(key),
            bits,
            edit,
        )

    def _now_s(self) -> int:
        return Int64(int(self._wall()))

    def _entry(self, source: str, target: str) -> dict[str, Any]:
        """What x-shovelled says of this shovel; as RabbitMQ's."""
        entry = {
            "shovelled-by": self._cluster_name(),
            "shovel-type": self.kind,
            "shovel-name": self.name,
            "shovel-vhost": self.vhost,
            "src-uri": source,
            "dest-uri": target,
        }
        for side, end in (("src", self.spec.source), ("dest", self.spec.destination)):
            named = {"queue": end.queue, "exchange": end.exchange, "exchange-key": end.key}
            entry.update({f"{side}-{what}": value for what, value in named.items() if value is not None})
        return entry

    # ---- both ends

    async def _prepare_destination(self, target: Dialed) -> None:
        end = self.spec.destination
        if end.queue is not None and not end.predeclared:
            await ensure_queue(target, end)
        elif end.exchange:
            channel = await target.channel()
            await channel.call(ExchangeDeclare(end.exchange, passive=True))
            await channel.close()

    async def _prepare_source(self, source: Dialed) -> tuple[str, int]:
        """The queue to consume from and how many messages it has."""
        end = self.spec.source
        if end.queue is not None:
            return end.queue, await ensure_queue(source, end)
        channel = await source.channel()
        made = await channel.call(QueueDeclare(exclusive=True, arguments=dict(end.queue_arguments)))
        await channel.call(QueueBind(made.queue, end.exchange or "", end.key or ""))
        await channel.close()
        return made.queue, 0

    async def _consume(self, inbound: Channel, queue: str, delivery_buffer: DeliveryBuffer, transfer: Transfer) -> None:
        arguments = dict(self.spec.consumer_arguments)
        if self._next_offset is not None:
            arguments[STREAM_OFFSET] = self._next_offset
        await inbound.consume(
            queue,
            delivery_buffer,
            no_ack=self.spec.ack_mode == NO_ACK,
            arguments=arguments,
            on_cancel=transfer.cancelled,
        )


async def ensure_queue(dialed: Dialed, end: End) -> int:
    """How many messages the queue has. It is declared, durable, if it is missing and may be declared."""
    assert end.queue is not None
    channel = await dialed.channel()
    try:
        found = await channel.call(QueueDeclare(end.queue, passive=True))
    except ChannelClosed as error:
        if error.code != NOT_FOUND or end.predeclared:
            raise
        channel = await dialed.channel()
        found = await channel.call(QueueDeclare(end.queue, durable=True, arguments=dict(end.queue_arguments)))
    await channel.close()
    return int(found.message_count)


def short_string(text: str | None) -> bytes | None:
    """With its length before it; None stays None. Names were checked when the parameter was set."""
    if text is None:
        return None
    octets = text.encode("utf-8", "surrogateescape")
    return bytes((len(octets),)) + octets
