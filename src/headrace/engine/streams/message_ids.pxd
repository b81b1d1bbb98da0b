# The ids of the messages of the last minutes. The theory is at the top of message_ids.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef struct Remembered:
    uint64_t hash
    uint64_t seq                   # 0: forgotten before its time
    int64_t time

cdef class MessageIds:
    cdef Remembered *ring          # in the order of time
    cdef uint64_t ring_mask
    cdef uint64_t oldest           # runs on; & ring_mask is the place
    cdef uint64_t newest           # one behind the last
    cdef uint32_t *table           # 1 + the place in the ring, by hash; 0: free
    cdef uint64_t table_mask
    cdef uint64_t seed
    cdef readonly uint64_t count

    cdef uint64_t hash(self, const char *text, Py_ssize_t length) noexcept
    cdef uint64_t find(self, uint64_t hashed, uint64_t *place) noexcept
    cdef int add(self, uint64_t hashed, uint64_t seq, int64_t time) except -1
    cdef void forget(self, uint64_t place) noexcept
    cdef void forget_before(self, int64_t time) noexcept
    cdef void forget_after(self, uint64_t seq) noexcept
    cdef void clear(self) noexcept
    cdef int _grow(self) except -1
    cdef void _enter(self, uint64_t position) noexcept
    cdef void _leave(self, uint64_t position) noexcept
    cdef void _unlink(self, uint64_t hole) noexcept
