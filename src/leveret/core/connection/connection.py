"""One connection's bytes in: frames are cut out of chunks and the data plane runs on them, a whole chunk in one call.

`feed` works through a chunk until it is used up or a control method comes, which it returns as
(channel, method id, arguments); the caller handles it and calls `proceed` for the rest. So a caller that must wait
simply does not proceed yet: it calls `detach`, which copies the unread rest. It also has to wait when `proceed` says
UNFINISHED, because the meter is over (somebody else's turn has come), or CONGESTED, because the disk is far behind.
Errors are raised with the frame already consumed: the caller closes what must be closed and proceeds. Never touches a
socket."""

import cython

from leveret.core.codec.carry import Carry
from leveret.core.codec.wording import frame_problem
from leveret.core.observe.meter import Meter
from leveret.errors import HardError

if not cython.compiled:
    from leveret.core.codec.method_ids import ACK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK, CHANNEL_OPEN, NACK, PUBLISH, REJECT
    from leveret.core.codec.pure_octets import read_u16, read_u32, take
    from leveret.core.connection.channel import OPEN, wake
    from leveret.core.connection.publish_path import IDLE, ROUTING, WANT_BODY, WANT_HEADER
    from leveret.core.observe.meter import OCTETS_SHIFT

FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_HEARTBEAT = 8
FRAME_END = 0xCE
# Octets of a frame beside its payload: type, channel, size; and the end mark.
FRAME_HEAD = 7
FRAME_OVERHEAD = 8


# Why the rest of a chunk has to wait.
UNFINISHED = "unfinished"
CONGESTED = "congested"


