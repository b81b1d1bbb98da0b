"""Where the next record goes: into the buffer of the group that is being filled, or into a segment in memory.

A group is a list of parts, each a stretch of one segment. A full segment is sealed and the next one begun within a group;
on disk both happen when the group is written.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from headrace.engine.store.committer cimport Buffer, Part
from headrace.engine.store.files cimport random_salt
from headrace.engine.store.readings cimport Readings
from headrace.engine.store.record cimport HEAD_SIZE, RecordHead, prepare_crc32c, seal_record
from headrace.engine.store.segments cimport (
    ABSENT, SEGMENT_HEAD, Segment, SegmentHead, free_segment, new_segment, write_segment_head,
)

prepare_crc32c()

cdef uint64_t FIRST_MEMORY = 16 * 1024
cdef uint64_t LARGEST_MEMORY = 1024 * 1024


cdef class Appender(Readings):
    cdef char *_append(self, uint64_t seq, size_t length) except NULL:
        """Room for a record in the active segment, which may be a new one."""
        cdef char *data
        if self.in_memory:
            return self._append_to_memory(seq, length)
        if self.active == NULL or self.active.size + length > self.segment_bytes and self.active.size > SEGMENT_HEAD \
                or seq >= self.active.base_seq + ABSENT:
            self._begin_segment(seq)
        if self.pending.part_count == 0 \
                or self.pending.parts[self.pending.part_count - 1].segment != self.active:
            self._begin_part(self.active, self.active.size, False)
        data = self._reserve(length)
        self.pending.parts[self.pending.part_count - 1].length += length
        self.pending.size += length
        self.active.size += length
        return data

    cdef char *_append_to_memory(self, uint64_t seq, size_t length) except NULL:
        cdef Segment *segment = self.active
        cdef uint64_t capacity = FIRST_MEMORY
        cdef char *memory
        if segment == NULL or segment.size + length > segment.allocated or seq >= segment.base_seq + ABSENT:
            if segment != NULL:
                capacity = min(2 * segment.allocated, LARGEST_MEMORY)
            if capacity < SEGMENT_HEAD + length:
                capacity = SEGMENT_HEAD + length
            memory = <char *> malloc(capacity)
            if memory == NULL:
                raise MemoryError
            try:
                segment = self._add_segment(seq)
            except MemoryError:
                free(memory)
                raise
            segment.memory = memory
            segment.allocated = capacity
            if self.active != NULL:
                self.active.sealed = True
                if 2 * self.active.live_bytes < self.active.size:
                    self.tidy_due = True
            self.active = segment
        segment.size += length
        return segment.memory + segment.size - length

    cdef int _begin_segment(self, uint64_t seq) except -1:
        """Seal the active segment and begin the next one. Both happen on disk when the group is written."""
        cdef SegmentHead head
        cdef Segment *segment
        # All the memory first: half a segment in the list would swallow what is appended to it.
        self._reserve_parts(2)
        self._reserve(SEGMENT_HEAD)
        segment = self._add_segment(seq)
        segment.limit = self.segment_bytes
        segment.salt = random_salt()
        if self.active != NULL:
            if self.pending.part_count == 0 \
                    or self.pending.parts[self.pending.part_count - 1].segment != self.active:
                self._begin_part(self.active, self.active.size, False)
            self.pending.parts[self.pending.part_count - 1].seal = True
        self.active = segment
        head.number = segment.number
        head.base_seq = seq
        head.first_seq = self.first_seq
        head.last_time = self.last_time
        head.salt = segment.salt
        head.plain_size = 0
        self._begin_part(segment, 0, True)
        write_segment_head(self._reserve(SEGMENT_HEAD), &head)
        self.pending.parts[self.pending.part_count - 1].length = SEGMENT_HEAD
        self.pending.size += SEGMENT_HEAD
        return 0

    cdef Segment *_add_segment(self, uint64_t seq) except NULL:
        """The next one, empty, at the end of the list."""
        cdef Segment *segment = new_segment(self.next_number, seq)
        if segment == NULL:
            raise MemoryError
        try:
            self.add_segment(segment)
        except MemoryError:
            free_segment(segment)
            raise
        self.next_number += 1
        return segment

    cdef int _reserve_parts(self, uint32_t count) except -1:
        cdef Buffer *buffer = self.pending
        cdef void *grown
        if buffer.part_count + count > buffer.part_capacity:
            grown = realloc(buffer.parts, (2 * buffer.part_capacity + count) * sizeof(Part))
            if grown == NULL:
                raise MemoryError
            buffer.parts = <Part *> grown
            buffer.part_capacity = 2 * buffer.part_capacity + count
        return 0

    cdef int _begin_part(self, Segment *segment, uint64_t offset, bint create) except -1:
        cdef Buffer *buffer = self.pending
        cdef Part *part
        self._reserve_parts(1)
        part = &buffer.parts[buffer.part_count]
        memset(part, 0, sizeof(Part))
        part.segment = segment
        part.offset = offset
        part.start = buffer.size
        part.create = create
        buffer.part_count += 1
        return 0

    cdef char *_reserve(self, size_t length) except NULL:
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

    cdef int _append_control(self, int kind, uint64_t seq, const uint64_t *ranges, uint32_t count) except -1:
        cdef size_t length = HEAD_SIZE + 16 * <size_t> count
        cdef RecordHead *head = <RecordHead *> self._append(self.last_seq + 1, length)
        memset(head, 0, HEAD_SIZE)
        head.length = <uint32_t> length
        head.seq = seq
        head.time = self.last_time
        head.kind = kind
        if count:
            memcpy(<char *> head + HEAD_SIZE, ranges, 16 * <size_t> count)
        seal_record(head, self.active.salt)
        return 0
