# Publishers that wait, for receivers or for their turn. The theory is at the top of publishers.pyx.

from headrace.engine.core.link cimport Link
from headrace.engine.core.outboxes cimport Outboxes
from headrace.engine.core.slow_consumers cimport SlowConsumers
from headrace.engine.core.tick cimport EventQueue, Tick

cdef class Publishers:
    cdef Tick tick
    cdef EventQueue events
    cdef SlowConsumers slow_consumers
    cdef Outboxes outboxes
    cdef dict links                # all links of the hub, to be judged as receivers
    cdef list paused               # those that wait for receivers to drain, or for their turn
    cdef list ended_turns          # links that have had their share of a tick, and have sent more
    cdef list stalled              # those that wait because a receiver is critical
    cdef double window_ends
    cdef double stall_ends
    cdef long long stalls

    cdef int pause(self, Link link) except -1
    cdef int overran(self, Link link) except -1
    cdef int stall(self, Link link, Py_ssize_t published) except -1
    cdef int end_turn(self, Link link) except -1
    cdef int resume_ready(self) except -1
    cdef int set_timer_again(self) except -1
    cdef int _stop_reading(self, Link link) except -1
    cdef int _start_window(self) except -1
    cdef int _judge_receivers(self) except -1
    cdef list _resume(self, list waiting)
    cdef int _set_timer(self) except -1
