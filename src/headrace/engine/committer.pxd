# The threads that write and sync. The theory is at the top of committer.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.segments cimport Segment

cdef extern from "pthread.h" nogil:
    ctypedef unsigned long pthread_t
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass

cdef struct Part:
    # A run of bytes of a buffer that goes into one file.
    Segment *segment
    uint64_t offset                # in the file
    size_t start                   # in the buffer
    size_t length
    bint create                    # the file does not exist so far
    bint seal                      # it is the last part of the file

cdef struct Erasure:
    Segment *segment
    uint32_t offset
    uint32_t length

cdef struct Buffer:
    char *data
    size_t size
    size_t capacity
    Part *parts
    uint32_t part_count
    uint32_t part_capacity
    Erasure *erasures
    uint32_t erasure_count
    uint32_t erasure_capacity
    uint64_t last_seq              # committed_seq when all of it is written

cdef enum JobKind:
    COMMIT, SYNC, INDEX, REWRITE, UNLINK, STOP

cdef enum JobStage:
    STAGE_NONE, STAGE_OPEN, STAGE_WRITE, STAGE_SYNC

cdef struct Job:
    Job *next
    JobKind kind
    void *owner                    # the Log
    char *directory
    Buffer *buffer
    bint sync                      # COMMIT: until it is on the disk
    Segment *segment
    uint64_t *numbers              # UNLINK: of these segments
    uint32_t number_count
    uint64_t *keep                 # REWRITE: these messages,
    uint32_t keep_count
    uint64_t first_seq
    uint64_t *ranges               # and this REMOVED record
    uint32_t range_count
    Segment *replacement           # REWRITE: what became of it
    int fd                         # SYNC: of this file
    JobStage stage                 # where it failed
    int error                      # errno; 0: done
    bint under_way

cdef class Committer:
    cdef pthread_t *threads
    cdef int thread_count
    cdef int started
    cdef pthread_mutex_t *mutex
    cdef pthread_cond_t *wanted    # a job is there
    cdef pthread_cond_t *finished  # a job is done
    cdef Job *urgent_head
    cdef Job *urgent_tail
    cdef Job *patient_head         # index, rewrite, unlink: they never take the last thread
    cdef Job *patient_tail
    cdef Job *done_head
    cdef Job *done_tail
    cdef Job *due_head             # SYNC jobs that wait for the next interval
    cdef int patient_running
    cdef int idle
    cdef bint stopping
    cdef int event
    cdef bint signalled
    cdef readonly double sync_interval
    cdef double next_sync

    cdef int submit(self, Job *job) except -1
    cdef int wait_for(self, Job *job) except -1
    cpdef int poll(self) except -1
