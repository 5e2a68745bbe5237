"""A federated queue's link to one upstream: takes messages from the upstream's queue while consumers here have room
and nothing waits here, and publishes them into the queue here.

Otherwise its consumer is cancelled, and what was on its way goes back: consumers at the upstream come first."""

from __future__ import annotations

import asyncio

from leveret.broker.broker import Broker
from leveret.catalog.records import QueueRecord
from leveret.client.errors import ClientError
from leveret.core.client.channel_codec import DeliveryBuffer
from leveret.core.client.outgoing import MANDATORY
from leveret.core.client.relay import Relay
from leveret.links.dialing import Dialed, Dialer
from leveret.links.federation.exchange_link import LOCAL_URIS, PURPOSE, upstream_vhost
from leveret.links.federation.hops import Cluster, cluster_of, received_edit
from leveret.links.federation.upstreams import Upstream
from leveret.links.shovel import RELAY_MODES, short_string
from leveret.links.shovel_spec import NO_ACK, ON_CONFIRM
from leveret.links.supervisor import LinkWork
from leveret.links.transfer import Transfer
from leveret.wire.queue_methods import QueueDeclare

__all__ = ["QueueLinkWork"]

# How often it is looked whether consumers here have room.
LOOK_S = 0.05
# Of so many consumers it is asked.
CONSUMERS_ASKED_MAX = 64
PRIORITY = {"x-priority": -1}


class QueueLinkWork(LinkWork):
    kind = "queue"

    def __init__(self, broker: Broker, record: QueueRecord, upstream: Upstream, ours: Cluster) -> None:
        self._broker = broker
        self.record = record
        self.upstream = upstream
        self._ours = ours
        self.title = f"Federation link (upstream: {upstream.name}, queue: {record.name})"
        self.vhost = record.vhost
        self.source_uris = upstream.uris
        self.target_uris = LOCAL_URIS
        self.reconnect_delay_s = upstream.reconnect_delay_s
        self.remote_name = upstream.queue or record.name
        self._task: asyncio.Task[None] | None = None

    def bindings_changed(self) -> None:
        """A queue's link does not mind."""

    async def begin(self, source: Dialed, target: Dialed) -> Transfer:
        upstream = cluster_of(source.link.server_properties, upstream_vhost(source.uri, self.vhost))
        outbound, inbound = await target.channel(), await source.channel()
        await inbound.call(QueueDeclare(self.remote_name, passive=True))
        mode = self.upstream.ack_mode
        if mode == ON_CONFIRM:
            await outbound.confirm()
        if mode != NO_ACK:
            await inbound.prefetch(self.upstream.prefetch)
        entry = {"uri": source.shown, "queue": self.remote_name, **upstream.entry()}
        edit = received_edit(self._ours, entry, None, self.upstream.trust_user_id)
        delivery_buffer = DeliveryBuffer(self.upstream.consumer_tag.encode("utf-8", "surrogateescape")[:200])
        relay = Relay(
            delivery_buffer,
            inbound.codec,
            outbound.codec,
            RELAY_MODES[mode],
            short_string(""),
            short_string(self.record.name),
            MANDATORY,
            edit,
        )
        transfer = Transfer(relay, inbound, outbound, self.remote_name, self.upstream.prefetch or 1000)
        self._task = asyncio.get_running_loop().create_task(self._follow(transfer))
        return transfer

    def end(self, transfer: Transfer) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def remove(self, dialer: Dialer) -> None:
        """There is nothing of this link's own at the upstream."""

    async def _follow(self, transfer: Transfer) -> None:
        consuming = False
        try:
            while True:
                if self._has_room() != consuming:
                    consuming = not consuming
                    if consuming:
                        await transfer.consume(
                            no_ack=self.upstream.ack_mode == NO_ACK, arguments={**PURPOSE, **PRIORITY}
                        )
                    else:
                        await transfer.give_back()
                await asyncio.sleep(LOOK_S)
        except ClientError as error:
            transfer.fail(error)

    def _has_room(self) -> bool:
        """Whether a consumer here could take a message and none waits for it. Links of others are no consumers: two
        brokers would pass a message to and fro."""
        live = self._broker.vhosts.get(self.vhost)
        queue = None if live is None else live.queues.get(self.record.name.encode("utf-8", "surrogateescape"))
        if queue is None or queue.ready_count():
            return False
        asked = zip(queue.subscribers or (), range(CONSUMERS_ASKED_MAX), strict=False)
        return any(
            one.active and one.can_take() and one.arguments().get("x-purpose") != PURPOSE["x-purpose"]
            for one, _ in asked
        )
