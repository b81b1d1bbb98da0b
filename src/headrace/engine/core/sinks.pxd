# Receivers within this process. The theory is at the top of sinks.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.link cimport Link
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.tick cimport Tick

cdef class Sink(Link):
    cdef Tick tick
    cdef Publishers publishers
    cdef Deliveries deliveries
    cdef bint noted                # settle() is already scheduled for the end of the tick

    cdef int note(self) except -1


cdef class Inbox(Sink):
    cdef list messages
    cdef bint prompt               # it settles before a PONG is sent
    cdef public object tracer      # tracer(trace, subject): whether it gets a message that is traced; None: always


cdef class AckInbox(Sink):
    cdef list acks
    cdef object begin
    cdef dict pending
    cdef tuple others              # dicts
    cdef bint settles              # acknowledgements of this tick are settled here, until one cannot be
    cdef uint64_t settled          # in this tick
    cdef uint64_t lowest

    cdef bint _settle_one(self, uint64_t seq) except -1
