# The log of one stream. The theory is at the top of log.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.store.appending cimport Appender
from headrace.engine.store.committer cimport Buffer, Committer, Erasure, Job
from headrace.engine.core.filters cimport Filter
from headrace.engine.store.segments cimport Ranges, Segment
from headrace.engine.store.store cimport Store, Watcher
from headrace.engine.store.subject_index cimport Entry
from headrace.engine.store.windows cimport Record, Window

cdef class Log(Appender):
    cdef readonly str failure      # why it takes no more writes; None: it does
    cdef readonly str refusal      # why the last store() returned 0
    cdef public object on_committed
    cdef public object on_warning  # called with a line about what did not work and is not lost
    cdef Committer committer
    cdef Job *commit_job
    cdef Job *sync_job
    cdef Job *rollback_job
    cdef Job *chore                # index, rewrite, unlink, compress or erase
    cdef uint64_t epoch            # how often files were removed or rewritten
    cdef bint chore_planned        # it is to be handed over when the group in flight is committed
    cdef Ranges removed            # interior removals that are not in a record so far
    cdef uint64_t logged_first     # what the last FIRST record, or the head of the last segment, said
    cdef bint wants_commit
    cdef bint sync_due             # something was written while sync_job was under way
    cdef uint64_t groups           # handed to the committer so far,
    cdef uint64_t groups_done      # and on disk
    cdef bint recovers             # the failure was a full disk, or the like
    cdef bint rolling_back         # memory does not agree with the disk so far: see failing.pyx
    cdef bint retryable            # it does, and there may be space again
    cdef double retry_at
    cdef list waiting_failed       # callbacks that are told of the failure when it does
    cdef Log shadow                # what a rollback reads
    cdef list found                # by the rollback, if this is the shadow
    cdef Erasure *unerased         # texts that are to be overwritten: see erasing.pyx
    cdef uint32_t unerased_count
    cdef uint32_t unerased_capacity
    cdef list waiting_erased
    cdef readonly str erase_failure    # why the last try failed; None: it did not
    cdef double erase_at           # not before
    cdef double rewrite_at         # not before
    cdef bint directory_unsynced   # the directory could not be synced after a file was replaced
    cdef uint64_t head_seen        # where the log began when plan_chore() last looked,
    cdef double head_moved_at      # and when that was last another sequence than before
    cdef bint behind               # limits could not be enforced: a record could not be read
    cdef bytes behind_subject      # which was after a message of this subject
    cdef list waiting              # callbacks of when_committed: for what is pending,
    cdef list waiting_flight       # and for what is in flight
    cdef long long max_msgs, max_bytes, max_msgs_per_subject
    cdef bint discard_new, discard_new_per_subject
    cdef bint enforcing            # limits were lowered, and enforce() is not done,
    cdef bint enforcing_subjects   # also that of the subjects,
    cdef uint64_t enforced_seq     # whose pass is here
    cdef bint opened
    cdef bint compress             # sealed segments
    cdef double compress_at        # not before
    cdef bint compress_failing     # and that was said
    cdef uint64_t plain_segment_bytes

    # For the sinks and the cursors. read() and seek() are in Store:
    #   bint read(Window, uint64_t seq, Record *) except -1                  False: not there
    #   bint seek(Window, uint64_t seq, Filter, Record *) except -1          the next live committed match at or after seq
    cdef uint64_t store(self, const char *subject, uint32_t subject_length, const char *body,
                        uint32_t header_length, Py_ssize_t size, int64_t time) except? 0
    cdef bint has_pending(self) noexcept
    cdef size_t backlog(self) noexcept
    cpdef int commit(self) except -1

    cdef uint64_t _store(self, const char *subject, uint32_t subject_length, const char *body,
                         uint32_t header_length, Py_ssize_t size, int64_t time, uint64_t seq) except? 0
    cdef str _refuse(self, const char *subject, uint32_t subject_length, const char *body, uint32_t header_length,
                     Py_ssize_t size)
    cdef int _enforce_subject(self, const char *subject, uint32_t length) except -1
    cdef bint _keep_limits(self, const char *subject, uint32_t length) except -1
    cdef bint _catch_up(self) except -1
    cdef bint _has_longer_subject(self) noexcept
    cdef int _remove_first(self) except -1
    cdef int _log_removals(self) except -1
    cdef bint _first_moved(self) noexcept
    cdef bint _try_again(self) except -1
    cdef int _commit_memory(self) except -1
    cdef int _committed(self) except -1
    cdef int _tidy(self) except -1
    cdef bint _plan_chore(self) except -1
    cdef int _note_found(self, list found) except -1
    cdef void clear_unwritten(self) noexcept
    cdef int _sync_later(self) except -1
    cdef int _call(self, list callbacks, object failure) except -1
    cdef void _reset(self) noexcept
    cdef int _bury(self, Segment *segment) except -1
    cdef int _check_open(self) except -1
    cdef int _set_compression(self, str compression) except -1
    cdef int _warn_of_compression(self, str reason) except -1
