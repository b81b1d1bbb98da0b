# Reading: a view of one record, and the read-ahead buffer that it may point into.

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.segments.packing cimport Stretch
from headrace.engine.segments.record cimport HEAD_SIZE, RecordHead
from headrace.engine.segments.segment cimport Segment

cdef struct Record:
    # A view into a window or a memory segment; valid until the next call with the same window.
    uint64_t seq
    int64_t time
    uint64_t previous
    const char *subject
    uint32_t subject_length
    uint32_t header_length
    const char *headers            # the payload follows the headers directly
    const char *payload
    Py_ssize_t payload_length

@cython.final
cdef class Window:
    cdef Stretch held              # what was read of the segment
    cdef uint64_t number           # of the segment
    cdef uint32_t salt             # of the segment: a rewritten one is another one
    cdef size_t ahead              # how much to read at least,
    cdef size_t most               # and where it follows what was read before

    cdef int load(self, Segment *segment, uint32_t offset, Record *record, bint may_read) except -1
    cdef bint peek(self, Segment *segment, uint32_t offset, Record *record) except -1
    cdef void invalidate(self) noexcept
    cpdef void release(self) noexcept
    cdef int _fill(self, Segment *segment, uint32_t offset, size_t wanted) except -1


cdef void view(const RecordHead *head, Record *record) noexcept


cdef inline uint64_t record_length(const Record *record) noexcept:
    return <uint64_t> HEAD_SIZE + record.subject_length + record.header_length + record.payload_length
