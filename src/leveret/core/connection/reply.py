"""A direct reply-to address: a queue that keeps nothing and hands each reply straight to its one consumer.

What the consumer's connection cannot take any more is dropped and counted: replies are at most once, as in RabbitMQ."""

import cython

from leveret.core.queue.contract import Queue

if not cython.compiled:
    from leveret.core.queue.contract import ACCEPTED

# Replies for a client that does not read are dropped once this much waits for it.
REPLY_BYTES_MAX = 16777216


class ReplyQueue(Queue):
    def __init__(self, name):
        Queue.__init__(self, name, None)
        self.consumer = None
        self.delivered_total = 0
        self.dropped_total = 0

    def publish(self, message):
        if self.consumer is None or self.consumer.channel.write_buffer.pending() > REPLY_BYTES_MAX:
            self.dropped_total += 1
        else:
            self.delivered_total += 1
            self.consumer.hand(message, False)
        return ACCEPTED

    def subscribe(self, subscriber):
        self.consumer = subscriber
        self.subscribers = {subscriber: True}

    def unsubscribe(self, subscriber):
        self.consumer = None
        self.subscribers = None
