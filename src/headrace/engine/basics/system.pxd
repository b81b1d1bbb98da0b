# The system calls that the engine makes.

from libc.stdint cimport int64_t, uint32_t

cdef extern from "sys/epoll.h" nogil:
    enum: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLL_CLOEXEC
    ctypedef union epoll_data_t:
        void *ptr
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)
    int epoll_wait(int epfd, epoll_event *events, int maxevents, int timeout)

cdef extern from "time.h" nogil:
    enum: CLOCK_MONOTONIC, CLOCK_REALTIME
    cdef struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(int clockid, timespec *tp)
    int nanosleep(const timespec *requested, timespec *remaining)

cdef extern from "sys/timerfd.h" nogil:
    enum: TFD_NONBLOCK, TFD_CLOEXEC
    cdef struct itimerspec:
        timespec it_interval
        timespec it_value
    int timerfd_create(int clockid, int flags)
    int timerfd_settime(int fd, int flags, const itimerspec *new_value, itimerspec *old_value)

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    Py_ssize_t readv(int fd, const iovec *iov, int iovcnt)
    Py_ssize_t writev(int fd, const iovec *iov, int iovcnt)

cdef extern from "sys/socket.h" nogil:
    enum: SHUT_RD
    int shutdown(int fd, int how)

cdef extern from "unistd.h" nogil:
    Py_ssize_t read(int fd, void *buf, size_t count)
    Py_ssize_t write(int fd, const void *buf, size_t count)
    int close(int fd)


cdef inline int64_t wall_clock() noexcept nogil:
    """Nanoseconds since 1970."""
    cdef timespec moment
    clock_gettime(CLOCK_REALTIME, &moment)
    return <int64_t> moment.tv_sec * 1_000_000_000 + moment.tv_nsec


cdef inline int64_t monotonic_nanoseconds() noexcept nogil:
    """Of a clock that nobody can set."""
    cdef timespec moment
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return <int64_t> moment.tv_sec * 1_000_000_000 + moment.tv_nsec


cdef inline double monotonic() noexcept:
    """The same in seconds."""
    cdef timespec moment
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return moment.tv_sec + moment.tv_nsec * 1e-9
