"""What becomes of consumers whose queue may no longer be read: RabbitMQ lets them go on, here they end.

A client that understands it is told with basic.cancel, and keeps what was delivered; another one's channel is closed
with 403."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.broker.access import READ
from leveret.errors import SoftError

if TYPE_CHECKING:
    from leveret.session.channel import ChannelDesk


def end_unreadable(desk: ChannelDesk) -> None:
    session = desk.session
    for tag, consumer in list(desk.core.consumers.items()):
        queue = consumer.queue
        if queue.record is None:
            # Direct reply-to: nobody needs a right to be answered.
            continue
        try:
            desk.access.check_queue(READ, queue.record.name)
        except SoftError as refusal:
            if not session.client_can("consumer_cancel_notify"):
                session.close_channel(desk, refusal)
                return
            desk.consumer_lost(tag)
            session.topology.consumer_left(desk.vhost, queue)
