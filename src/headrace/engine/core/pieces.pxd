# What a link has to send of the arena. The theory is at the top of outboxes.pyx.

from libc.stdint cimport uint32_t

from headrace.engine.basics.system cimport iovec
from headrace.engine.core.link cimport Link

cdef enum:
    EMPTY_BODY = 0                 # the first of a tick, for what is a frame already
    MOST_PARTS = 1024              # that a system call takes
    JOINED_SIZE = 262144           # what is copied together for a system call
    LONG_FRAME = 4096              # up to this, copying is cheaper than further parts of a system call
    BLOCK = 64                     # what is copied at a time

cdef struct Body:
    # What follows the head of a frame: a range of the arena.
    uint32_t start
    uint32_t length

cdef struct Place:
    # In the pieces of a link: what comes before it has been gathered.
    uint32_t piece
    uint32_t body                  # of the run

cdef struct Gathering:
    char *arena                    # the frames of this tick; it can be read for BLOCK bytes beyond its end
    Body *bodies
    char *joined                   # frames, one after the other, while they are being written
    iovec parts[MOST_PARTS]        # what is being written


cdef int gather_first(Gathering *gathering, Link link, Place *place) noexcept
cdef int gather(Gathering *gathering, Link link, Place *place, int count) noexcept
cdef Py_ssize_t total_length(const iovec *parts, int count) noexcept
cdef char *copy_spans(Gathering *gathering, Link link, char *at, Py_ssize_t skipped) noexcept
