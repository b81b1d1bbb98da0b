# What a link has to send from the arena. The theory is at the top of outboxes.pyx.

from libc.stdint cimport uint32_t

from headrace.engine.basics.system cimport iovec
from headrace.engine.core.link cimport Link, Piece

cdef enum:
    EMPTY_BODY = 0                 # the first of a tick, for what is already a complete frame
    MOST_PARTS = 1024              # that a system call takes
    JOINED_SIZE = 262144           # what is copied together for a system call
    LONG_FRAME = 4096              # up to this, copying is cheaper than further parts of a system call

cdef struct Body:
    # What follows the head of a frame: a range of the arena.
    uint32_t start
    uint32_t length

cdef struct Outgoing:
    # The outbox of a link while it is written, by any thread: what it has to send, and the result.
    int fd
    const char *backlog
    Py_ssize_t backlog_length
    Py_ssize_t span_start
    Py_ssize_t span_length
    const Piece *pieces
    uint32_t piece_count
    Py_ssize_t written             # how much the socket accepted, or one of the following
    int error                      # the reason for FAILED

cdef enum:
    FAILED = -1
    NOT_TRIED = -2

cdef struct Place:
    # In the pieces of a link: what comes before it has been gathered.
    uint32_t piece
    uint32_t body                  # of the run

cdef struct Gathering:
    char *arena                    # the frames of this tick; it can be read for BLOCK bytes beyond its end
    Body *bodies
    char *joined                   # frames, one after the other, while they are being written
    iovec parts[MOST_PARTS]        # what is being written


cdef void describe(Link link, Outgoing *outgoing) noexcept
cdef int gather_first(Gathering *gathering, const Outgoing *outgoing, Place *place) noexcept nogil
cdef void write_out(Gathering *gathering, Outgoing *outgoing) noexcept nogil
cdef char *copy_spans(Gathering *gathering, Link link, char *at, Py_ssize_t skipped) noexcept
