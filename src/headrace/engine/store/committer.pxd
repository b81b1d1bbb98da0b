# The threads that write and sync. The theory is at the top of committer.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.basics.threads cimport pthread_cond_t, pthread_mutex_t, pthread_t
from headrace.engine.store.commit_figures cimport CommitFigures
from headrace.engine.store.groups cimport Buffer
from headrace.engine.segments.segment cimport Packing, Segment

cdef struct Erasure:
    # A record on disk whose text is to be overwritten.
    uint64_t number                # of its segment,
    uint32_t salt                  # which distinguishes a rewritten one from its predecessor
    uint32_t offset
    uint32_t length
    uint64_t seq
    uint64_t group                 # it is removed for good when this group is on disk

cdef enum JobKind:
    COMMIT, SYNC, ROLLBACK, INDEX, REWRITE, UNLINK, COMPRESS, ERASE

cdef enum JobStage:
    STAGE_NONE, STAGE_WRITE, STAGE_SYNC

cdef struct Job:
    Job *next
    JobKind kind
    void *owner                    # the Log
    char *directory
    bint under_way                 # for the loop's thread: submitted, and not yet taken back
    bint finished                  # under the mutex: the thread has finished with it
    JobStage stage                 # where it failed
    int error                      # errno; 0: done
    int64_t sync_nanoseconds       # COMMIT, SYNC: how long the sync took; 0: there was none
    Buffer *buffer                 # COMMIT: all of this,
    bint sync                      # and sync it
    int fd                         # SYNC: this file
    Segment *segment               # INDEX, REWRITE, COMPRESS, ERASE: this one
    bint damaged                   # INDEX, REWRITE, COMPRESS: a record in it is, so it stays as it is
    bint directory_first           # REWRITE, UNLINK: the directory has to be synced before
    bint directory_unsynced        # REWRITE, ERASE: the new file has its name, but that may not outlive a power failure
    uint64_t *numbers              # UNLINK: these
    uint32_t number_count
    uint64_t *survivors            # REWRITE: the messages that stay, each its sequence and its offset
    uint32_t survivor_count
    uint64_t *ranges               # and the removals that still matter
    uint32_t range_count
    uint64_t first_seq
    int64_t last_time
    Segment *replacement           # the result; NULL: it failed
    Packing *packing               # COMPRESS, ERASE: the new places of its blocks; NULL: unchanged
    Erasure *erasures              # ERASE: these, all in `segment`
    uint32_t erasure_count

cdef inline bint fail(Job *job, JobStage stage, int error) noexcept nogil:
    """Record where a job failed, if there is an error. Returns whether there is one."""
    if error:
        job.error = error
        job.stage = stage
    return error != 0

cdef class JobOwner:
    cdef int on_done(self, Job *job) except -1
    cdef void work(self, Job *job) noexcept

cdef struct Workshop:
    # What the threads share; they touch nothing else.
    pthread_mutex_t mutex
    pthread_cond_t wanted          # there is a job
    pthread_cond_t done            # a job is done
    Job *urgent
    Job *urgent_tail
    Job *patient                   # index, rewrite, unlink, compress: they never take the last thread
    Job *patient_tail
    Job *finished
    Job *finished_tail
    Job *due                       # SYNC jobs that wait for the end of the interval
    CommitFigures figures
    double next_sync
    int thread_count
    int patient_running
    int idle
    int event
    bint signalled
    bint stopping

cdef class Committer:
    cdef pthread_t *threads
    cdef Workshop *shop
    cdef readonly double sync_interval

    cdef int submit(self, Job *job) except -1
    cdef int wait_for(self, Job *job) except -1
    cdef void hurry(self) noexcept
    cpdef int poll(self) except -1
    cdef int _finish(self, Job *job) except -1
    cdef void _stop(self) noexcept


cdef int hand_over(Committer committer, Job *job) except -1
