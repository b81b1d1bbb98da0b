# Receivers within this process. The theory is at the top of sinks.pyx.

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
