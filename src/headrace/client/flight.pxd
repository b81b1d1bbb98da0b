"""What is published and not yet acknowledged; `flight.pyx` says how."""

from libc.stdint cimport int64_t

from headrace.client.frames cimport Frame, Frames, Status
from headrace.client.growing cimport Bytes
from headrace.client.outgoing cimport Outgoing


cdef enum State:
    SETTLED, WAITING, AGAIN

cdef struct Sent:
    void *outgoing                   # an Outgoing that `kept` holds
    Py_ssize_t row
    State state

cdef struct Ack:
    bint failed
    bint duplicate
    int64_t seq
    const char *stream
    Py_ssize_t stream_length


cdef class Flight:
    cdef readonly int64_t sid        # the subscription to `inbox` + ">"
    cdef readonly int64_t in_flight
    cdef readonly int64_t acked
    cdef readonly int64_t duplicates
    cdef readonly list failures      # of (number, headers, payload), for Python to decide about
    cdef bytes inbox
    cdef const char *inbox_start
    cdef Py_ssize_t inbox_length
    cdef bytes stream                # acknowledgements must name it; empty: any
    cdef const char *stream_start
    cdef Py_ssize_t stream_length
    cdef int64_t limit
    cdef int64_t mask
    cdef Sent *ring                  # by number & mask; numbers from `lowest` to `next_number`
    cdef int64_t lowest              # the first that is not settled
    cdef int64_t next_number
    cdef int64_t again               # the first that may have to be sent again
    cdef bint full                   # the limit was reached, and not enough is settled since
    cdef Outgoing outgoing           # what is being sent, from `row` on
    cdef Py_ssize_t row
    cdef bint refused                # something went to `failures`
    cdef list kept
    cdef Bytes outbox
    cdef Py_ssize_t written          # of the outbox

    cdef Status step(self, Frames frames, bint settle, int64_t *deadline, int64_t patience) noexcept nogil
    cdef bint is_sent(self) noexcept nogil
    cdef bint may_encode(self) noexcept nogil
    cdef Status encode(self) noexcept nogil
    cdef void take_ack(self, Frame *frame) noexcept nogil
    cdef Sent *find(self, int64_t number) except NULL
    cdef object forget_settled(self)
