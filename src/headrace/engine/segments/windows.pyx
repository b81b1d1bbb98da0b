"""Windows: a reader's buffer of the file it is reading.

Messages are mostly read in sequence, so a window reads ahead, and the next records cost no system call. One for single
records reads little, and more (up to `most`) only where the next one follows: rows kv-put and kv-get. A record is
served only if its checksum is right: what the disk did to it since it was written is found out here. (CRC-32C by the
processor's own instruction takes about 20 ns for a small record.)

Of a compressed segment, the blocks that a record is in are expanded into the window; the next one only when a record is
asked for that is in it. A window that does not read far ahead expands no more than it needs.

`pread` into memory of ours, and not a mapping of the file: where a mapped page cannot be read, the process dies.
"""

from libc.errno cimport EINTR, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from posix.unistd cimport pread

from headrace.engine.segments.packing cimport BLOCK, load_blocks
from headrace.engine.segments.record cimport HEAD_SIZE, MESSAGE, RecordHead, is_intact, is_well_formed, prepare_crc32c

import os

prepare_crc32c()


cdef class Window:
    def __cinit__(self, size_t ahead=65536, size_t most=0):
        self.ahead = ahead if ahead > HEAD_SIZE else HEAD_SIZE
        self.most = most if most > self.ahead else self.ahead

    def __dealloc__(self):
        free(self.held.data)

    cpdef void release(self) noexcept:
        free(self.held.data)
        self.held.data = NULL
        self.held.capacity = 0
        self.held.size = 0

    cdef int load(self, Segment *segment, uint32_t offset, Record *record, bint may_read) except -1:
        """View the message at `offset` of a file. 0: it is damaged, or not in the window. Raises OSError if it cannot be read."""
        cdef const RecordHead *head
        cdef size_t wanted = HEAD_SIZE
        if segment.number != self.number or segment.salt != self.salt:
            self.held.size = 0
            self.number = segment.number
            self.salt = segment.salt
        # At most twice: the head first, then the whole record if it is longer than what was read.
        while True:
            if offset < self.held.start or offset + wanted > self.held.start + self.held.size:
                if not may_read:
                    return 0
                self._fill(segment, offset, wanted)
                if offset + wanted > self.held.start + self.held.size:
                    return 0
            head = <const RecordHead *> (self.held.data + (offset - self.held.start))
            if head.length <= wanted:
                break
            if head.length > segment.written - offset:
                return 0
            wanted = head.length
        if not is_well_formed(head, wanted) or head.kind != MESSAGE or not is_intact(head, segment.salt):
            return 0
        view(head, record)
        return 1

    cdef bint peek(self, Segment *segment, uint32_t offset, Record *record) except -1:
        """View a damaged record as far as its lengths make sense; False: they do not. Its bytes prove nothing."""
        cdef const RecordHead *head
        cdef size_t size
        self.invalidate()
        self.number = segment.number
        self.salt = segment.salt
        try:
            self._fill(segment, offset, HEAD_SIZE)
        except OSError:
            return False
        if not self.held.start <= offset < self.held.start + self.held.size:
            return False
        size = self.held.start + self.held.size - offset
        head = <const RecordHead *> (self.held.data + (offset - self.held.start))
        if size < HEAD_SIZE or not is_well_formed(head, segment.written - offset) or head.kind != MESSAGE \
                or size < HEAD_SIZE + <size_t> head.subject_length:
            return False
        view(head, record)
        return True

    cdef void invalidate(self) noexcept:
        """Its contents must be re-read."""
        self.held.size = 0

    cdef int _fill(self, Segment *segment, uint32_t offset, size_t wanted) except -1:
        cdef size_t size = wanted if wanted > self.ahead else self.ahead
        cdef Py_ssize_t got
        cdef int error
        if segment.packing != NULL:
            if wanted < self.ahead < BLOCK:
                wanted = self.ahead
            error = load_blocks(segment.fd, segment.packing, offset, wanted, self.ahead >= BLOCK, &self.held)
            if error:
                raise OSError(error, f"cannot read segment {segment.number}: {os.strerror(error)}")
            return 0
        if self.held.start < offset <= self.held.start + self.held.size and size < self.most:
            size = self.most       # it follows what was read before
        if size > segment.written - offset:
            size = segment.written - offset
        self.held.size = 0
        self.held.start = offset
        if size > self.held.capacity or self.held.capacity > 4 * self.most and size <= self.most:
            free(self.held.data)
            self.held.capacity = 0
            self.held.data = <char *> malloc(size if size > self.ahead else self.ahead)
            if self.held.data == NULL:
                raise MemoryError
            self.held.capacity = size if size > self.ahead else self.ahead
        while self.held.size < size:
            got = pread(segment.fd, self.held.data + self.held.size, size - self.held.size, offset + self.held.size)
            if got < 0:
                if errno == EINTR:
                    continue
                raise OSError(errno, f"cannot read segment {segment.number}: {os.strerror(errno)}")
            if got == 0:
                break
            self.held.size += got
        return 0


cdef void view(const RecordHead *head, Record *record) noexcept:
    record.seq = head.seq
    record.time = head.time
    record.previous = head.previous
    record.subject = <const char *> head + HEAD_SIZE
    record.subject_length = head.subject_length
    record.headers = record.subject + head.subject_length
    record.header_length = head.header_length
    record.payload = record.headers + head.header_length
    record.payload_length = head.length - HEAD_SIZE - head.subject_length - head.header_length
