"""A federated exchange's link to one upstream: a queue there gathers what the bindings here want, and the link
publishes it into the exchange here.

At the upstream stand a durable queue and an internal exchange before it. The exchange is bound to the upstream's
exchange, and replaced by another one (A and B take turns) whenever the link connects, so that no binding is left over
from a time in which nobody followed."""

from __future__ import annotations

import hashlib
from typing import Any

from leveret.catalog.catalog import Catalog
from leveret.catalog.parameters import direct_vhost
from leveret.catalog.records import ExchangeRecord
from leveret.client.errors import ChannelClosed
from leveret.client.transport.channel import Channel
from leveret.client.url import parse_url
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.core.client.relay import Relay
from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.links.dialing import Dialed, Dialer
from leveret.links.federation.bindings import INTERNAL_PREFIX, UpstreamBindings, wanted_bindings
from leveret.links.federation.hops import Cluster, cluster_of, received_edit
from leveret.links.federation.upstreams import Upstream
from leveret.links.shovel import NOT_FOUND, RELAY_MODES, short_string
from leveret.links.shovel_spec import NO_ACK, ON_CONFIRM
from leveret.links.supervisor import LinkWork
from leveret.links.transfer import Transfer
from leveret.wire.exchange_methods import ExchangeDeclare, ExchangeDelete
from leveret.wire.queue_methods import QueueBind, QueueDeclare, QueueDelete

__all__ = ["ExchangeLinkWork", "upstream_vhost"]

PURPOSE = {"x-purpose": "federation"}
LOCAL_URIS = ("amqp://",)


