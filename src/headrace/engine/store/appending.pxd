# Where the next record goes. The theory is at the top of appending.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.store.readings cimport Readings
from headrace.engine.store.segments cimport Segment

cdef class Appender(Readings):
    cdef readonly uint64_t segment_bytes
    cdef uint64_t next_number

    cdef char *_append(self, uint64_t seq, size_t length) except NULL
    cdef char *_append_to_memory(self, uint64_t seq, size_t length) except NULL
    cdef int _append_control(self, int kind, uint64_t seq, const uint64_t *ranges, uint32_t count) except -1
    cdef int _begin_segment(self, uint64_t seq) except -1
    cdef Segment *_add_segment(self, uint64_t seq) except NULL
    cdef int _reserve_parts(self, uint32_t count) except -1
    cdef int _begin_part(self, Segment *segment, uint64_t offset, bint create) except -1
    cdef char *_reserve(self, size_t length) except NULL
