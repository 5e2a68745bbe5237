"""What operators see of a stream client's publishers and subscriptions: plain values of this moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.broker.connected import SINGLE_ACTIVE, UP, WAITING, ConsumerInfo, PublisherInfo, SubscriptionInfo
from leveret.core.stream.publish_path import StreamPublisher
from leveret.session.stream.subscription import Subscription

if TYPE_CHECKING:
    from leveret.session.stream.session import StreamSession


def seen_publisher(session: StreamSession, publisher: StreamPublisher) -> PublisherInfo:
    return PublisherInfo(
        connection=session,
        id=publisher.id,
        stream=publisher.stream.record.name,
        reference=(publisher.reference or b"").decode("utf-8", "replace"),
        published_total=publisher.published_total,
        confirmed_total=publisher.confirmed_total,
        refused_total=getattr(publisher, "refused_total", 0),
    )


def seen_subscription(session: StreamSession, subscription: Subscription) -> SubscriptionInfo:
    core = subscription.core
    cursor = core.cursor
    offset = None if cursor is None else int(cursor.offset)
    end = int(subscription.stream.committed_offset)
    return SubscriptionInfo(
        connection=session,
        id=core.id,
        stream=subscription.stream_name,
        credit=core.credit,
        offset=offset,
        offset_lag=0 if offset is None else max(0, end - offset),
        consumed_total=core.messages_total,
        active=is_active(subscription),
        properties=subscription.properties,
    )


def seen_stream_consumer(session: StreamSession, subscription: Subscription) -> ConsumerInfo:
    """The same as a consumer among those of other protocols; its credit stands in for a prefetch."""
    active = is_active(subscription)
    alone = SINGLE_ACTIVE if subscription.group is not None else UP
    return ConsumerInfo(
        connection=session,
        channel_number=0,
        tag=f"stream.subid-{subscription.core.id}",
        vhost=session.vhost.name,
        queue=subscription.stream_name,
        ack_required=False,
        exclusive=False,
        prefetch_count=subscription.core.credit,
        arguments=dict(subscription.properties),
        active=active,
        activity_status=alone if active else WAITING,
        ack_timeout_ms=None,
    )


def is_active(subscription: Subscription) -> bool:
    return subscription.group is None or subscription.active
