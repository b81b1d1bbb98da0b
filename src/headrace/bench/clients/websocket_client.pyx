"""Frames of a server, which are not masked, into the bytes that they carry. What a publisher writes is framed and masked
before the run (bench/wire.py).
"""

from libc cimport errno as c_errno
from libc.errno cimport EAGAIN
from libc.stdint cimport int64_t
from libc.string cimport memmove

from headrace.bench.clients.client_connection cimport ClientConnection


cdef int64_t unframe(ClientConnection *connection, char *data, int64_t length) noexcept nogil:
    """Move the payloads of the frames together, where they are. Returns how many bytes; 0 after a frame that ends the
    connection, or that no server should send; -1 and EAGAIN if there are heads alone.
    """
    cdef int64_t at = 0, kept = 0, step
    while at < length:
        if connection.frame_left:
            step = min(connection.frame_left, length - at)
            if kept != at:
                memmove(data + kept, data + at, step)
            connection.frame_left -= step
            kept += step
            at += step
            continue
        connection.frame_head[connection.frame_head_length] = <unsigned char>data[at]
        connection.frame_head_length += 1
        at += 1
        if not read_frame_head(connection):
            return 0
    if kept == 0:
        c_errno.errno = EAGAIN
        return -1
    return kept


cdef bint read_frame_head(ClientConnection *connection) noexcept nogil:
    """Take the length from a head that is complete. Whether it is that of a message, as far as it is there."""
    cdef int size, k, have = connection.frame_head_length
    if connection.frame_head[0] & 0x7F not in (0, 1, 2):
        return False
    if have < 2:
        return True
    size = connection.frame_head[1]
    if size > 127:
        return False
    if have < (2 if size < 126 else 4 if size == 126 else 10):
        return True
    connection.frame_left = size if size < 126 else 0
    for k in range(2, have):
        connection.frame_left = connection.frame_left << 8 | connection.frame_head[k]
    connection.frame_head_length = 0
    return connection.frame_left >= 0
