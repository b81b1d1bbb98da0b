# Threads that help with large flushes. The theory is at the top of flush_threads.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.basics.threads cimport pthread_cond_t, pthread_mutex_t, pthread_t
from headrace.engine.core.pieces cimport Gathering, Outgoing

cdef enum:
    MOST_HELPERS = 3

cdef struct Round:
    # What the threads share, and all that they touch.
    pthread_mutex_t mutex
    pthread_cond_t opened
    pthread_cond_t left            # the last helper has left a round that is closed
    const Gathering *tick          # the loop's: the arena and the bodies
    Outgoing *outgoing
    uint32_t count
    uint32_t next                  # changed by all at once: see take_next
    uint64_t number
    int helping                    # helpers in this round
    bint open
    bint stopping

cdef struct Helper:
    Round *round
    Gathering own                  # with a buffer and parts of its own; arena and bodies are the tick's
    pthread_t thread

cdef class FlushThreads:
    cdef Round round
    cdef Helper helpers[MOST_HELPERS]
    cdef int helper_count
    cdef bint started

    cdef int write(self, Gathering *tick, Outgoing *outgoing, uint32_t count) except -1
    cdef int _start(self) except -1