class ExchangeLinkWork(LinkWork):
    kind = "exchange"

    def __init__(self, catalog: Catalog, record: ExchangeRecord, upstream: Upstream, ours: Cluster) -> None:
        self._catalog = catalog
        self.record = record
        self.upstream = upstream
        self._ours = ours
        self.title = f"Federation link (upstream: {upstream.name}, exchange: {record.name})"
        self.vhost = record.vhost
        self.source_uris = upstream.uris
        self.target_uris = LOCAL_URIS
        self.reconnect_delay_s = upstream.reconnect_delay_s
        self.remote_name = upstream.exchange or record.name
        self.queue_name = _queue_name(self.remote_name, ours, record.name)
        self._bindings: UpstreamBindings | None = None

    def bindings_changed(self) -> None:
        if self._bindings is not None:
            self._bindings.changed()

    async def begin(self, source: Dialed, target: Dialed) -> Transfer:
        upstream = cluster_of(source.link.server_properties, upstream_vhost(source.uri, self.vhost))
        control = await self._ensure_upstream(source)
        internal, former = await self._choose_internal(source)
        await control.call(QueueDeclare(self.queue_name, durable=True, arguments=self._queue_arguments()))
        await control.call(ExchangeDeclare(internal, "fanout", durable=True, internal=True))
        await control.call(QueueBind(self.queue_name, internal))
        bindings = UpstreamBindings(
            lambda: wanted_bindings(self._catalog, self.record, self._ours, upstream, self.upstream.max_hops)
        )
        await bindings.bind_all(control, self.remote_name, internal)
        if former is not None:
            await control.call(ExchangeDelete(former))
        transfer = await self._consume(source, target, upstream)
        self._bindings = bindings
        bindings.follow(control, self.remote_name, internal, transfer.fail)
        # What has changed since they were bound.
        bindings.changed()
        return transfer

    def end(self, transfer: Transfer) -> None:
        if self._bindings is not None:
            self._bindings.stop()
            self._bindings = None

    async def _consume(self, source: Dialed, target: Dialed, upstream: Cluster) -> Transfer:
        outbound, inbound = await target.channel(), await source.channel()
        mode = self.upstream.ack_mode
        if mode == ON_CONFIRM:
            await outbound.confirm()
        if mode != NO_ACK:
            await inbound.prefetch(self.upstream.prefetch)
        entry = {"uri": source.shown, "exchange": self.remote_name, **upstream.entry()}
        edit = received_edit(self._ours, entry, self.upstream.max_hops, self.upstream.trust_user_id)
        delivery_buffer = DeliveryBuffer(self.upstream.consumer_tag.encode("utf-8", "surrogateescape")[:200])
        relay = Relay(
            delivery_buffer,
            inbound.codec,
            outbound.codec,
            RELAY_MODES[mode],
            short_string(self.record.name),
            None,
            0,
            edit,
        )
        transfer = Transfer(relay, inbound, outbound, self.queue_name, self.upstream.prefetch or 1000)
        await inbound.consume(
            self.queue_name,
            delivery_buffer,
            no_ack=mode == NO_ACK,
            arguments=dict(PURPOSE),
            on_cancel=transfer.cancelled,
        )
        return transfer

    # ---- the upstream

    async def _ensure_upstream(self, source: Dialed) -> Channel:
        """The upstream's exchange is declared like the one here if it is missing."""
        if await _exists(source, self.remote_name):
            return await source.channel()
        control = await source.channel()
        record = self.record
        await control.call(
            ExchangeDeclare(
                self.remote_name,
                record.kind,
                durable=record.durable,
                auto_delete=record.auto_delete,
                arguments=dict(record.arguments),
            )
        )
        return control

    async def _choose_internal(self, source: Dialed) -> tuple[str, str | None]:
        """The internal exchange to make, and the former one if there is any."""
        first, second = self._internal_names()
        if await _exists(source, first):
            # Both are there if a link was cut off in the middle: the second is made anew.
            if await _exists(source, second):
                channel = await source.channel()
                await channel.call(ExchangeDelete(second))
                await channel.close()
            return second, first
        return first, second if await _exists(source, second) else None

    def _internal_names(self) -> tuple[str, str]:
        base = self.queue_name
        while len(f"{base} A".encode("utf-8", "surrogateescape")) > NAME_OCTETS_MAX:
            base = base[:-1]
        return f"{base} A", f"{base} B"

    def _queue_arguments(self) -> dict[str, Any]:
        upstream = self.upstream
        given = {
            "x-expires": upstream.expires_ms,
            "x-message-ttl": upstream.message_ttl_ms,
            "x-queue-type": upstream.queue_type,
        }
        return {name: value for name, value in given.items() if value is not None}

    async def remove(self, dialer: Dialer) -> None:
        """The link is not wanted any more: neither are its queue and exchanges at the upstream. Raises ClientError."""
        if not self.upstream.cleans_up:
            return
        source, _ = await dialer.dial(self.source_uris, 0, self.vhost, self.title)
        try:
            channel = await source.channel()
            await channel.call(QueueDelete(self.queue_name))
            for name in self._internal_names():
                await channel.call(ExchangeDelete(name))
        finally:
            await source.link.close(2.0)


async def _exists(source: Dialed, exchange: str) -> bool:
    channel = await source.channel()
    try:
        await channel.call(ExchangeDeclare(exchange, passive=True))
    except ChannelClosed as error:
        if error.code != NOT_FOUND:
            raise
        return False
    await channel.close()
    return True


def upstream_vhost(uri: str, vhost: str) -> str:
    local = direct_vhost(uri)
    return parse_url(uri.partition("?")[0]).vhost if local is None else local or vhost


def _queue_name(remote: str, ours: Cluster, exchange: str) -> str:
    """Known to this downstream alone, and the same after a restart."""
    name = f"{INTERNAL_PREFIX}{remote} -> {ours.id or ours.name}:{ours.vhost}:{exchange}"
    if len(name.encode("utf-8", "surrogateescape")) <= NAME_OCTETS_MAX - 2:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return f"{INTERNAL_PREFIX}{digest} -> {(ours.id or ours.name)[:64]}"
