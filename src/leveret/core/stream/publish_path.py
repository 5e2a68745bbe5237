"""Publishing over the stream protocol: the messages of a PUBLISH frame go into their stream, confirms come back.

A message is kept just as it came; a sub-batch, many messages in one entry and perhaps compressed, too. Nothing is
confirmed before it is on disk: then all that one batch of the log had of a publisher goes out as one frame. Called by
the stream connection for every frame, hence in C; a frame is checked to its end before anything of it is taken."""

import cython

from leveret.core.codec.names import NAME_OCTETS_MAX
from leveret.core.log.batch import Publisher
from leveret.errors import HardError

if not cython.compiled:
    from leveret.core.codec.pure_octets import (
        copy_octets,
        read_u16,
        read_u32,
        read_u64,
        take,
        write_u16,
        write_u32,
        write_u64,
    )

    RAW = 1
    SUBBATCH = 2

PUBLISH_CONFIRM = 3
PUBLISH_ERROR = 4
PRECONDITION_FAILED = 17
# As core.stream.entries has them: what says it is larger, or grows by more than its format can, is not taken.
EXPANDED_BYTES_MAX = 64 * 1024 * 1024
GZIP_RATIO_MAX = 1032
GZIP_HEAD_BYTES = 32
GZIP_BITS = 0x10
# Ids in one frame of confirms or errors.
IDS_MAX = 8192
FIRST_IDS_BYTES = 256
KEPT_IDS_BYTES = 65536
NO_FILTER = 0xFFFF
# As long as a name may be that the stream's log keeps.
FILTER_BYTES_MAX = NAME_OCTETS_MAX


class StreamPublisher(Publisher):
    def __init__(self, id, stream, reference, write_buffer):
        Publisher.__init__(self)
        self.id = id
        self.stream = stream
        # The name under which the stream remembers publishing ids, None if it does not.
        self.reference = reference
        self.write_buffer = write_buffer
        # The code that everything is refused with, 0 while it is taken.
        self.refusal = 0
        # The ids that are not confirmed yet, as they go out, in ids[ids_start:ids_end].
        self.ids = bytearray(FIRST_IDS_BYTES)
        self.ids_start = 0
        self.ids_end = 0
        self.confirmed_seq = 0
        self.closed = False
        self.published_total = 0
        self.known_total = 0
        # Entries that were refused.
        self.refused_total = 0
        self.confirmed_total = 0

    def publish(self, p, at, end, version):
        """Takes the entries p[at:end] of a frame, whose count stands before them."""
        bloated = check_entries(p, at, end, version)
        if self.refusal != 0:
            self.refused_total += read_u32(p, at)
            return write_errors(self.write_buffer, self.id, self.refusal, p, at, end, version)
        at += 4
        if at == end:
            return 0
        while at < end:
            publishing_id = read_u64(p, at)
            if bloated and is_bloated(p, content_at(p, at + 8, version)):
                # It alone: what stands beside it in the frame is as good as without it.
                self.refused_total += 1
                write_error(self.write_buffer, self.id, PRECONDITION_FAILED, publishing_id)
                at = entry_end(p, at + 8, version)
                continue
            self.remember(p, at)
            at += 8
            filter_value = None
            if version == 2:
                size = read_u16(p, at)
                at += 2
                if size != NO_FILTER:
                    if size > 0:
                        filter_value = take(p, at, at + size)
                    at += size
            if p[at] & 0x80:
                size = read_u32(p, at + 7)
                if self.is_new(publishing_id):
                    extra = bytes([(p[at] & 0x70) >> 4]) + take(p, at + 3, at + 7)
                    body = take(p, at + 11, at + 11 + size)
                    self.stream.append_entry(body, read_u16(p, at + 1), SUBBATCH, extra, filter_value)
                at += 11 + size
            else:
                size = read_u32(p, at)
                if self.is_new(publishing_id):
                    self.stream.append_entry(take(p, at + 4, at + 4 + size), 1, RAW, b"", filter_value)
                at += 4 + size
        # What was known already may not be on disk yet, and what is confirmed must be.
        self.stream.await_sync(self)
        return 0

    def is_new(self, publishing_id):
        self.published_total += 1
        if self.reference is None or self.stream.take_id(self.reference, publishing_id):
            return True
        self.known_total += 1
        return False

    def remember(self, p, at):
        """Notes the id at p[at] as one to be confirmed."""
        if self.ids_end + 8 > len(self.ids):
            size = self.ids_end - self.ids_start
            larger = bytearray(max(len(self.ids), 2 * size, FIRST_IDS_BYTES))
            q = larger
            source = self.ids
            copy_octets(q, 0, source, self.ids_start, size)
            self.ids = larger
            self.ids_start = 0
            self.ids_end = size
        q = self.ids
        copy_octets(q, self.ids_end, p, at, 8)
        self.ids_end += 8
        self.accepted_seq += 1
        return 0

    def synced(self, batch, accepted_seq):
        if not self.closed:
            self.confirm(accepted_seq - self.confirmed_seq)
        return 0

    def confirm(self, count):
        """Tells the client that the oldest `count` are safe."""
        out = self.write_buffer
        while count > 0:
            part = min(count, IDS_MAX)
            out.reserve(13 + 8 * part)
            q = out.p
            at = out.end
            write_u32(q, at, 9 + 8 * part)
            write_u16(q, at + 4, PUBLISH_CONFIRM)
            write_u16(q, at + 6, 1)
            q[at + 8] = self.id
            write_u32(q, at + 9, part)
            source = self.ids
            copy_octets(q, at + 13, source, self.ids_start, 8 * part)
            out.wrote(13 + 8 * part)
            self.ids_start += 8 * part
            self.confirmed_seq += part
            self.confirmed_total += part
            count -= part
        if self.ids_start == self.ids_end:
            self.ids_start = 0
            self.ids_end = 0
            if len(self.ids) > KEPT_IDS_BYTES:
                self.ids = bytearray(FIRST_IDS_BYTES)
        return 0

    def close(self):
        """Nothing more is confirmed."""
        self.closed = True
        self.ids = bytearray(0)
        self.ids_start = 0
        self.ids_end = 0


