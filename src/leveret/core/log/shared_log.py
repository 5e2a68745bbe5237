"""Records of consensus groups in the node's log: entries, a group's state, and where its entries begin.

They go into the journal's open batch and so share its one write and sync with everything else that the node keeps.
Counts each record as live in its segment; storage.groups.entry_store says when one is needed no more. Never touches a
file."""

import cython

from leveret.core.log.batch import Publisher

if not cython.compiled:
    from leveret.core.codec.pure_octets import clear_octets, copy_octets, write_u16, write_u32, write_u64
    from leveret.core.log.records import (
        FLOOR,
        GROUP,
        GROUP_HEAD_BYTES,
        NOTE_BYTES,
        SHARED,
        STATE,
        STATE_BYTES,
        padded,
        write_head,
        write_note,
    )

DESCRIPTOR_BYTES_MAX = 0xFFFF
MEMBERS_MAX = 0xFFFF


class SharedLog(Publisher):
    """`on_synced` is called with the ticket of a sync once everything that was appended before it is on disk."""

    def __init__(self, journal, on_synced):
        Publisher.__init__(self)
        self.journal = journal
        self.on_synced = on_synced
        self.entries_total = 0
        self.entry_bytes_total = 0

    def append_entry(self, group, index, term, kind, descriptor, payload):
        """Where the record is. It voids what the group had at this index and above."""
        head = len(descriptor)
        size = len(payload)
        if head > DESCRIPTOR_BYTES_MAX:
            raise ValueError(f"a descriptor of {head} octets, at most {DESCRIPTOR_BYTES_MAX} are possible")
        journal = self.journal
        location = self.begin(GROUP_HEAD_BYTES + head + size, SHARED, group, term, index, SHARED)
        at = journal.end
        p = journal.p
        p[at + 17] = kind
        write_u16(p, at + 18, head)
        source = descriptor
        copy_octets(p, at + GROUP_HEAD_BYTES, source, 0, head)
        source = payload
        copy_octets(p, at + GROUP_HEAD_BYTES + head, source, 0, size)
        journal.advance(GROUP_HEAD_BYTES + head + size)
        self.entries_total += 1
        self.entry_bytes_total += size
        return location

    def append_state(self, group, term, vote, commit):
        location = self.begin(STATE_BYTES, STATE, group, term, vote, STATE)
        journal = self.journal
        write_u64(journal.p, journal.end + GROUP_HEAD_BYTES, commit)
        journal.advance(STATE_BYTES)
        return location

    def append_floor(self, group, index, term, voters, learners, anew):
        """The group's entries begin above this index; `anew` if everything that it had is void."""
        count = len(voters) + len(learners)
        if count > MEMBERS_MAX:
            raise ValueError(f"a group of {count} members, at most {MEMBERS_MAX} are possible")
        length = GROUP_HEAD_BYTES + 8 * count
        location = self.begin(length, FLOOR, group, term, index, FLOOR | (0x100 if anew else 0))
        journal = self.journal
        at = journal.end
        p = journal.p
        p[at + 17] = 1 if anew else 0
        write_u16(p, at + 18, len(voters))
        write_u32(p, at + 20, len(learners))
        at += GROUP_HEAD_BYTES
        for replica in (*voters, *learners):
            write_u64(p, at, replica)
            at += 8
        journal.advance(length)
        return location

    def begin(self, length, kind, group, term, index, what):
        """Makes room for a record and its note in the segment's index, and writes what all kinds have."""
        journal = self.journal
        if journal.segment.end >= journal.segment_bytes:
            journal.roll()
        journal.reserve(padded(length))
        # What is added to the record before would go over this one.
        journal.current = None
        at = journal.end
        p = journal.p
        write_head(p, at, length, journal.sequence, kind)
        write_u64(p, at + 24, group)
        write_u64(p, at + 32, term)
        write_u64(p, at + 40, index)
        # The buffer is used again and again: nothing old may go to disk.
        clear_octets(p, at + GROUP_HEAD_BYTES, at + padded(length))
        segment = journal.segment
        segment.live += 1
        segment.placed += 1
        segment.index_room(NOTE_BYTES)
        q = segment.index
        # A vote is no index.
        write_note(q, segment.index_bytes, group, 0 if kind == STATE else index, segment.end, length, what, GROUP)
        segment.index_bytes += NOTE_BYTES
        journal.want_commit()
        return (segment.id << 32) | segment.end

    def release(self, location):
        """The record is needed no more."""
        return self.journal.release(location)

    def sync(self, ticket):
        """Has everything up to now written and synced; `on_synced` tells."""
        self.accepted_seq = ticket
        self.journal.await_batch(self)
        return self.journal.want_commit()

    def synced(self, batch, accepted_seq):
        self.on_synced(accepted_seq)
        return 0
