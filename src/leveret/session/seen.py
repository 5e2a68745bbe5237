"""What operators see of a connection, its channels and its consumers: plain values of this moment.

Only reads. Called by sessions, on requests through broker/connected.py; nothing here runs for a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leveret.broker.connected import (
    BLOCKED,
    BLOCKING,
    CLOSING,
    FLOW,
    RUNNING,
    SINGLE_ACTIVE,
    UP,
    WAITING,
    ChannelInfo,
    ConnectionInfo,
    ConsumerInfo,
    TlsInfo,
    connection_name,
)
from leveret.core.codec.names import name_text
from leveret.core.connection.ack_watch import effective_timeout
from leveret.core.connection.consumer import Consumer
from leveret.core.stream.consumer import StreamConsumer

if TYPE_CHECKING:
    from leveret.session.channel import ChannelSession
    from leveret.session.protocol_session import ProtocolSession


def seen_connection(session: ProtocolSession[Any]) -> ConnectionInfo:
    core, write_buffer = session.core, session.write_buffer
    return ConnectionInfo(
        name=session.name or connection_name(session.peer, session.transport.local),
        protocol=session.protocol,
        user=session.user,
        vhost=session.vhost_name,
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
        sent_bytes=write_buffer.bytes_sent,
        sent_count=getattr(write_buffer, "sends_total", 0),
        pending_bytes=write_buffer.pending(),
        last_heartbeat_ms=session.last_heartbeat_ms or None,
    )


def _state(session: ProtocolSession[Any]) -> str:
    if session.is_closing:
        return CLOSING
    if not session.is_open:
        return session.handshake_state
    if session.is_blocked:
        return BLOCKED
    if session.held_up:
        return FLOW
    return BLOCKING if session.core.alarmed else RUNNING


def _tls(session: ProtocolSession[Any]) -> TlsInfo | None:
    peer = getattr(session.transport, "tls", None)
    if peer is None:
        return None
    return TlsInfo(
        peer.protocol,
        peer.key_exchange,
        peer.cipher,
        peer.hash,
        peer.certificate_subject,
        peer.certificate_issuer,
        peer.certificate_validity,
    )


def seen_channel(channel_session: ChannelSession) -> ChannelInfo:
    core = channel_session.core
    publish_path = core.publish_path
    return ChannelInfo(
        connection=channel_session.session,
        number=channel_session.number,
        core=core,
        state=RUNNING if core.flowing else FLOW,
        prefetch_count=channel_session.prefetch_count,
        global_prefetch_count=core.prefetch_count,
        confirming=bool(publish_path.confirming),
        transactional=publish_path.pending is not None,
        consumer_count=len(core.consumers),
        unacked_count=core.unacked.count,
        unconfirmed_count=publish_path.publish_seq - publish_path.confirmed_seq if publish_path.confirming else 0,
        uncommitted_count=len(publish_path.pending) if publish_path.pending is not None else 0,
        uncommitted_acks=sum(len(entries) for entries, _ in core.pending or ()),
        prefetch_bytes=channel_session.prefetch_bytes,
        global_prefetch_bytes=core.prefetch_bytes,
        next_publish_seq=publish_path.publish_seq + 1 if publish_path.confirming else 0,
    )


def seen_consumer(channel_session: ChannelSession, consumer: Consumer) -> ConsumerInfo:
    queue = consumer.queue
    # A direct reply-to address is no queue of the catalog.
    name = name_text(queue.name) if queue.record is None else queue.record.name
    timeout_ms = 0 if consumer.no_ack else _timeout_ms(channel_session, consumer)
    status = SINGLE_ACTIVE if queue.single_active and consumer.active else UP if is_active(consumer) else WAITING
    return ConsumerInfo(
        connection=channel_session.session,
        channel_number=channel_session.number,
        tag=name_text(consumer.tag),
        vhost=channel_session.vhost.name,
        queue=name,
        ack_required=not consumer.no_ack,
        exclusive=bool(consumer.exclusive),
        prefetch_count=consumer.prefetch_count,
        arguments=consumer.arguments(),
        active=is_active(consumer),
        activity_status=status,
        ack_timeout_ms=timeout_ms or None,
        unacked_count=consumer.unacked_count,
        prefetch_bytes=consumer.prefetch_bytes,
    )


def is_active(consumer: Consumer) -> bool:
    """Whether it gets messages: not while another one of its group of stream consumers, or of its queue, does."""
    if isinstance(consumer, StreamConsumer):
        return consumer.cursor is not None
    return bool(consumer.active)


def _timeout_ms(channel_session: ChannelSession, consumer: Consumer) -> int:
    found: int = effective_timeout(
        consumer.ack_timeout_ms, consumer.queue, channel_session.session.settings.ack_timeout_ms
    )
    return found
