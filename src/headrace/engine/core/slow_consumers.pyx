"""Slow consumers: what is queued for receivers with full sockets, which of these publishers wait for, which are closed.

Every change of a full socket's backlog is weighed here. What follows from it for publishers is in publishers.pyx.
"""

cimport cython
from libc.stdint cimport uint32_t

from headrace.engine.core.link cimport CONGESTED, CRITICAL, SLOW, WANTS_WRITE, Link, backlog_length
from headrace.engine.core.tick cimport Tick

cdef Py_ssize_t SOFT_BACKLOG = 1024 * 1024
cdef Py_ssize_t FAIR_SHARE = 256 * 1024


@cython.final
cdef class SlowConsumers:
    def __cinit__(self, Tick tick not None):
        self.tick = tick

    cdef int set_limits(self, long long pending_limit, bint drops) except -1:
        cdef long long most = pending_limit // 4 * 3
        self.pending_limit = pending_limit
        self.drops = drops
        self.soft_backlog = most if drops else min(SOFT_BACKLOG, most)
        self.critical_backlog = most
        return 0

    cdef bint holds_publishers(self) noexcept:
        """Whether what paused publishers wait for has not happened yet."""
        return self.congested > 0 or self.full_logs > 0 or self.fair_total > BUDGET // 2

    cdef int weigh(self, Link link, Py_ssize_t before) except -1:
        """The bytes queued for a full socket have changed: update the sums, and judge the receiver."""
        cdef Py_ssize_t waiting = backlog_length(link)
        if waiting > self.pending_limit:
            self.tick.close_link(link, 'Slow Consumer (Pending Bytes)')
        if waiting > self.critical_backlog:
            link.flags |= CRITICAL
        else:
            link.flags &= ~(<uint32_t> CRITICAL)
        if link.flags & SLOW:
            if waiting >= self.soft_backlog // 2:
                return 0
            link.flags &= ~(<uint32_t> SLOW)
            before = 0
        self.fair_total += min(waiting, FAIR_SHARE) - min(before, FAIR_SHARE)
        if waiting > self.soft_backlog:
            if not link.flags & CONGESTED:
                link.flags |= CONGESTED
                self.congested += 1
        elif waiting < self.soft_backlog // 2:
            self._clear(link)
        return 0

    cdef int check_deadline(self, Link link, double now, double deadline) except -1:
        """Close a receiver if its socket accepted nothing for `deadline` seconds while something was queued for it."""
        if link.flags & WANTS_WRITE and now - link.written_at > deadline:
            self.tick.close_link(link, 'Slow Consumer (Write Deadline)')
        return 0

    cdef int ignore(self, Link link) except -1:
        """Leave a receiver out of everything that publishers wait for."""
        if link.flags & WANTS_WRITE and not link.flags & SLOW:
            self.fair_total -= min(backlog_length(link), FAIR_SHARE)
        self._clear(link)
        link.flags |= SLOW
        return 0

    cdef int _clear(self, Link link) except -1:
        if link.flags & CONGESTED:
            link.flags &= ~(<uint32_t> CONGESTED)
            self.congested -= 1
        return 0
