# Receivers within this process. The theory is at the top of sinks.pyx.

from headrace.engine.core.link cimport Link
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.tick cimport Tick

cdef class Sink(Link):
    cdef Tick tick
    cdef Publishers publishers
    cdef bint noted                # settle() is already on the list of what is called at the end of the tick

    cdef int note(self) except -1


cdef class Inbox(Sink):
    cdef list messages


cdef class AckInbox(Sink):
    cdef list acks
