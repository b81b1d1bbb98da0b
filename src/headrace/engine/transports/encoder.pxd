# Bytes of a link into frames. The theory is at the top of encoder.pyx.

from libc.stdint cimport uint8_t, uint64_t

from headrace.engine.basics.system cimport iovec
from headrace.engine.core.transport cimport Transport
from headrace.engine.transports.frames cimport LONGEST_SERVER_HEAD

cdef class FrameEncoder:
    cdef Transport inner
    cdef int frame_limit           # for browsers; 0: none
    cdef bint splits_deflated      # it holds for compressed messages, too
    cdef bint deflates
    cdef uint8_t out_head[LONGEST_SERVER_HEAD]
    cdef int out_head_length
    cdef int out_head_sent
    cdef uint64_t announced        # how much of the link's bytes the frame that has begun still gets
    cdef char *unsent              # frames that wait for the socket: pongs, or those that had to be made as a whole
    cdef Py_ssize_t unsent_length
    cdef Py_ssize_t unsent_pongs   # bytes of them, since nothing waited

    cdef Py_ssize_t send(self, const iovec *parts, int count) except? -1
    cdef int send_last(self, bytes frame) except -1
    cdef int add_pong(self, const char *payload, Py_ssize_t length) except -1
    cdef int add(self, int first, const char *payload, Py_ssize_t length) except -1
    cdef int flush(self) except -2
    cdef Py_ssize_t _send_plain(self, const iovec *parts, int count, Py_ssize_t total) except? -1
    cdef Py_ssize_t _send_frame(self, const iovec *parts, int count, Py_ssize_t accepted) except? -1
    cdef Py_ssize_t _send_packed(self, const iovec *parts, int count, Py_ssize_t total) except? -1
    cdef int _pack(self, bytes data) except -1
