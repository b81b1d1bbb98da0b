# TLS as a transport. The theory is at the top of tls.pyx.

from headrace.engine.basics.system cimport iovec
from headrace.engine.core.transport cimport Transport

cdef class TlsBuffers:
    cdef object incoming           # ssl.MemoryBIO: ciphertext that OpenSSL reads next
    cdef object outgoing           # ssl.MemoryBIO: ciphertext that it has written
    cdef char *ciphertext          # what is read from a socket, on its way to `incoming`

    cdef int empty(self) except -1


cdef class TlsTransport(Transport):
    cdef int fd
    cdef TlsBuffers buffers
    cdef readonly object session   # ssl.SSLObject; None once the connection is closed
    cdef bytes unread              # ciphertext that came with the end of the handshake, or None
    cdef bytes surplus             # what was decrypted for a caller who had room for less, or None
    cdef bytes unsent              # ciphertext that the socket has not accepted, or None
    cdef Py_ssize_t unsent_start   # how much of it the socket has accepted
    cdef Py_ssize_t ahead          # bytes that are encrypted in `unsent` though `send` has not accepted them
    cdef bint is_ended             # the peer has said that nothing more follows
    cdef bint is_broken            # what the peer sent is no TLS, or was changed on the way

    cdef Py_ssize_t _receive_little(self, const iovec *parts, int count, Py_ssize_t room) except? -1
    cdef Py_ssize_t _fill(self, Py_ssize_t room) except -2
    cdef Py_ssize_t _decrypt(self, const iovec *parts, int count) except -1
    cdef int _end_reading(self) except -1
    cdef Py_ssize_t _send_rest(self) except -2
    cdef Py_ssize_t _encrypt(self, const char *start, Py_ssize_t length) except -2
    cdef int _send_new(self) except -1
    cdef Py_ssize_t _write(self) except -2
    cdef int _note_inside(self) noexcept
