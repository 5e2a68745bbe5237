"""What operators see of a connection, its channels and its consumers: plain values of this moment.

Only reads. Called by sessions, for whoever asks them through broker/connected.py; nothing here runs for a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leveret.broker.connected import (
    BLOCKED,
    BLOCKING,
    FLOW,
    RUNNING,
    SINGLE_ACTIVE,
    UP,
    WAITING,
    SeenChannel,
    SeenConnection,
    SeenConsumer,
    SeenTls,
)
from leveret.core.ack_watch import effective_timeout
from leveret.core.consumer import Consumer
from leveret.core.stream.consumer import StreamConsumer

if TYPE_CHECKING:
    from leveret.session.channel import ChannelDesk
    from leveret.session.life import ConnectionLife


def seen_connection(session: ConnectionLife[Any]) -> SeenConnection:
    core, outbox = session.core, session.outbox
    return SeenConnection(
        name=session.name,
        protocol=session.protocol,
        user=session.user,
        vhost=session.vhost.name,
        peer_host=session.peer[0],
        peer_port=session.peer[1],
        host=session.local[0],
        port=session.local[1],
        connected_at=session.connected_at,
        mechanism=session.mechanism,
        client_properties=session.client_properties,
        channel_max=session.channel_max,
        frame_max=session.frame_max,
        heartbeat_s=session.heartbeat_s,
        state=_state(session),
        tls=_tls(session),
        channel_count=session.channel_count,
        received_bytes=core.bytes_received,
        received_count=core.chunks_received,
        sent_bytes=outbox.bytes_sent,
        sent_count=getattr(outbox, "sends_total", 0),
        pending_bytes=outbox.pending(),
    )


def _state(session: ConnectionLife[Any]) -> str:
    if session.is_blocked:
        return BLOCKED
    if session.held_up:
        return FLOW
    return BLOCKING if session.core.alarmed else RUNNING


def _tls(session: ConnectionLife[Any]) -> SeenTls | None:
    peer = getattr(session.pump, "tls", None)
    if peer is None:
        return None
    return SeenTls(
        peer.protocol,
        peer.key_exchange,
        peer.cipher,
        peer.hash,
        peer.certificate_subject,
        peer.certificate_issuer,
        peer.certificate_validity,
    )


def seen_channel(desk: ChannelDesk) -> SeenChannel:
    core = desk.core
    intake = core.intake
    return SeenChannel(
        connection=desk.session,
        number=desk.number,
        core=core,
        state=RUNNING if core.flowing else FLOW,
        prefetch_count=desk.prefetch_count,
        global_prefetch_count=core.prefetch_count,
        confirming=bool(intake.confirming),
        transactional=intake.pending is not None,
        consumer_count=len(core.consumers),
        unacked_count=core.unacked.count,
        unconfirmed_count=intake.publish_seq - intake.confirmed_seq if intake.confirming else 0,
        uncommitted_count=len(intake.pending) if intake.pending is not None else 0,
        uncommitted_acks=sum(len(entries) for entries, _ in core.pending or ()),
    )


def seen_consumer(desk: ChannelDesk, consumer: Consumer) -> SeenConsumer:
    queue = consumer.queue
    # A direct reply-to address is no queue of the catalog.
    name = queue.name.decode("utf-8", "surrogateescape") if queue.record is None else queue.record.name
    timeout_ms = 0 if consumer.no_ack else _timeout_ms(desk, consumer)
    status = SINGLE_ACTIVE if queue.single_active and consumer.active else UP if is_active(consumer) else WAITING
    return SeenConsumer(
        connection=desk.session,
        channel_number=desk.number,
        tag=consumer.tag.decode("utf-8", "surrogateescape"),
        vhost=desk.vhost.name,
        queue=name,
        ack_required=not consumer.no_ack,
        exclusive=bool(consumer.exclusive),
        prefetch_count=consumer.prefetch_count,
        arguments=consumer.arguments,
        active=is_active(consumer),
        activity_status=status,
        ack_timeout_ms=timeout_ms or None,
        unacked_count=consumer.unacked_count,
    )


def is_active(consumer: Consumer) -> bool:
    """Whether it gets messages: not while another one of its group of stream consumers, or of its queue, does."""
    if isinstance(consumer, StreamConsumer):
        return consumer.cursor is not None
    return bool(consumer.active)


def _timeout_ms(desk: ChannelDesk, consumer: Consumer) -> int:
    found: int = effective_timeout(consumer.ack_timeout_ms, consumer.queue, desk.session.settings.ack_timeout_ms)
    return found
