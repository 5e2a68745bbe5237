"""What becomes of consumers whose queue may no longer be read: RabbitMQ lets them go on, here they end.

A client that understands it is told with basic.cancel, and keeps what was delivered; another one's channel is closed
with 403."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.auth.access import READ
from leveret.errors import SoftError

if TYPE_CHECKING:
    from leveret.session.channel import ChannelSession


def end_unreadable(channel_session: ChannelSession) -> None:
    session = channel_session.session
    for tag, consumer in list(channel_session.core.consumers.items()):
        queue = consumer.queue
        if queue.record is None:
            # Direct reply-to: a reply requires no permission.
            continue
        try:
            channel_session.access.check_queue(READ, queue.record.name)
        except SoftError as refusal:
            if not session.client_can("consumer_cancel_notify"):
                session.close_channel(channel_session, refusal)
                return
            channel_session.consumer_lost(tag)
            session.topology.consumer_left(channel_session.vhost, queue)
