"""The client's side of WebSocket, for a load: RFC 6455, section 5.2."""

from libc.stdint cimport int64_t

from headrace.bench.clients.client_connection cimport ClientConnection

cdef enum:
    MASKED_HEAD = 8                  # that of a frame of at most 64 KiB

cdef int64_t unframe(ClientConnection *connection, char *data, int64_t length) noexcept nogil


cdef inline void write_masked_head(char *head, int64_t length) noexcept nogil:
    """The mask is zero: what the outbox holds is short, and a server unmasks it all the same."""
    cdef int k
    head[0], head[1] = <char>0x82, <char>0xFE
    head[2], head[3] = <char>(length >> 8), <char>length
    for k in range(4):
        head[4 + k] = 0
