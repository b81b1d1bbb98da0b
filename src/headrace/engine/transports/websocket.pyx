"""WebSocket (RFC 6455) between a link and another transport: a socket, or TLS.

What arrives is decoded where it lies: heads are cut out and payloads moved together, so that the parser gets one run of
bytes, whatever the frames were. With compression a second buffer is needed, which all connections share; what it still
has when the reader's buffer is full is kept for the next call (`inside`). An idle connection holds no buffer.

    encoder         what leaves
    decoder         what arrives: heads, masks, control frames
    inflater        what a compressed message holds
    close_frames    the close frame at the end
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc cimport errno as c_errno
from libc.errno cimport EAGAIN, EPROTO
from libc.string cimport memcpy, memmove

from headrace.engine.basics.system cimport iovec
from headrace.engine.core.transport cimport UNREAD_INSIDE, UNSENT_INSIDE, Transport
from headrace.engine.transports.decoder cimport CLOSED_BY_PEER, OPEN, FrameDecoder
from headrace.engine.transports.encoder cimport FrameEncoder
from headrace.engine.transports.close_frames cimport goodbye_for

cdef Py_ssize_t READ_AHEAD = 64 * 1024       # where what is read cannot be decoded in place

cdef char *read_ahead = <char *> PyMem_Malloc(READ_AHEAD)     # of whichever connection is being read
if read_ahead == NULL:
    raise MemoryError


@cython.final
cdef class WebSocketTransport(Transport):
    """Serves a peer whose handshake is done. `on_failure(text)` is called when it breaks the rules."""

    def __cinit__(self, Transport inner not None, *, on_failure, long long max_payload, bint masks=True,
                  bint deflates=False, int frame_limit=0, bint splits_deflated=True):
        self.inner = inner
        self.on_failure = on_failure
        self.deflates = deflates
        self.encoder = FrameEncoder(inner, deflates=deflates, frame_limit=frame_limit, splits_deflated=splits_deflated)
        self.decoder = FrameDecoder(self.encoder, max_payload=max_payload, masks=masks, deflates=deflates)

    def __dealloc__(self):
        PyMem_Free(self.kept)

    cdef int close(self) except -1:
        return self.inner.close()

    cdef int limit_message(self, long long size) except -1:
        self.decoder.max_payload = size
        return 0

    cdef int say_goodbye(self, object reason) except -1:
        cdef bytes goodbye = self.decoder.goodbye if self.has_ended else None
        if goodbye is None:
            goodbye = goodbye_for(reason)
        if goodbye is not None:
            self.encoder.send_last(goodbye)
        return self.inner.say_goodbye(reason)

    cdef Py_ssize_t send(self, const iovec *parts, int count) except? -1:
        cdef Py_ssize_t sent
        if self.inner.inside & UNSENT_INSIDE:
            self.inner.send(parts, 0)
        sent = self.encoder.send(parts, count)
        self._note_inside()
        return sent

    cdef int _note_inside(self) noexcept:
        self.inside = self.inner.inside
        if self.encoder.unsent_length:
            self.inside |= UNSENT_INSIDE
        if self.kept_length or self.decoder.state != OPEN or self.decoder.is_busy():
            self.inside |= UNREAD_INSIDE

    cdef Py_ssize_t receive(self, const iovec *parts, int count) except? -1:
        """Decodes into the longer one of two parts, since heads may be in between, then moves it to where it belongs."""
        cdef int longer = 1 if count == 2 and parts[0].iov_len < parts[1].iov_len else 0
        cdef char *buffer = <char *> parts[longer].iov_base
        cdef Py_ssize_t first, length
        if self.decoder.state != OPEN:
            return self._end()
        if self.deflates:
            length = self._receive_deflated(buffer, parts[longer].iov_len)
        else:
            length = self._receive_plain(buffer, parts[longer].iov_len)
        if length > 0 and longer:
            first = min(<Py_ssize_t> parts[0].iov_len, length)
            memcpy(parts[0].iov_base, buffer, first)
            memmove(buffer, buffer + first, length - first)
        self._note_inside()
        return length

    cdef Py_ssize_t _end(self) except? -1:
        """What came before has been parsed, which may have closed the link for another reason: report it now."""
        self.has_ended = True
        if self.decoder.state == CLOSED_BY_PEER:
            return 0
        self.on_failure(self.decoder.failure)
        c_errno.errno = EPROTO
        return -1

    cdef Py_ssize_t _receive_plain(self, char *buffer, Py_ssize_t room) except? -1:
        cdef iovec part
        cdef Py_ssize_t count
        cdef char *out = buffer
        part.iov_base = buffer
        part.iov_len = room
        count = self.inner.receive(&part, 1)
        if count <= 0:
            return count
        self.decoder.decode(buffer, buffer + count, &out, buffer + room)
        if out == buffer:
            c_errno.errno = EAGAIN
            return -1
        return out - buffer

    cdef Py_ssize_t _receive_deflated(self, char *buffer, Py_ssize_t room) except? -1:
        cdef Py_ssize_t count = self._read_ahead()
        cdef char *out = buffer
        cdef char *at
        if count <= 0 and not self.decoder.is_busy():
            return count
        count = max(count, 0)
        at = self.decoder.decode(read_ahead, read_ahead + count, &out, buffer + room)
        if self.decoder.state == OPEN:
            self._keep(at, read_ahead + count)
        if out == buffer:
            c_errno.errno = EAGAIN
            return -1
        return out - buffer

    cdef Py_ssize_t _read_ahead(self) except? -1:
        """What was kept, or otherwise what the peer has sent, into the shared buffer."""
        cdef iovec part
        cdef Py_ssize_t count = self.kept_length
        if count:
            memcpy(read_ahead, self.kept, count)
            PyMem_Free(self.kept)
            self.kept = NULL
            self.kept_length = 0
            return count
        if self.decoder.is_busy():
            return 0
        part.iov_base = read_ahead
        part.iov_len = READ_AHEAD
        return self.inner.receive(&part, 1)

    cdef int _keep(self, const char *at, const char *end) except -1:
        if at < end:
            self.kept = <char *> PyMem_Malloc(end - at)
            if self.kept == NULL:
                raise MemoryError
            memcpy(self.kept, at, end - at)
            self.kept_length = end - at
        return 0
