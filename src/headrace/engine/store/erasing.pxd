# Overwriting the texts of deleted messages. The theory is at the top of erasing.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.store.committer cimport Erasure, Job
from headrace.engine.segments.segment cimport Segment
from headrace.engine.store.store cimport Store

@cython.final
cdef class Erasures:
    cdef Store store
    cdef Erasure *queue            # texts that are to be overwritten
    cdef uint32_t count
    cdef uint32_t capacity
    cdef list waiting              # callbacks of when_erased
    cdef str failure               # why the last try failed; None: it did not
    cdef double retry_at           # not before

    cdef int add(self, uint64_t seq) except -1
    cdef Segment *next_due(self, Job *job) except? NULL
    cdef int finish(self, Job *job) except -1
    cdef int report_if_done(self) except -1
    cdef int postpone(self, str reason) except -1
    cdef void follow_rewrite(self, const Segment *old, const Segment *fresh) noexcept
    cdef void drop_uncommitted(self) noexcept
    cdef list take_callbacks(self)
    cdef Segment *_segment_of(self, const Erasure *erasure) noexcept
    cdef void _remove(self, const Job *job) noexcept
    cdef int _report(self, str failure) except -1
