# Appending and committing. The theory is at the top of writer.pyx.

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.store.committer cimport Committer, Job
from headrace.engine.store.groups cimport Groups
from headrace.engine.segments.segment cimport Segment
from headrace.engine.store.store cimport Store
from headrace.engine.store.subject_index cimport Entry

@cython.final
cdef class Writer:
    cdef Store store
    cdef Groups groups             # the store's
    cdef Committer committer       # None: the caller's thread does every job
    cdef Job *commit_job
    cdef Job *sync_job
    cdef bint wants_commit         # as soon as the group in flight is on disk
    cdef bint sync_due             # something was written while sync_job was under way
    cdef str failure               # why nothing is written any more; None: it is
    cdef bint recovers             # the failure was a full disk, or the like
    cdef bint retryable            # it was such a failure, the store agrees with the disk again, and there may be space
    cdef double retry_at           # not before
    cdef list waiting              # callbacks of when_committed: for what is pending,
    cdef list waiting_in_flight    # and for what is in flight

    cdef Entry *append_message(self, const char *subject, uint32_t subject_length, const char *body,
                               uint32_t header_length, Py_ssize_t size, int64_t time, uint64_t seq) except NULL
    cdef char *_room(self, uint64_t seq, size_t length) except NULL
    cdef void _withdraw(self, size_t length) noexcept
    cdef char *_room_in_memory(self, uint64_t seq, size_t length) except NULL
    cdef int _begin_segment(self, uint64_t seq) except -1
    cdef int append_control(self, int kind, uint64_t seq, const uint64_t *ranges, uint32_t count) except -1
    cdef int _append_removals(self) except -1

    cdef bint has_pending(self) noexcept
    cdef bint _first_moved(self) noexcept
    cdef bint begin_commit(self) except -1
    cdef int submit(self) except -1
    cdef list finish_commit(self)
    cdef int sync_later(self) except -1
    cdef bint wait_for_sync(self, const Segment *segment) except -1
    cdef list take_callbacks(self)

    cdef int fail(self, int error, bint final) except -1
    cdef void rolled_back(self) noexcept
    cdef bint try_again(self) except -1
    cdef void pause(self) noexcept
