# Where the bytes of a link come from and go to. The rules are at the top of transport.pyx.

from headrace.engine.core.system cimport iovec

cdef class Transport:
    cdef Py_ssize_t receive(self, const iovec *parts, int count) except? -1
    cdef Py_ssize_t send(self, const iovec *parts, int count) except? -1
    cdef int close(self) except -1


cdef class SocketTransport(Transport):
    cdef int fd
