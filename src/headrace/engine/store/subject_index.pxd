# Which subjects a log holds, and where each begins and ends. The theory is at the top of subject_index.pyx.

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef struct Entry:
    uint64_t first                 # the first live message; a lower bound of it while first_stale
    uint64_t last                  # the last live message; an upper bound of it while last_stale
    uint64_t count                 # live messages; 0: this place is free
    char *text                     # the subject
    uint32_t length
    uint32_t hash                  # of a free place: the next free one
    uint8_t first_stale
    uint8_t last_stale

@cython.final
cdef class SubjectIndex:
    cdef Entry *entries
    cdef uint32_t used             # places of entries that were ever used
    cdef uint32_t capacity
    cdef uint32_t free_place       # the first free one, plus 1; 0: none
    cdef uint32_t *table           # places, plus 1
    cdef uint32_t mask
    cdef uint64_t seed
    cdef readonly uint32_t count
    cdef readonly size_t text_bytes

    cdef uint32_t place_of(self, const Entry *entry) noexcept
    cdef Entry *find(self, const char *subject, uint32_t length) noexcept
    cdef Entry *add(self, const char *subject, uint32_t length) except NULL
    cdef void discard(self, Entry *entry) noexcept
    cdef void clear(self) noexcept
    cdef int _grow(self) except -1
    cdef int _grow_entries(self) except -1


cdef inline void count_message(Entry *entry, uint64_t seq) noexcept nogil:
    """Add a message of the subject after all others."""
    if entry.count == 0:
        entry.first = seq
    entry.count += 1
    entry.last = seq
