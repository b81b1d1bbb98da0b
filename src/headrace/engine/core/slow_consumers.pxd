# Which receivers do not keep up. The theory is at the top of publishers.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.core.link cimport Link
from headrace.engine.core.tick cimport Tick

cdef enum:
    BUDGET = 33554432              # bytes that all receivers together may have queued before publishers wait

cdef class SlowConsumers:
    cdef Tick tick
    cdef long long fair_total      # what receivers have not accepted, each counted up to its fair share
    cdef Py_ssize_t congested      # receivers that publishers wait for
    cdef Py_ssize_t full_logs      # logs that publishers wait for
    cdef uint64_t window           # numbers the windows in which receivers are judged
    cdef long long pending_limit
    cdef bint drops                # messages, instead of making publishers wait
    cdef Py_ssize_t critical_backlog
    cdef Py_ssize_t soft_backlog   # beyond this a receiver is congested

    cdef int set_limits(self, long long pending_limit, bint drops) except -1
    cdef bint holds_publishers(self) noexcept
    cdef int weigh(self, Link link, Py_ssize_t before) except -1
    cdef int check_deadline(self, Link link, double now, double deadline) except -1
    cdef int ignore(self, Link link) except -1
    cdef int _clear(self, Link link) except -1
