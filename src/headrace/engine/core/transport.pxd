# Where the bytes of a link come from and go to. The rules are at the top of transport.pyx.

from headrace.engine.basics.system cimport iovec

cdef enum:
    UNREAD_INSIDE = 1            # `receive` has more, whether or not the socket is readable
    UNSENT_INSIDE = 2            # bytes that it has accepted, or produced itself, wait for the socket

cdef class Transport:
    cdef int inside              # bits of the above; 0 for a socket as it is
    cdef bint gathers            # many short parts cost it no more than a few long ones

    cdef Py_ssize_t receive(self, const iovec *parts, int count) except? -1
    cdef Py_ssize_t send(self, const iovec *parts, int count) except? -1
    cdef int limit_message(self, long long size) except -1
    cdef int say_goodbye(self, object reason) except -1
    cdef int close(self) except -1


cdef class SocketTransport(Transport):
    cdef int fd
