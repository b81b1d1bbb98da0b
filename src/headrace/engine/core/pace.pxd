# Lingering and gathering. The theory is at the top of pace.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.basics.system cimport epoll_event

cdef class Pace:
    cdef int linger_score
    cdef uint64_t lulls            # ticks after which nothing was ready
    cdef bint gathering            # ticks wait for a moment first
    cdef Py_ssize_t watched_ticks
    cdef Py_ssize_t stray_ticks    # ticks in between that were not dense
    cdef Py_ssize_t watch_ticks    # after which gathering is tried
    cdef double watched_since
    cdef long long watched_total   # messages at that time
    cdef double rate_before        # messages per second without gathering
    cdef double last_tick

    cdef int gather(self) except -1
    cdef int linger(self, int epoll, epoll_event *events, int most) except -2
    cdef int watch(self, double now, long long messages, long long total) except -1
    cdef int _restart_watch(self, double now, long long total) except -1
    cdef double _rate(self, double now, long long total) noexcept
