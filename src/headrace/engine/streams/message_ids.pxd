# The ids of the messages of the last minutes. The theory is at the top of message_ids.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

DEF BLOCK_IDS = 64

cdef struct Remembered:
    Remembered *next               # in the same bucket
    uint64_t hash
    uint64_t seq
    int64_t time

cdef struct Block:                 # of ids, in the order of time
    Block *older
    Block *newer
    uint32_t first                 # those before it are forgotten
    uint32_t end                   # one behind the last
    Remembered ids[BLOCK_IDS]

ctypedef uint64_t Bucket           # the first of its ids, and in the bits that an address does not use, which may be in it

cdef class MessageIds:
    cdef Block *oldest
    cdef Block *newest
    cdef Bucket **segments         # SEGMENT_BUCKETS in each
    cdef uint64_t segment_capacity
    cdef uint64_t buckets
    cdef uint64_t rounded          # the largest power of two that is not above `buckets`
    cdef int64_t horizon           # what is not younger is not found any more
    cdef uint64_t seed
    cdef readonly uint64_t count

    cdef uint64_t hash(self, const char *text, Py_ssize_t length) noexcept
    cdef void fetch(self, uint64_t hashed) noexcept
    cdef Remembered *find(self, uint64_t hashed, Remembered *after) noexcept
    cdef int reserve(self) except -1
    cdef int add(self, uint64_t hashed, uint64_t seq, int64_t time) except -1
    cdef bint forget_before(self, int64_t time) noexcept
    cdef void forget_after(self, uint64_t seq) noexcept
    cdef void clear(self) noexcept
    cdef Bucket *_bucket(self, uint64_t number) noexcept
    cdef Bucket *_bucket_of(self, uint64_t hashed) noexcept
    cdef bint _has_room_for_bucket(self) noexcept
    cdef void _split(self) noexcept
    cdef void _merge(self) noexcept
    cdef void _unlink(self, Remembered *entry) noexcept
