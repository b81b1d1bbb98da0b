"""The ids of the messages of the last minutes, so that a message that is sent again is not stored again.

A stream that takes 300,000 messages a second remembers 36 million ids in the usual two minutes. So an id is only a hash
of 64 bits here, next to the sequence and the time of its message: 24 bytes in a ring that is in the order of time, and
8 bytes in a table that finds it. The id itself is in the headers of the message, where whoever finds a hash
compares it (stream_sink.pyx).
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from headrace.engine.core.hashing cimport hash_of

import os

cdef uint64_t FIRST_RING = 16
cdef uint64_t LARGEST_RING = 1 << 31


cdef class MessageIds:
    def __cinit__(self):
        self.seed = int.from_bytes(os.urandom(8), 'little')

    def __dealloc__(self):
        free(self.ring)
        free(self.table)

    cdef uint64_t hash(self, const char *text, Py_ssize_t length) noexcept:
        return hash_of(text, length, self.seed)

    cdef uint64_t find(self, uint64_t hashed, uint64_t *place) noexcept:
        """The sequence of a message with this hash, looked for from `place` of the table on; 0: none (any more).

        Start with place 0. Afterwards it says where to go on, and what to give to `forget`, plus one.
        """
        cdef Remembered *entry
        cdef uint64_t at
        if self.count == 0:
            return 0
        at = place[0] & self.table_mask if place[0] else hashed & self.table_mask
        while self.table[at]:
            entry = &self.ring[self.table[at] - 1]
            at += 1
            place[0] = at
            at &= self.table_mask
            if entry.hash == hashed:
                return entry.seq
        return 0

    cdef int add(self, uint64_t hashed, uint64_t seq, int64_t time) except -1:
        cdef Remembered *entry
        if self.ring == NULL or self.newest - self.oldest > self.ring_mask:
            self._grow()
        entry = &self.ring[self.newest & self.ring_mask]
        entry.hash = hashed
        entry.seq = seq
        entry.time = time
        self._enter(self.newest)
        self.newest += 1
        self.count += 1
        return 0

    cdef void forget(self, uint64_t place) noexcept:
        """`place`: what `find` left, for the entry that it found."""
        cdef uint64_t at = (place - 1) & self.table_mask
        self.ring[self.table[at] - 1].seq = 0
        self._unlink(at)
        self.count -= 1

    cdef void forget_before(self, int64_t time) noexcept:
        """Forget what is not younger than this."""
        while self.oldest != self.newest and self.ring[self.oldest & self.ring_mask].time <= time:
            self._leave(self.oldest)
            self.oldest += 1
        if self.oldest == self.newest and self.ring_mask >= 4096:
            self.clear()

    cdef void forget_after(self, uint64_t seq) noexcept:
        """Forget the messages above a sequence: they are not stored after all."""
        while self.oldest != self.newest and (self.ring[(self.newest - 1) & self.ring_mask].seq > seq
                                              or self.ring[(self.newest - 1) & self.ring_mask].seq == 0):
            self.newest -= 1
            self._leave(self.newest)

    cdef void clear(self) noexcept:
        free(self.ring)
        free(self.table)
        self.ring = NULL
        self.table = NULL
        self.ring_mask = self.table_mask = self.oldest = self.newest = self.count = 0

    cdef int _grow(self) except -1:
        """Twice the room, in the same order; the table is rebuilt."""
        cdef uint64_t size = 2 * (self.ring_mask + 1) if self.ring != NULL else FIRST_RING
        cdef uint64_t held = self.newest - self.oldest, k
        cdef Remembered *ring = NULL
        cdef uint32_t *table = NULL
        if size <= LARGEST_RING:
            ring = <Remembered *> malloc(size * sizeof(Remembered))
            table = <uint32_t *> calloc(2 * size, sizeof(uint32_t))
        if ring == NULL or table == NULL:
            free(ring)
            free(table)
            raise MemoryError
        for k in range(held):
            ring[k] = self.ring[(self.oldest + k) & self.ring_mask]
        free(self.ring)
        free(self.table)
        self.ring = ring
        self.table = table
        self.ring_mask = size - 1
        self.table_mask = 2 * size - 1
        self.oldest = 0
        self.newest = held
        for k in range(held):
            if ring[k].seq:
                self._enter(k)
        return 0

    cdef void _enter(self, uint64_t position) noexcept:
        cdef uint64_t at = self.ring[position & self.ring_mask].hash & self.table_mask
        while self.table[at]:
            at = (at + 1) & self.table_mask
        self.table[at] = <uint32_t> ((position & self.ring_mask) + 1)

    cdef void _leave(self, uint64_t position) noexcept:
        """Take an entry that is about to be dropped out of the table, unless it was forgotten before."""
        cdef uint32_t wanted = <uint32_t> ((position & self.ring_mask) + 1)
        cdef uint64_t at = self.ring[position & self.ring_mask].hash & self.table_mask
        if self.ring[position & self.ring_mask].seq == 0:
            return
        while self.table[at] != wanted:
            at = (at + 1) & self.table_mask
        self._unlink(at)
        self.count -= 1

    cdef void _unlink(self, uint64_t hole) noexcept:
        """Delete from the table by moving later entries of the run back, so that no tombstones pile up."""
        cdef uint64_t at = hole, home
        while True:
            at = (at + 1) & self.table_mask
            if self.table[at] == 0:
                break
            home = self.ring[self.table[at] - 1].hash & self.table_mask
            # An entry may move to the hole unless its home lies between the hole and where it stands.
            if ((at - home) & self.table_mask) >= ((at - hole) & self.table_mask):
                self.table[hole] = self.table[at]
                hole = at
        self.table[hole] = 0
