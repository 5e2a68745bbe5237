cimport cython

from leveret.core.log.batch cimport SideLog, NoteSource, Publisher
from leveret.core.codec.buffers cimport Buffers, grow
from leveret.core.codec.message cimport Message
from leveret.core.codec.octets cimport clear_octets, copy_octets, read_u16, read_u32, read_u64, write_u16, write_u32, write_u64
from leveret.core.log.records cimport (
    ADDRESS_MASK, CLOSED, EXPIRES, HEAD_BYTES, KEY, MESSAGE, MESSAGE_HEAD_BYTES, MOMENT, NOTE_BYTES, NOTES, PAGED, SETTLED,
    TARGET_BYTES, padded, placed_kind, record_bytes, write_head, write_note,
)
from leveret.core.log.segment cimport Segment

cdef Py_ssize_t FIRST_BUFFER_BYTES, KEPT_BUFFER_BYTES, FIRST_NOTES_BYTES, CONGESTED_BYTES, CALM_BYTES, OVERFULL_BYTES, GROWN_BYTES_MAX, PARTS_MAX, SEGMENT_BYTES_MAX, NOTES_ROOM_BYTES
cdef unsigned long long OFFSET_MASK


@cython.final
cdef class Journal:
    cdef readonly dict segments
    cdef readonly Py_ssize_t segment_bytes
    cdef object wake
    cdef readonly bint paging
    cdef readonly bint commit_wanted
    cdef readonly bint notes_pending
    cdef bytearray data
    cdef unsigned char* p
    cdef readonly Py_ssize_t end
    cdef bytearray other
    cdef readonly Segment segment
    cdef Segment last_found
    cdef public Segment spare
    cdef list parts
    cdef Py_ssize_t part_start
    cdef Py_ssize_t part_offset
    cdef public unsigned long long sequence
    cdef public unsigned long long synced_sequence
    cdef readonly unsigned long long batch
    cdef readonly unsigned long long written_batch
    cdef public unsigned long long batch_sequence
    cdef readonly unsigned long long synced_batch
    cdef list written_parts
    cdef readonly Py_ssize_t in_flight_bytes
    cdef readonly bint congested
    cdef readonly bint overfull
    cdef bytearray notes
    cdef Py_ssize_t notes_bytes
    cdef set settled_segments
    cdef list touched
    cdef list waiters
    cdef Message current
    cdef Py_ssize_t current_at
    cdef Py_ssize_t current_targets
    cdef Py_ssize_t room
    cdef unsigned int paged_length
    cdef readonly unsigned int copied_length
    cdef public list drained
    cdef readonly bint closed
    cdef readonly unsigned long long appended_total
    cdef readonly unsigned long long appended_bytes_total
    cdef readonly list beside
    cdef readonly Py_ssize_t beside_bytes
    cdef Message beside_message
    cdef bint transacted
    cdef readonly bint logged
    cdef readonly dict owing
    cdef bint owes
    cdef readonly Buffers buffers
    cdef public Py_ssize_t load_reads

    cpdef int want_commit(self) except -1
    cdef int want_notes(self) except -1
    cdef int require_open(self) except -1
    cpdef int add_beside(self, SideLog log) except -1
    cpdef int weigh(self, Py_ssize_t size) except -1
    cpdef object want_evidence(self)
    cpdef int touch(self, NoteSource noting) except -1
    cpdef object use_segment(self, Segment segment)
    cdef int roll(self) except -1
    cdef Segment find_segment(self, unsigned long long location)
    @cython.locals(segment=Segment)
    cpdef int release(self, unsigned long long location) except -1
    @cython.locals(rolls=bint)
    cpdef bint has_room(self, Py_ssize_t count) except -1
    cdef int reserve(self, Py_ssize_t count) except -1
    @cython.locals(raw=bytes, address_size=Py_ssize_t, properties_size=Py_ssize_t, body_size=Py_ssize_t, length=Py_ssize_t, at=Py_ssize_t, to=Py_ssize_t, p="unsigned char*", source="const unsigned char*")
    cdef int append_message(self, Message message, Py_ssize_t room, int kind) except -1
    @cython.locals(size=Py_ssize_t)
    cdef int advance(self, Py_ssize_t length) except -1
    cdef int note_congestion(self) except -1
    @cython.locals(at=Py_ssize_t, p="unsigned char*", segment=Segment, offset="unsigned int", kind="unsigned int")
    cpdef int keep(self, NoteSource queue_log, Message message, unsigned long long position) except -1
    @cython.locals(known="unsigned long long", location="unsigned long long", length="unsigned int", segment=Segment)
    cpdef unsigned long long page(self, Message message) except 0
    cpdef bint is_page(self, unsigned long long location) except -1
    @cython.locals(p="unsigned char*")
    cpdef int add_note(self, unsigned long long queue, unsigned long long first, unsigned int a, unsigned int b, unsigned int c, unsigned int kind) except -1
    @cython.locals(source="const unsigned char*", p="unsigned char*")
    cpdef int add_key(self, NoteSource noting, bytes digest, unsigned int seconds, unsigned int own_ttl) except -1
    cpdef int add_moment(self, unsigned long long now_ms, unsigned long long wall_ms) except -1
    cpdef int add_settled(self, unsigned long long queue, unsigned long long first, unsigned int count, unsigned int segment) except -1
    @cython.locals(length=Py_ssize_t, at=Py_ssize_t, p="unsigned char*", source="const unsigned char*", segment=Segment, noting=NoteSource)
    cdef int append_notes(self) except -1
    cpdef int append_closed(self) except -1
    cpdef int await_batch(self, Publisher publisher) except -1
    @cython.locals(publisher=Publisher, parts=list, log=SideLog, together=bint, noted=bint)
    cpdef object take_batch(self)
    @cython.locals(segment=Segment)
    cpdef object batch_written(self, object batch)
    @cython.locals(publisher=Publisher)
    cpdef object batch_synced(self, object batch)
    @cython.locals(segment=Segment, offset=Py_ssize_t)
    cpdef bint is_written(self, unsigned long long location) except -1
