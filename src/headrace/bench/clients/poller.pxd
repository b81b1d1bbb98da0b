"""Which connections of a load are ready; `poller.pyx` says how long it waits."""

from libc.stdint cimport int64_t, uint32_t
from posix.time cimport timespec


cdef extern from "sys/epoll.h" nogil:
    enum: EPOLLIN, EPOLLOUT, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_MOD
    ctypedef union epoll_data_t:
        uint32_t u32
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int operation, int descriptor, epoll_event *event)
    int epoll_wait(int epoll, epoll_event *events, int max_events, int milliseconds)

cdef extern from "poll.h" nogil:
    short POLLIN
    struct pollfd:
        int fd
        short events
    int ppoll(pollfd *descriptors, unsigned long count, const timespec *timeout, const void *signals)

cdef extern from "sys/prctl.h" nogil:
    enum: PR_SET_TIMERSLACK
    int prctl(int option, unsigned long value)


cdef class Poller:
    cdef int epoll
    cdef bint exact

    cdef int add(self, int descriptor, int index) except -1
    cdef void watch(self, int descriptor, int index, bint output) noexcept nogil
    cdef int wait(self, epoll_event *events, int most, int64_t nanoseconds) noexcept nogil
