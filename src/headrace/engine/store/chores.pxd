# Keeping the files small. The theory is at the top of chores.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.store.committer cimport Job
from headrace.engine.store.erasing cimport Erasures
from headrace.engine.segments.segment cimport Ranges, Segment
from headrace.engine.store.store cimport Store
from headrace.engine.store.writer cimport Writer

cdef enum Outcome:
    CONTINUE                       # what finish() returns: the next chore may start,
    ROLLED_BACK                    # a sync failed in the meantime, and the log went back to what is on disk,
    SYNC_FAILED                    # the chore's own sync failed: job.error

@cython.final
cdef class Chores:
    cdef Store store
    cdef Writer writer
    cdef Erasures erasures
    cdef Job *job                  # index, rewrite, unlink, compress or erase
    cdef bint planned              # the job is to be handed over when the group in flight is on disk
    cdef uint64_t epoch            # how often files were removed or rewritten
    cdef double rewrite_at         # not before
    cdef bint directory_unsynced   # the directory could not be synced after a file was replaced
    cdef uint64_t head_seen        # where the log began when plan() last looked,
    cdef double head_moved_at      # and when that was last another sequence than before
    cdef bint compress             # sealed segments
    cdef double compress_at        # not before
    cdef bint compress_failing     # and that has been reported

    cdef int plan_with_group(self) except -1
    cdef int start_planned(self) except -1
    cdef int start(self) except -1
    cdef int start_erasing(self) except -1
    cdef Outcome finish(self, Job *job) except *
    cdef void cancel(self) noexcept
    cdef int write_indexes(self) except -1

    cdef bint _is_busy(self) noexcept
    cdef bint _plan(self) except -1
    cdef bint _plan_something(self) except -1
    cdef bint _plan_unlink(self) except -1
    cdef bint _plan_rewrites(self, bint *waiting) except -1
    cdef bint _plan_rewrite(self, uint32_t k) except -1
    cdef bint _plan_index(self) noexcept
    cdef bint _plan_compress(self) except -1
    cdef bint _collect_needed(self, uint32_t k, Ranges *needed) except -1
    cdef void _note_head(self) noexcept
    cdef bint _is_leaving(self, const Segment *segment) noexcept
    cdef int _finish_index(self, Job *job) except -1
    cdef int _finish_rewrite(self, Job *job) except -1
    cdef bint _finish_unlink(self, Job *job) except -1
    cdef bint _finish_compress(self, Job *job) except -1
    cdef bint _finish_erase(self, Job *job) except -1
    cdef bint _adopt_packing(self, Job *job) except -1
    cdef int _replace(self, Segment *old, Segment *fresh) except -1


cdef int compact_memory(Store store) except -1
