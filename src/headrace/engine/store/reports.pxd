# What a log reports to Python. The theory is at the top of reports.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.segments.segment cimport Segment

@cython.final
cdef class Reports:
    cdef object on_warning         # called with a line about a failure that lost nothing; None: nobody listens
    cdef list damages              # one line for each damage found so far, up to MOST_DAMAGES
    cdef set damaged               # the sequences in `damages`: each is reported once
    cdef str read_failure          # why a file could not be read last time; None: it could
    cdef uint64_t unread_seq       # and the message that was asked for

    cdef int warn(self, str line) except -1
    cdef int add_damages(self, list lines) except -1
    cdef int note_damage(self, Segment *segment, uint32_t place) except -1
    cdef int note_read_failure(self, uint64_t seq, object error) except -1
    cdef void note_read(self, uint64_t seq) noexcept


cdef int call_all(list callbacks, object failure) except -1
