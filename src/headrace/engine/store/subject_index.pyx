"""The subjects of a log: how many live messages each has, and its first and last sequence.

One array of entries, and an open-addressing table of u32 places in it. A subject costs 48 bytes for its entry, 8 to 16
for its places in the table, and its text; nothing is spent per message. Removal closes the gap in the table, so that no
tombstones accumulate, and the entry goes to a list of free ones.

Finding the new first message of a subject after its first was removed means reading records, so it is deferred until
somebody asks: `first_stale` says that `first` is only a lower bound (and `last_stale` that `last` is an upper one).
The log resolves them.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.basics.hashing cimport hash_of

import os

cdef uint32_t FIRST_TABLE = 16


cdef class SubjectIndex:
    def __cinit__(self):
        self.seed = int.from_bytes(os.urandom(8), 'little')
        self.mask = FIRST_TABLE - 1
        self.table = <uint32_t *> malloc(FIRST_TABLE * sizeof(uint32_t))
        if self.table == NULL:
            raise MemoryError
        memset(self.table, 0, FIRST_TABLE * sizeof(uint32_t))

    def __dealloc__(self):
        if self.table != NULL:
            self.clear()
        free(self.table)
        free(self.entries)

    cdef void clear(self) noexcept:
        cdef uint32_t k
        for k in range(self.used):
            if self.entries[k].text != NULL:
                free(self.entries[k].text)
        memset(self.table, 0, (<size_t> self.mask + 1) * sizeof(uint32_t))
        self.used = 0
        self.free_place = 0
        self.count = 0
        self.text_bytes = 0

    cdef uint32_t place_of(self, const Entry *entry) noexcept:
        """A subject keeps its place as long as it has messages."""
        return <uint32_t> (entry - self.entries)

    cdef Entry *find(self, const char *subject, uint32_t length) noexcept:
        cdef uint32_t hashed = <uint32_t> hash_of(subject, length, self.seed)
        cdef uint32_t slot = hashed & self.mask
        cdef Entry *entry
        while self.table[slot]:
            entry = &self.entries[self.table[slot] - 1]
            if entry.hash == hashed and entry.length == length and memcmp(entry.text, subject, length) == 0:
                return entry
            slot = (slot + 1) & self.mask
        return NULL

    cdef Entry *add(self, const char *subject, uint32_t length) except NULL:
        """The entry of a subject; a new one has no messages. It is valid until the next add()."""
        cdef Entry *entry = self.find(subject, length)
        cdef uint32_t slot, place
        cdef char *text
        if entry != NULL:
            return entry
        if 2 * (<uint64_t> self.count + 1) > <uint64_t> self.mask + 1:
            self._grow()
        text = <char *> malloc(length if length else 1)
        if text == NULL:
            raise MemoryError
        if self.free_place:
            place = self.free_place - 1
            self.free_place = self.entries[place].hash
        else:
            if self.used == self.capacity:
                try:
                    self._grow_entries()
                except MemoryError:
                    free(text)
                    raise
            place = self.used
            self.used += 1
        entry = &self.entries[place]
        memset(entry, 0, sizeof(Entry))
        memcpy(text, subject, length)
        entry.text = text
        entry.length = length
        entry.hash = <uint32_t> hash_of(subject, length, self.seed)
        slot = entry.hash & self.mask
        while self.table[slot]:
            slot = (slot + 1) & self.mask
        self.table[slot] = place + 1
        self.count += 1
        self.text_bytes += length
        return entry

    cdef void discard(self, Entry *entry) noexcept:
        """Forget a subject. Later entries of its run in the table move back over the gap."""
        cdef uint32_t place = <uint32_t> (entry - self.entries)
        cdef uint32_t hole = entry.hash & self.mask
        cdef uint32_t slot, home
        while self.table[hole] != place + 1:
            hole = (hole + 1) & self.mask
        slot = hole
        while True:
            slot = (slot + 1) & self.mask
            if self.table[slot] == 0:
                break
            home = self.entries[self.table[slot] - 1].hash & self.mask
            if ((slot - home) & self.mask) >= ((slot - hole) & self.mask):
                self.table[hole] = self.table[slot]
                hole = slot
        self.table[hole] = 0
        self.count -= 1
        self.text_bytes -= entry.length
        free(entry.text)
        memset(entry, 0, sizeof(Entry))
        entry.hash = self.free_place
        self.free_place = place + 1

    cdef int _grow_entries(self) except -1:
        cdef uint32_t capacity = self.capacity + self.capacity // 2 + 8
        cdef void *grown = realloc(self.entries, <size_t> capacity * sizeof(Entry))
        if grown == NULL:
            raise MemoryError
        self.entries = <Entry *> grown
        self.capacity = capacity
        return 0

    cdef int _grow(self) except -1:
        cdef uint64_t size = 2 * (<uint64_t> self.mask + 1)
        cdef uint32_t mask = <uint32_t> (size - 1), k, slot
        cdef uint32_t *grown = <uint32_t *> malloc(size * sizeof(uint32_t))
        if grown == NULL:
            raise MemoryError
        memset(grown, 0, size * sizeof(uint32_t))
        for k in range(self.used):
            if self.entries[k].text != NULL:
                slot = self.entries[k].hash & mask
                while grown[slot]:
                    slot = (slot + 1) & mask
                grown[slot] = k + 1
        free(self.table)
        self.table = grown
        self.mask = mask
        return 0
