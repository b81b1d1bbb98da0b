"""Reading and writing what a client of the load has to: from and to its socket, or through TLS."""

from libc.stdint cimport int64_t

from headrace.bench.clients.client_connection cimport ClientConnection


cdef enum:
    NONE_NOW = -1
    ENDED = -2

cdef int64_t read_some(ClientConnection *connection, char *into, int64_t length) noexcept nogil
cdef int64_t write_some(ClientConnection *connection, const char *data, int64_t length) noexcept nogil
cdef void *find_channel(dict channels, int descriptor) noexcept
