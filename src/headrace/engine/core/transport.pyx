"""Where the bytes of a link come from and go to: all the engine knows about a socket, apart from when it is ready.

A transport works like the system calls it replaces. It never blocks, and

    receive       fills the parts in order; returns how many bytes, 0 at the end, -1 with a reason in errno
    send          returns how many bytes of the parts it accepted, or -1 with a reason in errno
    say_goodbye   sends the protocol's final bytes, if the socket takes them at once
    close         ends the connection

EAGAIN as a reason means: not now; epoll reports when. The cost is one indirect call per system call.

What was not accepted is offered again, in the same order: `send` may have announced it already. A transport that keeps
bytes inside says so in `inside`, since epoll cannot know: `receive` is then called again without an event, and `send`
without parts. `receive` gets room for 64 KiB or more.
"""

cimport cython
from libc.errno cimport EAGAIN, EINTR, errno

from headrace.engine.basics.system cimport close, iovec, read, readv, writev

import os


cdef class Transport:
    def read(self, Py_ssize_t size):
        """At most this many bytes; b"" at the end, None if there are none now. Raises OSError."""
        cdef bytearray buffer = bytearray(size)
        cdef iovec part
        cdef Py_ssize_t count
        part.iov_base = <char *> buffer
        part.iov_len = size
        count = self.receive(&part, 1)
        if count < 0:
            return self._nothing()
        return bytes(buffer[:count])

    def write(self, bytes data not None):
        """Returns how many of the bytes were accepted. Raises OSError."""
        cdef iovec part
        cdef Py_ssize_t count
        part.iov_base = <char *> data
        part.iov_len = len(data)
        count = self.send(&part, 1)
        if count < 0:
            self._nothing()
            return 0
        return count

    def _nothing(self):
        if errno != EAGAIN and errno != EINTR:
            raise OSError(errno, os.strerror(errno))

    def shut(self):
        """Close it: for a connection that did not become a link."""
        self.close()

    cdef Py_ssize_t receive(self, const iovec *parts, int count) except? -1:
        raise NotImplementedError

    cdef Py_ssize_t send(self, const iovec *parts, int count) except? -1:
        raise NotImplementedError

    cdef int limit_message(self, long long size) except -1:
        """The server's limit has changed: for transports that assemble messages."""
        return 0

    cdef int say_goodbye(self, object reason) except -1:
        """`reason` is why the link was closed."""
        return 0

    cdef int close(self) except -1:
        raise NotImplementedError


@cython.final
cdef class SocketTransport(Transport):
    """A socket as it is: plain TCP."""

    def __cinit__(self, int fd):
        self.fd = fd
        self.gathers = True

    cdef Py_ssize_t receive(self, const iovec *parts, int count) except? -1:
        if count == 1:
            return read(self.fd, parts[0].iov_base, parts[0].iov_len)
        return readv(self.fd, parts, count)

    cdef Py_ssize_t send(self, const iovec *parts, int count) except? -1:
        return writev(self.fd, parts, count)

    cdef int close(self) except -1:
        close(self.fd)
        return 0
