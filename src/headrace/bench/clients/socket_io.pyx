"""Reading and writing what a client of the load has to: from and to its socket, or through TLS.

TLS goes through a `TlsChannel` of the client, which takes the GIL once for each read and write. What it has
encrypted counts as written; what the socket does not accept of it waits in the channel (`unsent`), and nothing
more is encrypted until it is gone.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.exc cimport PyErr_SetInterrupt
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EAGAIN, EINTR, errno


cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int descriptor, void *buffer, size_t length, int flags)
    ssize_t send(int descriptor, const void *buffer, size_t length, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL


cdef int64_t read_some(ClientConnection *connection, char *into, int64_t length) noexcept nogil:
    """The number of bytes, NONE_NOW or ENDED. With TLS there may be more, which no poll reports: read on."""
    if connection.channel != NULL:
        with gil:
            return read_channel(connection, into, length)
    cdef ssize_t count = recv(connection.descriptor, into, length, MSG_DONTWAIT)
    if count < 0 and (errno == EAGAIN or errno == EINTR):
        return NONE_NOW
    return count if count > 0 else ENDED


cdef int64_t write_some(ClientConnection *connection, const char *data, int64_t length) noexcept nogil:
    """The number of bytes, 0 if it accepts none now, or ENDED."""
    if connection.channel != NULL:
        with gil:
            return write_channel(connection, data, length)
    cdef ssize_t count = send(connection.descriptor, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)
    if count < 0:
        return 0 if errno == EAGAIN or errno == EINTR else ENDED
    return count


cdef int64_t read_channel(ClientConnection *connection, char *into, int64_t length) noexcept:
    cdef int64_t count
    try:
        count = (<object>connection.channel).read_into(PyMemoryView_FromMemory(into, length, PyBUF_WRITE))
    except KeyboardInterrupt:
        PyErr_SetInterrupt()                 # for the loop, which looks at signals now and then
        return NONE_NOW
    except OSError:                          # of TLS, too
        return ENDED
    if count == 0:
        return ENDED
    return count if count > 0 else NONE_NOW


cdef int64_t write_channel(ClientConnection *connection, const char *data, int64_t length) noexcept:
    cdef int64_t count
    try:
        channel = <object>connection.channel
        count = channel.submit(PyMemoryView_FromMemory(<char *>data, length, PyBUF_READ))
        connection.unsent = channel.has_unsent
        return count
    except KeyboardInterrupt:
        PyErr_SetInterrupt()
        return 0
    except OSError:
        return ENDED


cdef void *find_channel(dict channels, int descriptor) noexcept:
    """NULL if it has none; the caller keeps them."""
    channel = channels.get(descriptor)
    return <void *>channel if channel is not None else NULL