class Connection(Carry):
    def __init__(self, write_buffer, frame_max, channel_max, meter=None, journal=None, office=None):
        Carry.__init__(self)
        self.meter = meter if meter is not None else Meter()
        # None if there is no disk behind this broker.
        self.journal = journal
        # The channel whose last frame is not done with, because the meter was over; None if all are.
        self.unfinished = None
        self.write_buffer = write_buffer
        self.frame_max = frame_max
        self.channel_max = channel_max
        # By number. The one used last is kept at hand: clients rarely change channel from frame to frame.
        self.channels = {}
        self.last_number = 0
        self.last_channel = None
        self.confirming = []
        # After connection.close was sent only its answer counts; the rest is skipped unread.
        self.muted = False
        # A publish came since the session last looked.
        self.published = False
        # While an alarm holds, the session wants to see a publish, begun or gone on with, before anything more is read.
        self.alarmed = False
        # The channel of the frame being worked on, so that whoever catches an error knows where it belongs.
        self.current = 0
        self.frames_received = 0
        # Whose time it is, and when the last heartbeat came, in milliseconds of the wall clock; 0 if none did.
        self.office = office
        self.last_heartbeat_ms = 0

    # ---- chunks

    def feed(self, data, size):
        """Takes the first `size` octets of data, which must stay as they are until the chunk is used up or detached."""
        self.take_chunk(data, size)
        return self.proceed()

    def proceed(self):
        """Goes on with the chunk: a control method; UNFINISHED or CONGESTED; or None when the chunk is used up."""
        meter = self.meter
        event = self.go_on() if self.unfinished is not None else None
        while event is None:
            if self.partial_size > 0:
                if not self.complete_partial():
                    break
                p = self.partial
                size = self.partial_size
                if self.must_hold(p[0]):
                    event = CONGESTED
                    break
                self.partial_size = 0
                event = self.frame(p, 0, size)
            else:
                p = self.p
                at = self.at
                if self.end - at < FRAME_HEAD:
                    break
                size = self.check_frame(p, at)
                if self.end - at < size:
                    break
                if self.must_hold(p[at]):
                    event = CONGESTED
                    break
                self.at = at + size
                event = self.frame(p, at, at + size)
            meter.spent += 1 + (size >> OCTETS_SHIFT)
            if meter.spent >= meter.limit and event is None and self.at < self.end:
                event = UNFINISHED
        if event is None:
            self.keep_partial()
        if self.confirming and (event is None or event is UNFINISHED or event is CONGESTED):
            self.flush_confirms()
        return event

    def must_hold(self, kind):
        """Whether this frame may complete a message that the log cannot take yet."""
        if self.journal is None or not self.journal.overfull:
            return False
        return (kind == FRAME_HEADER or kind == FRAME_BODY) and not self.muted

    def go_on(self):
        """Goes on with the frame that was left in the middle: UNFINISHED if that is still not done."""
        channel = self.unfinished
        self.unfinished = None
        if self.muted or channel.state != OPEN:
            return None
        self.current = channel.number
        if channel.publish_path.stage == ROUTING:
            channel.publish_path.go_on()
            return self.content_ended(channel)
        if channel.settled_upto > 0:
            channel.go_on_settling()
        return self.settling_ended(channel)

    def content_ended(self, channel):
        publish_path = channel.publish_path
        if publish_path.stage == ROUTING:
            self.unfinished = channel
            return UNFINISHED
        if publish_path.confirming and not publish_path.owing:
            publish_path.owing = True
            self.confirming.append(publish_path)
        return None

    def settling_ended(self, channel):
        if channel.settled_upto > 0:
            self.unfinished = channel
            return UNFINISHED
        return None

    def check_frame(self, p, at):
        """The whole frame's size as its head declares it, refused before anything is kept if it is too large."""
        kind = p[at]
        size = read_u32(p, at + 3)
        # Like RabbitMQ, forgiving by the eight octets around the payload.
        if size > self.frame_max:
            problem = f"{{frame_too_large,{size},{self.frame_max - FRAME_OVERHEAD}}}"
            raise HardError(501, frame_problem(kind, b"", problem))
        return size + FRAME_OVERHEAD

    def complete_partial(self):
        """Adds to the frame that began in an earlier chunk; true once it is whole."""
        return self.fill_partial(FRAME_HEAD) and self.fill_partial(self.check_frame(self.partial, 0))

    # ---- frames

    def frame(self, p, at, end):
        kind = p[at]
        if p[end - 1] != FRAME_END:
            problem = f"{{invalid_frame_end_marker,{p[end - 1]}}}"
            raise HardError(501, frame_problem(kind, take(p, at + FRAME_HEAD, end - 1), problem))
        self.frames_received += 1
        number = read_u16(p, at + 1)
        self.current = number
        if kind == FRAME_METHOD:
            return self.method(number, p, at + FRAME_HEAD, end - 1)
        if kind == FRAME_HEARTBEAT and number == 0 and end - at == FRAME_OVERHEAD:
            if self.office is not None:
                self.last_heartbeat_ms = self.office.now
            return None
        if number == 0 or (kind != FRAME_HEADER and kind != FRAME_BODY):
            raise misplaced_frame(kind, take(p, at + FRAME_HEAD, end - 1))
        if self.muted:
            return None
        channel = self.find(number)
        if channel is not None and channel.state != OPEN:
            return None
        if channel is None or channel.publish_path.stage == IDLE:
            raise HardError(505, "expected method frame, got non method frame instead")
        publish_path = channel.publish_path
        if kind == FRAME_HEADER:
            if publish_path.stage != WANT_HEADER:
                raise wrong_content_frame(publish_path.stage)
            publish_path.header(p, at + FRAME_HEAD, end - 1)
        else:
            if publish_path.stage != WANT_BODY:
                raise wrong_content_frame(publish_path.stage)
            publish_path.body(p, at + FRAME_HEAD, end - 1)
        if publish_path.stage == IDLE or publish_path.stage == ROUTING:
            return self.content_ended(channel)
        if self.alarmed:
            # The rest of the body waits as a new message would: there may be a thousand of them, of any size.
            return (number, PUBLISH, b"")
        return None

    def method(self, number, p, at, end):
        if end - at < 4:
            raise HardError(501, frame_problem(FRAME_METHOD, take(p, at, end), "unknown_frame"))
        method = read_u32(p, at)
        if number == 0:
            return (0, method, take(p, at + 4, end))
        if self.muted:
            return None
        channel = self.find(number)
        if channel is None:
            return (number, method, take(p, at + 4, end))
        if channel.state != OPEN:
            # channel.close was sent and its answer is awaited; a close that crossed ours is answered too.
            if method == CHANNEL_CLOSE or method == CHANNEL_CLOSE_OK or method == CHANNEL_OPEN:
                return (number, method, take(p, at + 4, end))
            return None
        if channel.publish_path.stage != IDLE:
            raise wrong_content_frame(channel.publish_path.stage)
        if method == PUBLISH:
            self.published = True
            channel.publish_path.begin(p, at + 4, end)
            if self.alarmed:
                return (number, PUBLISH, b"")
        elif method == ACK:
            channel.ack(p, at + 4, end)
            if channel.settled_upto > 0:
                return self.settling_ended(channel)
        elif method == NACK:
            channel.nack(p, at + 4, end)
            if channel.settled_upto > 0:
                return self.settling_ended(channel)
        elif method == REJECT:
            channel.reject(p, at + 4, end)
        else:
            return (number, method, take(p, at + 4, end))
        return None

    # ---- for the session

    def find(self, number):
        """The channel of this number, or None."""
        if number != self.last_number:
            self.last_number = number
            self.last_channel = self.channels.get(number)
        return self.last_channel

    def put_channel(self, channel):
        self.channels[channel.number] = channel
        self.last_number = 0
        self.last_channel = None

    def drop_channel(self, number):
        del self.channels[number]
        self.last_number = 0
        self.last_channel = None

    def await_channel(self, channel):
        """Nothing more of this connection is handled before the channel is done with what it has begun."""
        if channel.settled_upto > 0:
            self.unfinished = channel

    def flush_confirms(self):
        for publish_path in self.confirming:
            publish_path.owing = False
            publish_path.flush_confirms()
        self.confirming.clear()

    def calm(self):
        """The write buffer is no longer congested: consumers that waited for it are asked again."""
        woken = []
        for channel in self.channels.values():
            if channel.parked:
                channel.collect_able(woken)
        wake(woken)


def misplaced_frame(kind, payload):
    """A frame that belongs to no channel's conversation."""
    if kind == FRAME_HEADER or kind == FRAME_BODY or (kind == FRAME_HEARTBEAT and not payload):
        return HardError(505, frame_problem(kind, payload))
    return HardError(501, frame_problem(kind, payload, "unknown_frame"))


def wrong_content_frame(stage):
    """A frame that does not go on with the content which basic.publish announced."""
    if stage == WANT_HEADER:
        text = "expected content header for class 60, got non content header frame instead"
    else:
        text = "expected content body, got non content body frame instead"
    return HardError(505, text, PUBLISH)
