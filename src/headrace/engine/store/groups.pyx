"""Groups: what was appended and is not on disk yet. The writer fills them, the store reads from them.

    pending     the group that is being filled
    in_flight   the group that the committer is writing; empty if there is none
    removed     removals in the middle of the log, which become REMOVED records when `pending` is committed

A group is a list of parts, each a run of bytes of one segment. A full segment is sealed and the next one started within
a group; on disk both happen when the group is written. A memory log has no groups: its segments are the memory.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from headrace.engine.segments.segment cimport clear_ranges

cdef size_t KEPT_BUFFER = 4 * 1024 * 1024     # a buffer that grew beyond it for one group is freed


cdef class Groups:
    def __cinit__(self):
        self.pending = <Buffer *> calloc(1, sizeof(Buffer))
        self.in_flight = <Buffer *> calloc(1, sizeof(Buffer))
        if self.pending == NULL or self.in_flight == NULL:
            raise MemoryError

    def __dealloc__(self):
        # A job under way holds a reference to the log, so there is none here.
        free_buffer(self.pending)
        free_buffer(self.in_flight)
        clear_ranges(&self.removed)

    cdef const char *find(self, const Segment *segment, uint32_t offset) noexcept:
        """A record that is not in its file yet."""
        cdef const char *data = find_in(self.in_flight, segment, offset)
        return data if data != NULL else find_in(self.pending, segment, offset)

    cdef char *reserve(self, size_t length) except NULL:
        """Room for `length` bytes at the end of what is pending."""
        cdef Buffer *buffer = self.pending
        cdef size_t capacity = buffer.capacity
        cdef void *grown
        if buffer.size + length > capacity:
            capacity = max(2 * capacity, buffer.size + length, <size_t> 4096)
            grown = realloc(buffer.data, capacity)
            if grown == NULL:
                raise MemoryError
            buffer.data = <char *> grown
            buffer.capacity = capacity
        return buffer.data + buffer.size

    cdef int reserve_parts(self, uint32_t count) except -1:
        cdef Buffer *buffer = self.pending
        cdef void *grown
        if buffer.part_count + count > buffer.part_capacity:
            grown = realloc(buffer.parts, (2 * buffer.part_capacity + count) * sizeof(Part))
            if grown == NULL:
                raise MemoryError
            buffer.parts = <Part *> grown
            buffer.part_capacity = 2 * buffer.part_capacity + count
        return 0

    cdef Part *part_of(self, Segment *segment) except NULL:
        """The last part of what is pending; a new one if the last belongs to another segment."""
        cdef Buffer *buffer = self.pending
        if buffer.part_count and buffer.parts[buffer.part_count - 1].segment == segment:
            return &buffer.parts[buffer.part_count - 1]
        return self.begin_part(segment, segment.size, False)

    cdef Part *begin_part(self, Segment *segment, uint64_t offset, bint create) except NULL:
        cdef Buffer *buffer = self.pending
        cdef Part *part
        self.reserve_parts(1)
        part = &buffer.parts[buffer.part_count]
        memset(part, 0, sizeof(Part))
        part.segment = segment
        part.offset = offset
        part.start = buffer.size
        part.create = create
        buffer.part_count += 1
        return part

    cdef void submit(self, uint64_t last_seq) noexcept:
        """Move what is pending to in flight."""
        self.pending, self.in_flight = self.in_flight, self.pending
        self.in_flight.last_seq = last_seq
        self.submitted += 1

    cdef void finish(self) noexcept:
        """What was in flight is on disk."""
        self.committed = self.submitted
        clear_buffer(self.in_flight)

    cdef void clear(self) noexcept:
        """Forget what is not on disk. No group is in flight."""
        clear_ranges(&self.removed)
        clear_buffer(self.pending)
        clear_buffer(self.in_flight)
        self.submitted = self.committed


cdef const char *find_in(const Buffer *buffer, const Segment *segment, uint32_t offset) noexcept:
    cdef const Part *part
    cdef uint32_t k = buffer.part_count
    while k:
        k -= 1
        part = &buffer.parts[k]
        if part.segment == segment and part.offset <= offset < part.offset + part.length:
            return buffer.data + part.start + (offset - part.offset)
    return NULL


cdef void clear_buffer(Buffer *buffer) noexcept:
    buffer.size = buffer.messages = 0
    buffer.part_count = 0
    if buffer.capacity > KEPT_BUFFER:
        free(buffer.data)
        buffer.data = NULL
        buffer.capacity = 0


cdef void free_buffer(Buffer *buffer) noexcept:
    if buffer != NULL:
        free(buffer.data)
        free(buffer.parts)
        free(buffer)
