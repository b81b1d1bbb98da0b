# All connections of a server. The theory is at the top of hub.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.link cimport Link, LinkHost
from headrace.engine.core.outboxes cimport Outboxes
from headrace.engine.core.pace cimport Pace
from headrace.engine.core.parser cimport Parser
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.reader cimport Reader
from headrace.engine.core.slow_consumers cimport SlowConsumers
from headrace.engine.core.tick cimport EventQueue, Tick

cdef class Hub(LinkHost):
    cdef Tick tick                 # what the other parts share
    cdef EventQueue events
    cdef SlowConsumers slow_consumers    # which receivers do not keep up
    cdef Outboxes outboxes         # what links have to send
    cdef Publishers publishers     # who waits for whom
    cdef Deliveries deliveries     # who gets a message
    cdef Parser parser
    cdef Reader reader
    cdef Pace pace
    cdef readonly dict links       # fd -> Link
    cdef dict sources              # fd -> the Link that represents it
    cdef uint64_t turn             # which of the ready links is next

    cdef int _handle_event(self, Link link, unsigned int what) except -1
    cdef int _read_again(self) except -1
    cdef int _call_owner(self, Link link) except -1
    cdef int _hung_up(self, Link link) except -1
    cdef int _end_tick(self, bint in_poll) except -1
    cdef int _reap(self) except -1
    cdef int _reap_link(self, Link link) except -1
