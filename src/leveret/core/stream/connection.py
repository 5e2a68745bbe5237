"""One stream client's octets in: frames are cut out of chunks and publishing runs on them, a whole chunk in one call.

The counterpart of connection.py for the stream protocol. `feed` works through a chunk until it is used up or a command
comes that is not publishing, which it returns as octets, without the frame's size; the caller handles it and calls
`proceed` for the rest, or `detach` if it must wait first. Errors are raised with the frame already consumed. Never
touches a socket."""

import cython

from leveret.core.codec.carry import Carry
from leveret.errors import HardError

if not cython.compiled:
    from leveret.core.codec.pure_octets import read_u16, read_u32, take
    from leveret.core.stream.publish_path import check_entries, write_errors

# Octets of a frame's size, and the least that must follow: the command's key and version.
SIZE_BYTES = 4
CONTENT_BYTES_MIN = 4
# Before a publish's entries: key, version, the publisher's id.
PUBLISH_HEAD = 5

PUBLISH = 2
CLOSE = 22
CLOSE_RESPONSE = 0x8016
PUBLISHER_DOES_NOT_EXIST = 18
# What `feed` returns for a publish during an alarm, which was taken nevertheless.
PUBLISHED = b""


class StreamConnection(Carry):
    def __init__(self, write_buffer, frame_max, unfinished):
        Carry.__init__(self)
        # The account in the budget of what has come and is not complete, and how much of a frame is counted there.
        self.unfinished = unfinished
        self.counted = 0
        self.write_buffer = write_buffer
        self.frame_max = frame_max
        # By id.
        self.publishers = {}
        # False until the client may publish.
        self.opened = False
        # After we have said that we close, only the end of the conversation counts.
        self.muted = False
        # A publish came since the session last looked.
        self.published = False
        # While an alarm holds, the session wants to see a publish before anything more is read.
        self.alarmed = False
        self.frames_received = 0
        # Publishes in the name of nobody.
        self.unknown_publishers_total = 0

    # ---- chunks

    def feed(self, data, size):
        """Takes the first `size` octets of data, which must stay as they are until the chunk is used up or detached."""
        self.take_chunk(data, size)
        return self.proceed()

    def proceed(self):
        """Goes on with the chunk: a command, or None when the chunk is used up."""
        event = None
        while event is None:
            if self.partial_size > 0:
                if not self.complete_partial():
                    break
                p = self.partial
                size = self.partial_size
                self.partial_size = 0
                event = self.frame(p, SIZE_BYTES, size)
            else:
                p = self.p
                at = self.at
                if self.end - at < SIZE_BYTES:
                    break
                size = self.check_frame(p, at)
                if self.end - at < size:
                    break
                self.at = at + size
                event = self.frame(p, at + SIZE_BYTES, at + size)
        if event is None:
            self.keep_partial()
            if self.partial_size != self.counted:
                self.count_partial()
        return event

    def check_frame(self, p, at):
        """The whole frame's size as its head declares it, refused before anything is kept if it cannot be."""
        size = read_u32(p, at)
        if size > self.frame_max:
            raise HardError(311, f"a stream frame of {size} bytes is larger than the limit of {self.frame_max}")
        if size < CONTENT_BYTES_MIN:
            raise HardError(501, f"malformed stream frame: it has {size} bytes")
        return size + SIZE_BYTES

    def complete_partial(self):
        """Adds to the frame that began in an earlier chunk; true once it is whole."""
        return self.fill_partial(SIZE_BYTES) and self.fill_partial(self.check_frame(self.partial, 0))

    def count_partial(self):
        """Counts in the budget what has come of a frame that is not complete; raises HardError if there is no room."""
        counted = self.counted
        if self.partial_size > counted:
            self.unfinished.hold(self.partial_size - counted)
        else:
            self.unfinished.give(counted - self.partial_size)
        self.counted = self.partial_size
        return 0

    def stop(self):
        """Nothing that comes after a frame that cannot be understood makes sense."""
        self.muted = True
        self.partial = None
        self.partial_size = 0
        self.count_partial()
        self.let_go()

    # ---- frames

    def frame(self, p, at, end):
        self.frames_received += 1
        key = read_u16(p, at)
        if self.muted:
            return take(p, at, end) if key == CLOSE or key == CLOSE_RESPONSE else None
        if key != PUBLISH or not self.opened:
            return take(p, at, end)
        return self.publish(p, at, end)

    def publish(self, p, at, end):
        version = read_u16(p, at + 2)
        if version == 0 or version > 2:
            raise HardError(503, f"unknown version {version} of publish in a stream frame")
        if end - at < PUBLISH_HEAD:
            raise HardError(501, "malformed stream frame: a publish without a publisher")
        self.published = True
        id = p[at + 4]
        publisher = self.publishers.get(id)
        if publisher is None:
            check_entries(p, at + PUBLISH_HEAD, end, version)
            self.unknown_publishers_total += 1
            write_errors(self.write_buffer, id, PUBLISHER_DOES_NOT_EXIST, p, at + PUBLISH_HEAD, end, version)
        else:
            publisher.publish(p, at + PUBLISH_HEAD, end, version)
        return PUBLISHED if self.alarmed else None
