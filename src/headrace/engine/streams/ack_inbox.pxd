# Acknowledgements of a consumer's messages. The theory is at the top of ack_inbox.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.core.sinks cimport Sink
from headrace.engine.streams.pending cimport Pending

cdef class AckInbox(Sink):
    cdef list acks
    cdef object begin
    cdef Pending pending
    cdef tuple others              # dicts
    cdef bint settles              # acknowledgements of this tick are settled here, until one cannot be
    cdef uint64_t settled          # in this tick
    cdef uint64_t lowest

    cdef bint _settle_one(self, uint64_t seq) except -1
