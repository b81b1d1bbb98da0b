# WebSocket between a link and its socket. The theory is at the top of websocket.pyx.

from headrace.engine.basics.system cimport iovec
from headrace.engine.core.transport cimport Transport
from headrace.engine.transports.decoder cimport FrameDecoder
from headrace.engine.transports.encoder cimport FrameEncoder

cdef class WebSocketTransport(Transport):
    cdef Transport inner
    cdef FrameEncoder encoder
    cdef FrameDecoder decoder
    cdef object on_failure         # called with what is wrong with what the peer has sent
    cdef bint deflates             # both sides may compress
    cdef bint has_ended            # the link has been told of the end of what the peer sends
    cdef char *kept                # what was read and is not decoded yet: the reader's buffer was full
    cdef Py_ssize_t kept_length

    cdef Py_ssize_t _end(self) except? -1
    cdef int _note_inside(self) noexcept
    cdef Py_ssize_t _receive_plain(self, char *buffer, Py_ssize_t room) except? -1
    cdef Py_ssize_t _receive_deflated(self, char *buffer, Py_ssize_t room) except? -1
    cdef Py_ssize_t _read_ahead(self) except? -1
    cdef int _keep(self, const char *at, const char *end) except -1
