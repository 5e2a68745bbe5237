"""A consumer of a stream: reads at its own place and pace, is sent no more than it has credit for, and stops where it
asked to.

A pure machine: what it reads comes through its cursor, what it sends goes into the channel's write buffer."""

from collections import deque

import cython

from leveret.core.codec.message import make_message
from leveret.core.codec.properties import parse_properties
from leveret.core.connection.consumer import Consumer
from leveret.core.stream.expanding import expansions_of

if not cython.compiled:
    from leveret.core.codec.content import write_deliver
    from leveret.core.codec.pure_octets import read_u16, read_u32, read_u64, take
    from leveret.core.log.records import MESSAGE_HEAD_BYTES
    from leveret.core.queue.contract import make_entry
    from leveret.core.stream.content import message_at, with_offset, write_entry
    from leveret.core.stream.log import RAW, SUBBATCH

NEVER = 0xFFFFFFFFFFFFFFFF
NO_PROPERTIES = parse_properties(b"\x00\x00")


class StreamConsumer(Consumer):
    def __init__(self, channel, queue, tag, prefetch_count, prefetch_bytes, arguments):
        Consumer.__init__(self, channel, queue, tag, False, False, 0, prefetch_count, prefetch_bytes, arguments)
        self.stream = queue
        self.ack_timeout_ms = 0
        # None before it is known where it starts, while another of its group reads, and after the end.
        self.cursor = None
        # Whether that end has come. Where it stops, and who is told of that, and of its end, whatever the reason.
        self.ended = False
        self.stop_offset = NEVER
        self.on_stop = None
        self.on_gone = None
        # Called once nothing of what it got is unacked any more.
        self.on_drained = None
        # Under this name the stream keeps how far it has come; None if it does not.
        self.name = None
        # What it holds, in order, and what of it was acknowledged before its turn.
        self.held = deque()
        self.early = set()
        # The filter values that it wants, None if it wants everything.
        self.values = None
        self.blooms = None
        self.unfiltered = False
        # Whether its messages say when they came.
        self.stamped = False
        # The sub-batch that it is in, and the number of the next message there; None if it is in none. How much it has
        # done since its turn began.
        self.expansion = None
        self.expansion_at = 0
        self.steps = 0
        # Stands in for messages among what is unacked, where only their size matters.
        self.blank = make_message(b"", NO_PROPERTIES, b"")
        self.waiting = True

    # ---- start and stop

    def begin(self, offset):
        """Reads from here on, unless it has ended while that was looked up."""
        if self.ended:
            return
        self.pause()
        # What it got earlier and did not acknowledge comes again.
        self.held.clear()
        self.early.clear()
        self.cursor = self.stream.open_cursor(self, offset, self.blooms, self.unfiltered)
        self.transport()

    def pause(self):
        """Sends nothing more; `begin` goes on, wherever it says."""
        if self.cursor is not None:
            self.cursor.close()
            self.cursor = None
        self.expansion = None

    def drain(self, done):
        """Sends nothing more, and calls `done` once all that was sent is settled."""
        self.pause()
        if self.unacked_count == 0:
            done()
        else:
            self.on_drained = done

    def stop(self):
        self.ended = True
        self.pause()
        self.on_stop = None
        self.on_drained = None
        on_gone = self.on_gone
        self.on_gone = None
        if on_gone is not None:
            on_gone()

    def finish(self):
        """All that was asked for is sent."""
        on_stop = self.on_stop
        self.stop()
        if on_stop is not None:
            on_stop(self)
        return 0

    # ---- sending

    def go_on(self):
        """There is credit again."""
        self.waiting = True
        return self.transport()

    def cursor_ready(self):
        """There is something to read again."""
        self.transport()

    def transport(self):
        self.steps = 0
        while self.cursor is not None:
            if not self.can_take():
                if self.waiting:
                    self.park()
                return 0
            if self.expansion is not None:
                if self.send_expanded() == 0:
                    return 0
                continue
            cursor = self.cursor
            if cursor.offset >= self.stop_offset:
                return self.finish()
            if not cursor.ready():
                return 0
            p = cursor.p
            at = cursor.at
            if self.values is not None and not self.wants(cursor):
                cursor.step()
            elif p[at + 17] & (RAW | SUBBATCH):
                self.expand()
                cursor.step()
            elif read_u64(p, at + 8) >= self.stop_offset:
                return self.finish()
            else:
                self.send(cursor)
                cursor.step()
        return 0

    def wants(self, cursor):
        """Whether the entry has one of the filter values that it asked for."""
        p = cursor.p
        at = cursor.at
        end = at + MESSAGE_HEAD_BYTES + read_u16(p, at + 18) + read_u32(p, at + 24) + read_u32(p, at + 28)
        if end == at + cursor.length:
            return self.unfiltered
        return take(p, end, at + cursor.length) in self.values

    def hold_offset(self, offset, size):
        """The message at this offset is sent with the next tag, and unacked from now on."""
        channel = self.channel
        channel.last_tag += 1
        channel.delivered_total += 1
        self.delivered_total += 1
        self.stream.delivered_total += 1
        self.waited = 0
        if self.blank.body_size != size:
            self.blank = make_message(b"", NO_PROPERTIES, b"")
            self.blank.body_size = size
        channel.hold(make_entry(self.blank, offset), self)
        if self.name is not None:
            self.held.append(offset)
        return 0

    def send(self, cursor):
        p = cursor.p
        at = cursor.at
        self.hold_offset(read_u64(p, at + 8), read_u32(p, at + 28))
        channel = self.channel
        if channel.publish_path.trace is not None:
            message = message_at(cursor.data, at)
            channel.publish_path.trace.delivered(self.queue, message, message.body, False)
        payload_max = channel.publish_path.payload_max
        return write_entry(
            channel.write_buffer,
            channel.number,
            self.prefix,
            channel.last_tag,
            cursor.data,
            at,
            payload_max,
            self.stamped,
        )

    def send_message(self, offset, message):
        self.hold_offset(offset, message.body_size)
        channel = self.channel
        if channel.publish_path.trace is not None:
            channel.publish_path.trace.delivered(self.queue, message, message.body, False)
        payload_max = channel.publish_path.payload_max
        dressed = with_offset(message, offset, self.stamped)
        return write_deliver(
            channel.write_buffer, channel.number, self.prefix, channel.last_tag, False, dressed, payload_max
        )

    def expand(self):
        """The entry is of the stream protocol: its messages go out as ones of this protocol."""
        cursor = self.cursor
        self.expansion = expansions_of(self.stream.office).find(
            self.stream.log.id, cursor.data, cursor.at, cursor.offset
        )
        self.expansion_at = max(cursor.offset - self.expansion.first, 0)
        return 0

    def send_expanded(self):
        """One step through the sub-batch: false if the next must wait, or nothing is left to do."""
        expansions = expansions_of(self.stream.office)
        if expansions.is_waiting(self) or not expansions.spend(self, self.steps):
            return 0
        self.steps += 1
        offset = self.expansion.first + self.expansion_at
        if offset >= self.stop_offset:
            self.finish()
            return 0
        if self.expansion_at < self.expansion.base:
            # Others are ahead of it by more than is kept.
            self.expansion = self.expansion.from_start()
        message = self.expansion.fetch(self.expansion_at)
        if message is not None:
            self.expansion_at += 1
            self.send_message(offset, message)
        elif self.expansion.over:
            self.expansion = None
        return 1

    # ---- acks

    def settled(self, offset):
        """The message at this offset is done with: if none before it is still held, the stream remembers that."""
        if self.name is not None:
            self.remember(offset)
        if self.on_drained is not None and self.unacked_count == 0:
            done = self.on_drained
            self.on_drained = None
            done()
        return 0

    def remember(self, offset):
        if not self.held or offset < self.held[0]:
            # Of an earlier turn: what counts is done with already, or comes again.
            return 0
        if offset > self.held[0]:
            self.early.add(offset)
            return 0
        self.held.popleft()
        while self.held and self.held[0] in self.early:
            offset = self.held.popleft()
            self.early.discard(offset)
        # Never back: another one of its group may be further by now.
        if not self.stream.deleted and offset > self.stream.stored_offset(self.name):
            self.stream.store_offset(self.name, offset)
        return 0
