"""One connection's bytes in: frames are cut out of chunks and the data plane runs on them, a whole chunk in one call.

`feed` works through a chunk until it is used up or a control method comes, which it returns as
(channel, method id, arguments); the caller handles it and calls `proceed` for the rest. So a caller that must wait
simply does not proceed yet: it calls `detach`, which copies the unread rest. Errors are raised with the frame already
consumed: the caller closes what must be closed and proceeds. Never touches a socket."""

import cython

from leveret.core.carry import Carry
from leveret.core.wording import frame_problem
from leveret.errors import HardError

if not cython.compiled:
    from leveret.core.channel import OPEN, wake
    from leveret.core.intake import IDLE, WANT_BODY, WANT_HEADER
    from leveret.core.pure_octets import read_u16, read_u32, take

FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_HEARTBEAT = 8
FRAME_END = 0xCE
# Octets of a frame beside its payload: type, channel, size; and the end mark.
FRAME_HEAD = 7
FRAME_OVERHEAD = 8

PUBLISH = 0x003C0028
ACK = 0x003C0050
NACK = 0x003C0078
REJECT = 0x003C005A
CHANNEL_OPEN = 0x0014000A
CHANNEL_CLOSE = 0x00140028
CHANNEL_CLOSE_OK = 0x00140029


class Connection(Carry):
    def __init__(self, outbox, frame_max, channel_max):
        Carry.__init__(self)
        self.outbox = outbox
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
        # While an alarm holds, the session wants to see a publish before anything more is read.
        self.alarmed = False
        # The channel of the frame being worked on, so that whoever catches an error knows where it belongs.
        self.current = 0
        self.frames_received = 0

    # ---- chunks

    def feed(self, data, size):
        """Takes the first `size` octets of data, which must stay as they are until the chunk is used up or detached."""
        self.take_chunk(data, size)
        return self.proceed()

    def proceed(self):
        """Goes on with the chunk: a control method, or None when the chunk is used up."""
        event = None
        while event is None:
            if self.partial_size > 0:
                if not self.complete_partial():
                    break
                p = self.partial
                size = self.partial_size
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
                self.at = at + size
                event = self.frame(p, at, at + size)
        if event is None:
            self.keep_partial()
            if self.confirming:
                self.flush_confirms()
        return event

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
            return None
        if number == 0 or (kind != FRAME_HEADER and kind != FRAME_BODY):
            raise misplaced_frame(kind, take(p, at + FRAME_HEAD, end - 1))
        if self.muted:
            return None
        channel = self.find(number)
        if channel is not None and channel.state != OPEN:
            return None
        if channel is None or channel.intake.stage == IDLE:
            raise HardError(505, "expected method frame, got non method frame instead")
        intake = channel.intake
        if kind == FRAME_HEADER:
            if intake.stage != WANT_HEADER:
                raise wrong_content_frame(intake.stage)
            intake.header(p, at + FRAME_HEAD, end - 1)
        else:
            if intake.stage != WANT_BODY:
                raise wrong_content_frame(intake.stage)
            intake.body(p, at + FRAME_HEAD, end - 1)
        if intake.confirming and intake.stage == IDLE and not intake.owing:
            intake.owing = True
            self.confirming.append(intake)
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
        if channel.intake.stage != IDLE:
            raise wrong_content_frame(channel.intake.stage)
        if method == PUBLISH:
            self.published = True
            channel.intake.begin(p, at + 4, end)
            if self.alarmed:
                return (number, PUBLISH, b"")
        elif method == ACK:
            channel.ack(p, at + 4, end)
        elif method == NACK:
            channel.nack(p, at + 4, end)
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

    def flush_confirms(self):
        for intake in self.confirming:
            intake.owing = False
            intake.flush_confirms()
        self.confirming.clear()

    def calm(self):
        """The outbox is no longer congested: consumers that waited for it are asked again."""
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
