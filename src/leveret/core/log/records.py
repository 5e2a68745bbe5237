"""The records that all of Leveret's logs are made of, as octets: how one is laid out, sealed, checked and found again.

    0  u32  CRC-32C of everything behind it, salted by the file
    4  u32  length of the record, padding not counted
    8  u64  log sequence: grows by one a record, never used twice in a data directory
    16 u8   kind
    17 u8   MESSAGE: priority
    18 u16  MESSAGE: octets of the address; the highest bit says that it has an expiration of its own
    20 u32  MESSAGE: number of targets         NOTES: number of notes
    24 u32  MESSAGE: octets of the properties  others: u64, the sequence up to which everything was synced before
    28 u32  MESSAGE: octets of the body
    32      MESSAGE: u64, when it arrived or, if it is delayed, is due, in milliseconds of the wall clock; address,
            properties, body, then 16 octets a target: id of the queue or exchange, position there (see
            core.queue.delays for those that are delayed). There may be room behind for targets that it never had
            PAGED: the same, for transient messages in pages/
            NOTES: 32 octets a note, see write_note
            COMMAND: a command of the catalog as msgpack
            CLOSED: nothing; the broker stopped in good order, and nothing was handed out since

Consensus groups write three kinds into the log of messages (core.log.shared_log), none of which ends a batch:
    SHARED  an entry: 17 its kind, 18 u16 octets of its descriptor, 24 u64 group, 32 u64 term, 40 u64 index; descriptor,
            payload. It voids what the group had at this index and above
    STATE   24 u64 group, 32 u64 term, 40 u64 vote, 48 u64 commit index; the last one counts
    FLOOR   17 whether all before is void, 18 u16 voters, 20 u32 learners, 24 u64 group, 32 u64 term, 40 u64 index;
            ids of the voters, then of the learners, u64 each. The group's entries begin above this index

In the log of a stream the sequence is the offset of a message, so it grows by as many as a record has:
    ENTRY   like MESSAGE, but: 17 flags, 20 how many messages it has; no targets, the filter value instead
    TRACK   17 whether it has all that is tracked or what changed, 20 how many that are, 24 u64 the offset up to which
            everything was synced before; what is tracked, see core.stream.tracking. Its sequence is the next entry's.
            18 u8: 0 the part ends here and counts for itself, 1 the part goes on in the next segment, 2 it ends here
            and counts if the log has the batch that the first item names

A record starts at a multiple of 8. Numbers are big-endian. The end of a log is where no record with a good checksum
and the next sequence stands: no magic, no NULs, no holes are looked for. What is written together is a batch: messages,
then one record of another kind, which ends it; after a crash a log of messages is cut back to the last whole batch. The
salt keeps a message whose body looks like a record from ever being taken for one. Never touches a file."""

import cython

if not cython.compiled:
    from leveret.core.codec.pure_crc32c import crc32c
    from leveret.core.codec.pure_octets import read_u32, write_u32, write_u64

    HEAD_BYTES = 32
    MESSAGE_HEAD_BYTES = 40
    ADDRESS_MASK = 0x0FFF
    EXPIRES = 0x8000
    TARGET_BYTES = 16
    NOTE_BYTES = 32
    MESSAGE = 1
    PAGED = 2
    NOTES = 3
    COMMAND = 4
    CLOSED = 5
    ENTRY = 6
    TRACK = 7
    SHARED = 8
    STATE = 9
    FLOOR = 10
    GROUP_HEAD_BYTES = 48
    STATE_BYTES = 56
    PLACED = 1
    SETTLED = 2
    HANDED = 3
    COUNTED = 4
    KEY = 5
    MOMENT = 6
    GROUP = 7
    KIND_MASK = 0xFF
    EXPIRES_BIT = 0x10000

# For readers outside the data plane, which cannot see the C constants.
RECORD_KINDS = {
    1: "message", 2: "paged", 3: "notes", 4: "command", 5: "closed", 6: "entry", 7: "track",
    8: "shared", 9: "state", 10: "floor",
}  # fmt: skip
MESSAGE_RECORD_HEAD_BYTES = 40
ADDRESS_SIZE_MASK = 0x0FFF


def padded(size):
    return (size + 7) & ~7


def write_head(p, at, length, sequence, kind):
    """The first half of a record's head. The checksum is left for `seal_records`."""
    write_u32(p, at, 0)
    write_u32(p, at + 4, length)
    write_u64(p, at + 8, sequence)
    write_u64(p, at + 16, 0)
    write_u64(p, at + 24, 0)
    p[at + 16] = kind


def placed_kind(priority, expires):
    """The kind of a PLACED note: what a queue must know of a message without reading it goes along."""
    return PLACED | (priority << 8) | (EXPIRES_BIT if expires else 0)


def write_note(p, at, queue, first, a, b, c, kind):
    """One note: what happened to messages of one queue. The first four fields depend on the kind:

    PLACED   the message at position `first` is at offset a, b octets long, with c octets of body (segment indexes);
             the second octet of the kind is its priority, the third says whether it has an expiration of its own
    SETTLED  a messages from position `first` on are done with; their records are in segment b
    HANDED   all up to position `first` were handed out at least once
    COUNTED  the message at position `first` was handed out a times; its record is in segment b
    KEY      the key whose digest is `first`, a, b was seen in second c; the upper octets of the kind are its own time
             to live, see core.queue.dedup
    MOMENT   it was `first` for messages, and a (the upper half), c by the wall clock: milliseconds since 1970, of no
             queue
    GROUP    a record of the consensus group `queue` at index `first` is at offset a, b octets long; c is the record's
             kind, and above that octet whether it voids all before (segment indexes)"""
    write_u64(p, at, queue)
    write_u64(p, at + 8, first)
    write_u32(p, at + 16, a)
    write_u32(p, at + 20, b)
    write_u32(p, at + 24, c)
    write_u32(p, at + 28, kind)


def seal_records(p, start, end, salt):
    """Fills in the checksums of the records in p[start:end], which were written by us and are whole."""
    at = start
    while at < end:
        length = read_u32(p, at + 4)
        write_u32(p, at, crc32c(salt, p, at + 4, at + length))
        at += padded(length)


def sealed_length(p, at, end, salt):
    """The length of the record at p[at], or 0 if there is no whole one with the right checksum. Whether its inside
    makes sense is for core.log.record_check to say, which readers ask."""
    if end - at < HEAD_BYTES:
        return 0
    length = read_u32(p, at + 4)
    if length < HEAD_BYTES or length > end - at:
        return 0
    if crc32c(salt, p, at + 4, at + length) != read_u32(p, at):
        return 0
    return length


def sealed(data, salt):
    """One or more finished records with their checksums filled in."""
    p = data
    seal_records(p, 0, len(data), salt)
    return data


def checksum(data):
    """CRC-32C of all of it."""
    p = data
    return crc32c(0, p, 0, len(data))


def command_record(sequence, synced_sequence, payload):
    """A COMMAND record of the catalog's log, padded, its checksum still to be filled in. Without a command it is a
    NOTES record that only says how far everything is synced."""
    length = HEAD_BYTES + len(payload)
    data = bytearray(padded(length))
    p = data
    write_head(p, 0, length, sequence, COMMAND if payload else NOTES)
    write_u64(p, 24, synced_sequence)
    data[HEAD_BYTES:length] = payload
    return data


def record_bytes(message, room):
    """The length of a message's record with room for so many targets."""
    size = len(message.address) + len(message.properties.raw) + message.body_size
    return MESSAGE_HEAD_BYTES + size + TARGET_BYTES * room
