# What is not on disk yet: the group that is being filled and the one in flight. The theory is at the top of groups.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.segments.segment cimport Ranges, Segment

cdef struct Part:
    # A run of bytes of a buffer that goes into one file.
    Segment *segment
    uint64_t offset                # in the file
    size_t start                   # in the buffer
    size_t length
    bint create                    # the file does not exist yet
    bint seal                      # it is the last part of the file

cdef struct Buffer:
    char *data
    size_t size
    size_t capacity
    Part *parts
    uint32_t part_count
    uint32_t part_capacity
    uint64_t messages              # how many are in it
    uint64_t last_seq              # committed_seq when all of it is written

@cython.final
cdef class Groups:
    cdef Buffer *pending           # what was appended since the last commit
    cdef Buffer *in_flight         # what the committer is writing
    cdef Ranges removed            # interior removals that are not in a record yet
    cdef uint64_t submitted        # groups that were handed to the committer so far,
    cdef uint64_t committed        # and those on disk

    cdef const char *find(self, const Segment *segment, uint32_t offset) noexcept
    cdef char *reserve(self, size_t length) except NULL
    cdef int reserve_parts(self, uint32_t count) except -1
    cdef Part *part_of(self, Segment *segment) except NULL
    cdef Part *begin_part(self, Segment *segment, uint64_t offset, bint create) except NULL
    cdef void submit(self, uint64_t last_seq) noexcept
    cdef void finish(self) noexcept
    cdef void clear(self) noexcept
