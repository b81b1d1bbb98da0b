# The log of one stream. The theory is at the top of log.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.committer cimport Buffer, Committer, Job
from headrace.engine.filters cimport Filter
from headrace.engine.segments cimport Ranges, Segment
from headrace.engine.subject_index cimport Entry, SubjectIndex
from headrace.engine.windows cimport Record, Window

cdef class Watcher:
    # What a consumer's cursor inherits: the log keeps num_pending exact at every commit and removal.
    cdef public uint64_t next_seq
    cdef public long long num_pending
    cdef public Filter filter

cdef class Log:
    cdef readonly uint64_t first_seq, last_seq, committed_seq
    cdef readonly uint64_t count
    cdef readonly uint64_t byte_count
    cdef readonly int64_t last_time
    cdef readonly str failure      # why it takes no more writes; None: it does
    cdef readonly str refusal      # why the last store() returned 0
    cdef readonly str directory    # None: in memory
    cdef readonly list damages     # one line for each damage found so far
    cdef public object on_committed

    cdef Committer committer
    cdef SubjectIndex index
    cdef uint64_t segment_bytes
    cdef Segment **segments        # by number, which is by sequence, too
    cdef uint32_t segment_count
    cdef uint32_t segment_capacity
    cdef Segment *active           # the last one; NULL before recover() and after close()
    cdef uint64_t next_number
    cdef Buffer *pending           # what was written since the last commit()
    cdef Buffer *flight            # what the committer is writing
    cdef Job *commit_job
    cdef Job *sync_job
    cdef Job *chore                # index, rewrite or unlink
    cdef Ranges removed            # interior removals that are not in a record so far
    cdef uint64_t logged_first     # what the last FIRST record, or the head of the last segment, said
    cdef bint wants_commit
    cdef bint tidy_due
    cdef bint retryable            # the failure was a full disk
    cdef double retry_at
    cdef list waiting              # callbacks of when_committed: for what is pending,
    cdef list waiting_flight       # and for what is in flight
    cdef list watchers
    cdef uint64_t first_time_seq   # the message whose time first_time_value is
    cdef int64_t first_time_value
    cdef Window head_window        # of removals at the head
    cdef Window probe              # of single records here and there
    cdef Window reader             # of next() and scans
    cdef Segment *graveyard        # memory segments that views may still point into, until the next commit()
    cdef long long max_msgs, max_bytes, max_msgs_per_subject
    cdef bint discard_new, discard_new_per_subject
    cdef bint closed

    cdef uint64_t store(self, const char *subject, uint32_t subject_length, const char *body,
                        uint32_t header_length, Py_ssize_t size, int64_t time) except? 0
    cdef bint read(self, Window window, uint64_t seq, Record *record) except -1
    cdef bint seek(self, Window window, uint64_t seq, Filter filter, Record *record) except -1
    cdef bint has_pending(self) noexcept
    cpdef int commit(self) except -1
