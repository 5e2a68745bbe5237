"""Publisher confirms of one channel: which publishes were taken, which are on disk, and what the client was told.

Acks gather and go out as one `multiple`; a nack goes out at once. Never publishes anything. The base of the publish
path, called by it, by the connection when a chunk is used up, and by the journal when a batch is synced."""

import cython

from leveret.core.log.batch import Publisher

if not cython.compiled:
    from leveret.core.codec.content import write_confirm
    from leveret.core.codec.method_ids import ACK, NACK


class Confirms(Publisher):
    def __init__(self, channel, write_buffer, journal):
        Publisher.__init__(self)
        self.channel = channel
        self.write_buffer = write_buffer
        # Where durable queues keep their messages; None if there is no disk behind this broker.
        self.journal = journal
        self.confirming = False
        # True while the connection has this channel on its list of those that owe confirms.
        self.owing = False
        self.publish_seq = 0
        self.confirmed_seq = 0
        self.confirmed_total = 0
        self.nacked = None

    def start_confirming(self):
        self.confirming = True

    def confirm(self, message, refused, known):
        """Counts the publish; acks gather until flush_confirms, a nack goes out at once, after what came before it."""
        if refused:
            self.flush_confirms()
            if self.confirmed_seq == self.publish_seq:
                self.confirmed_seq += 1
            else:
                # A later ack covers its number as well, and must not count it.
                if self.nacked is None:
                    self.nacked = []
                self.nacked.append(self.publish_seq + 1)
            self.publish_seq += 1
            return write_confirm(self.write_buffer, self.channel, NACK, self.publish_seq, 0)
        self.publish_seq += 1
        self.accepted_seq = self.publish_seq
        if self.journal is not None:
            if self.journal.current is message or self.journal.beside_message is message:
                self.journal.await_batch(self)
            elif known:
                # The first of its kind may not be on disk yet, and what is confirmed must be.
                self.journal.await_batch(self)
                self.journal.want_commit()
        return 0

    def flush_confirms(self):
        """One ack for everything that was taken since the last one, unless some of it is not on disk yet: then the
        journal calls when it is."""
        if self.journal is None or self.awaited_batch <= self.journal.synced_batch:
            self.acknowledge(self.accepted_seq)

    def synced(self, batch, accepted_seq):
        if self.confirming:
            # Nothing of a later batch: then what followed without a record of its own is safe as well.
            self.acknowledge(self.accepted_seq if self.awaited_batch <= batch else accepted_seq)
        return 0

    def acknowledge(self, upto_seq):
        if self.confirmed_seq < upto_seq:
            count = upto_seq - self.confirmed_seq
            write_confirm(self.write_buffer, self.channel, ACK, upto_seq, count > 1)
            self.confirmed_seq = upto_seq
            while self.nacked and self.nacked[0] <= upto_seq:
                del self.nacked[0]
                count -= 1
            self.confirmed_total += count
        return 0
