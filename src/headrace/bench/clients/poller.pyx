"""Which connections of a load are ready: epoll, and a wait that can be shorter than a millisecond."""

cimport cython
from libc.errno cimport errno
from libc.stdint cimport int64_t
from posix.time cimport timespec
from posix.unistd cimport close

import os


@cython.final
cdef class Poller:
    def __cinit__(self):
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll < 0:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        if self.epoll >= 0:
            close(self.epoll)

    def wait_exactly(self):
        """Let `wait` end when it is asked to, and not at the next millisecond."""
        self.exact = True
        prctl(PR_SET_TIMERSLACK, 1)  # the default lets every sleep of this thread last 50 us longer

    cdef int add(self, int descriptor, int index) except -1:
        """Report when it is readable. Raises OSError."""
        cdef epoll_event event
        event.events, event.data.u32 = EPOLLIN, index
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, descriptor, &event) < 0:
            raise OSError(errno, os.strerror(errno))
        return 0

    cdef void watch(self, int descriptor, int index, bint output) noexcept nogil:
        """Report also when it is writable, or do not any more."""
        cdef epoll_event event
        event.events, event.data.u32 = EPOLLIN | (EPOLLOUT if output else 0), index
        epoll_ctl(self.epoll, EPOLL_CTL_MOD, descriptor, &event)

    cdef int wait(self, epoll_event *events, int most, int64_t nanoseconds) noexcept nogil:
        cdef pollfd waiting
        cdef timespec timeout
        if not self.exact:
            return epoll_wait(self.epoll, events, most, <int>(nanoseconds // 1_000_000))
        # epoll_wait sleeps for whole milliseconds, in which thousands of messages may fall due.
        waiting.fd, waiting.events = self.epoll, POLLIN
        timeout.tv_sec, timeout.tv_nsec = nanoseconds // 1_000_000_000, nanoseconds % 1_000_000_000
        ppoll(&waiting, 1, &timeout, NULL)
        return epoll_wait(self.epoll, events, most, 0)
