"""Where the bytes of a link come from and go to: all that the engine knows of a socket, apart from when it is ready.

A transport works like the system calls it replaces. It never blocks, and

    receive    fills the parts in order; returns how many bytes, 0 at the end, -1 with a reason in errno
    send       returns how many bytes of the parts it accepted, or -1 with a reason in errno
    close      ends the connection

EAGAIN as a reason means: not now; epoll reports when. A link pays one call through a pointer for it, per system call.
"""

cimport cython

from headrace.engine.core.system cimport close, iovec, read, readv, writev


cdef class Transport:
    cdef Py_ssize_t receive(self, const iovec *parts, int count) except? -1:
        raise NotImplementedError

    cdef Py_ssize_t send(self, const iovec *parts, int count) except? -1:
        raise NotImplementedError

    cdef int close(self) except -1:
        raise NotImplementedError


@cython.final
cdef class SocketTransport(Transport):
    """A socket as it is: plain TCP."""

    def __cinit__(self, int fd):
        self.fd = fd

    cdef Py_ssize_t receive(self, const iovec *parts, int count) except? -1:
        if count == 1:
            return read(self.fd, parts[0].iov_base, parts[0].iov_len)
        return readv(self.fd, parts, count)

    cdef Py_ssize_t send(self, const iovec *parts, int count) except? -1:
        return writev(self.fd, parts, count)

    cdef int close(self) except -1:
        close(self.fd)
        return 0
