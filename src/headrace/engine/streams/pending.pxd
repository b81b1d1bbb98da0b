# What a consumer has delivered, and nobody has acknowledged yet. The theory is at the top of pending.pyx.

from libc.stdint cimport int64_t, uint64_t

cdef struct Delivery:
    uint64_t seq
    uint64_t consumer_seq          # GONE: acknowledged, or moved
    int64_t time


cdef class Pending:
    cdef Delivery *deliveries      # in the order of sequences, from `first` to before `end`
    cdef Py_ssize_t first
    cdef Py_ssize_t end
    cdef Py_ssize_t capacity
    cdef Py_ssize_t in_order       # those between that are not gone
    cdef Py_ssize_t next           # the one after the last that was removed: clients acknowledge one after another
    cdef dict moved                # the others, sequence -> (consumer sequence, time)
    cdef uint64_t changes

    cdef int add(self, uint64_t seq, uint64_t consumer_seq, int64_t time) except -1
    cdef bint remove(self, uint64_t seq, uint64_t *consumer_seq) except -1
    cdef Py_ssize_t _find(self, uint64_t seq) noexcept
    cdef Py_ssize_t _first_from(self, uint64_t seq) noexcept
    cdef int _remove_at(self, Py_ssize_t at) except -1
    cdef int _make_room(self) except -1
    cdef int _grow(self, Py_ssize_t capacity) except -1
    cdef int _shrink(self, Py_ssize_t capacity) noexcept
    cdef bytes _in_order(self)
    cdef list _still_pending(self, bytes seqs, Py_ssize_t start, Py_ssize_t end)
    cdef list _numbers(self, Py_ssize_t start, Py_ssize_t end)