def check_entries(p, at, end, version):
    """Raises HardError unless p[at:end] is a count and so many whole entries. Whether one of them is a sub-batch that
    says it becomes larger than anybody would take apart, see core.stream.entries."""
    bloated = False
    if end - at < 4:
        raise HardError(501, "malformed stream frame: a publish ends before its messages")
    count = read_u32(p, at)
    at += 4
    for _ in range(count):
        if end - at < 12:
            raise HardError(501, "malformed stream frame: a publish has fewer messages than it says")
        at += 8
        if version == 2:
            size = read_u16(p, at)
            at += 2
            if size != NO_FILTER:
                if size > FILTER_BYTES_MAX or size > end - at:
                    raise HardError(501, f"malformed stream frame: a filter value of {size} bytes")
                at += size
            if end - at < 4:
                raise HardError(501, "malformed stream frame: a publish ends within a message")
        if p[at] & 0x80:
            if end - at < 11 or read_u16(p, at + 1) == 0:
                raise HardError(501, "malformed stream frame: a sub-batch without messages")
            size = read_u32(p, at + 7)
            if is_bloated(p, at):
                bloated = True
            at += 11
        else:
            size = read_u32(p, at)
            at += 4
        if size > end - at:
            raise HardError(501, f"malformed stream frame: a message of {size} bytes reaches past the end of a publish")
        at += size
    if at != end:
        raise HardError(501, "malformed stream frame: a publish has more messages than it says")
    return bloated


def is_bloated(p, at):
    """Whether the entry's content at p[at] is a sub-batch that says it becomes larger than anybody would take apart."""
    if not p[at] & 0x80:
        return False
    size = read_u32(p, at + 7)
    expanded = read_u32(p, at + 3)
    return expanded > EXPANDED_BYTES_MAX or (
        (p[at] & 0x70) == GZIP_BITS and expanded > GZIP_RATIO_MAX * (size + GZIP_HEAD_BYTES)
    )


def write_error(out, id, code, publishing_id):
    """Answers one entry with this code."""
    out.reserve(23)
    q = out.p
    to = out.end
    write_u32(q, to, 19)
    write_u16(q, to + 4, PUBLISH_ERROR)
    write_u16(q, to + 6, 1)
    q[to + 8] = id
    write_u32(q, to + 9, 1)
    write_u64(q, to + 13, publishing_id)
    write_u16(q, to + 21, code)
    out.wrote(23)
    return 0


def write_errors(out, id, code, p, at, end, version):
    """Answers every entry of the checked frame p[at:end] with this code."""
    left = read_u32(p, at)
    at += 4
    while left > 0:
        part = min(left, IDS_MAX)
        out.reserve(13 + 10 * part)
        q = out.p
        to = out.end
        write_u32(q, to, 9 + 10 * part)
        write_u16(q, to + 4, PUBLISH_ERROR)
        write_u16(q, to + 6, 1)
        q[to + 8] = id
        write_u32(q, to + 9, part)
        to += 13
        for _ in range(part):
            write_u64(q, to, read_u64(p, at))
            write_u16(q, to + 8, code)
            to += 10
            at = entry_end(p, at + 8, version)
        out.wrote(to - out.end)
        left -= part
    return 0


def content_at(p, at, version):
    """Where the content of the entry begins, behind its filter value, of which all that follows its id stands at p[at].
    It was checked."""
    if version == 2:
        size = read_u16(p, at)
        at += 2
        if size != NO_FILTER:
            at += size
    return at


def entry_end(p, at, version):
    """Where the entry ends of which all that follows its id stands at p[at]. It was checked."""
    at = content_at(p, at, version)
    if p[at] & 0x80:
        size = read_u32(p, at + 7)
        return at + 11 + size
    size = read_u32(p, at)
    return at + 4 + size
