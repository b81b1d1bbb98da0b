"""The client's end of a connection: bytes from a server become frames, one at a time, without copying.

The plan
--------
One buffer per connection. `parse` looks at the frame that starts at `start` and leaves its parts in `frame`,
as pointers into the buffer; `advance` releases it. When `parse` returns UNFINISHED, `fill` moves the rest of
the buffer to its beginning and reads what the socket has. The buffer grows only for a larger frame, and only
up to what the protocol allows.

    buffer   taken | start … unread … end | room for `fill`

Readers of many messages (`columns.pyx`, `flight.pyx`) call these C methods with the GIL released. Everything
else is rare, and Python gets it as an `Event` from `next`.

The rules
---------
* Every length that the server sends is checked before it is used.
* A pointer of `frame` is valid until the next `advance`, `fill` or `feed`.
* `self.x = self.x + 1`, not `self.x += 1`, where the GIL is released: the debug build cannot compile that.
* The descriptor belongs to the caller. It may be blocking or not: calls here wait only in `poll`.
* With TLS, bytes go through a channel (`tls.TlsChannel`), which takes the GIL: once for each read and write,
  of up to a quarter of a megabyte. It is BLOCKED only when the socket is, so that `poll` may wait.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EAGAIN, EINTR, errno
from libc.limits cimport INT_MAX
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove

from headrace.engine.basics.system cimport monotonic_nanoseconds

import os

cdef enum:
    BUFFER_BYTES = 256 * 1024         # stays in a core's L2 cache
    LINE_MAX = 1024 * 1024            # the INFO of a large cluster is the longest line
    PAYLOAD_MAX = 128 * 1024 * 1024   # a server accepts at most 64 MiB, but returns such a message in base64

KINDS = ("MSG", "HMSG", "PING", "PONG", "+OK", "-ERR", "INFO")


class BadFrame(ValueError):
    """What the server sent is not the NATS protocol."""


class ConnectionEnded(ConnectionError):
    """The server, or the network, has closed the connection."""


cdef class Event:
    """A frame for Python to look at. `payload` of anything but a message is the rest of its line."""

    cdef readonly str kind
    cdef readonly int64_t sid
    cdef readonly bytes subject, reply, headers, payload

    def __repr__(self):
        return f"Event({self.kind}, {self.subject[:60]!r}, {self.reply[:120]!r}, {self.payload[:60]!r})"


cdef int64_t deadline_after(double seconds) noexcept nogil:
    if seconds > 1e9:
        seconds = 1e9
    return monotonic_nanoseconds() + <int64_t>(max(0.0, seconds) * 1e9)


cdef class Frames:
    """A connection's unread bytes. `attach` resets it for a connected socket."""

    def __cinit__(self, Py_ssize_t payload_max=PAYLOAD_MAX):
        if not 0 < payload_max <= PAYLOAD_MAX:
            raise ValueError(f"a payload has at most {PAYLOAD_MAX} bytes")
        self.payload_max = payload_max
        self.descriptor = -1
        self.capacity = BUFFER_BYTES
        self.buffer = <char *>malloc(self.capacity)
        if self.buffer == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.buffer)

    def attach(self, int descriptor, channel=None):
        """Read from this socket from now on, through TLS if there is a channel. -1: from none.

        Unread bytes are dropped: what came in the clear must not be taken for what came through TLS.
        """
        self.descriptor = descriptor
        self.channel, self.encrypted, self.failure = channel, channel is not None, None
        self.start = self.end = self.wanted = 0
        self.error = 0

    def feed(self, const unsigned char[::1] data):
        """Add bytes that the caller has read."""
        cdef Py_ssize_t length = data.shape[0]
        if length == 0:
            return
        if length > PAYLOAD_MAX:
            raise ValueError("feed smaller pieces")
        self.wanted = max(self.wanted, self.end - self.start + length)
        if self.reserve() == NO_MEMORY:
            raise MemoryError
        memcpy(self.buffer + self.end, &data[0], length)
        self.end += length

    def next(self, double timeout):
        """The next frame, or None when there is none within `timeout` seconds.

        Raises BadFrame, and ConnectionEnded if the connection has ended.
        """
        cdef int64_t deadline = deadline_after(timeout)
        cdef Status status
        while True:
            with nogil:
                while True:
                    status = self.parse()
                    if status != UNFINISHED:
                        break
                    status = self.fill()
                    if status == BLOCKED:
                        status = self.wait(POLLIN, deadline)
                    if status != READY:
                        break
            if status == INTERRUPTED:
                PyErr_CheckSignals()
                continue
            return self.result(status)

    # Parsing

    cdef Status parse(self) noexcept nogil:
        """Look at the frame that starts at `start`. READY: it is in `frame`; otherwise UNFINISHED or GARBLED."""
        cdef const char *line = self.buffer + self.start
        cdef Py_ssize_t available = self.end - self.start
        if available < self.wanted or available == 0:
            return UNFINISHED
        cdef const char *stop = <const char *>memchr(line, c'\n', min(available, <Py_ssize_t>LINE_MAX))
        if stop == NULL:
            if available >= LINE_MAX:
                self.complaint = b"a line without an end"
                return GARBLED
            self.wanted = available + 1
            return UNFINISHED
        cdef Py_ssize_t length = stop - line - 1
        if length < 3 or line[length] != c'\r':
            self.complaint = b"a line that does not end in CR LF"
            return GARBLED
        if length > 4 and memcmp(line, b"MSG ", 4) == 0:
            return self.parse_message(line, length, False)
        if length > 5 and memcmp(line, b"HMSG ", 5) == 0:
            return self.parse_message(line, length, True)
        cdef Py_ssize_t name = 4
        cdef Frame *frame = &self.frame
        if length == 4 and memcmp(line, b"PING", 4) == 0:
            frame.kind = PING
        elif length == 4 and memcmp(line, b"PONG", 4) == 0:
            frame.kind = PONG
        elif length == 3 and memcmp(line, b"+OK", 3) == 0:
            frame.kind = OK
            name = 3
        elif length > 4 and memcmp(line, b"-ERR", 4) == 0:
            frame.kind = ERR
        elif length > 5 and memcmp(line, b"INFO ", 5) == 0:
            frame.kind = INFO
        else:
            self.complaint = b"an unknown operation"
            return GARBLED
        frame.sid = -1
        frame.subject_length = frame.reply_length = frame.headers_length = 0
        frame.subject = frame.reply = frame.headers = line
        frame.payload = line + name
        frame.payload_length = length - name
        frame.length = length + 2
        return READY

    cdef Status parse_message(self, const char *line, Py_ssize_t length, bint with_headers) noexcept nogil:
        """MSG subject sid [reply] size, or HMSG subject sid [reply] header-size size."""
        cdef const char *starts[6]
        cdef Py_ssize_t lengths[6]
        cdef const char *at = line + (5 if with_headers else 4)
        cdef const char *stop = line + length
        cdef const char *space
        cdef int count = 0, sizes = 2 if with_headers else 1
        cdef Frame *frame = &self.frame
        while True:
            space = <const char *>memchr(at, c' ', stop - at)
            if space == NULL:
                space = stop
            if space > at:                       # several spaces count as one
                if count == 6:
                    count = 7
                    break
                starts[count] = at
                lengths[count] = space - at
                count += 1
            if space == stop:
                break
            at = space + 1
        if count != 2 + sizes and count != 3 + sizes:
            self.complaint = b"a message with too few or too many fields"
            return GARBLED
        frame.kind = HMSG if with_headers else MSG
        frame.subject, frame.subject_length = starts[0], lengths[0]
        frame.sid = parse_number(starts[1], lengths[1])
        frame.reply, frame.reply_length = starts[2], lengths[2] if count == 3 + sizes else 0
        cdef int64_t size = parse_number(starts[count - 1], lengths[count - 1])
        cdef int64_t headers = parse_number(starts[count - 2], lengths[count - 2]) if with_headers else 0
        if frame.sid < 0 or size < 0 or headers < 0 or headers > size:
            self.complaint = b"a message whose numbers are not right"
            return GARBLED
        if size > self.payload_max:
            self.complaint = b"a message that is larger than the protocol allows"
            return GARBLED
        frame.length = length + 2 + size + 2
        if frame.length > self.end - self.start:
            self.wanted = frame.length
            return UNFINISHED
        frame.headers, frame.headers_length = stop + 2, headers
        frame.payload, frame.payload_length = stop + 2 + headers, size - headers
        if stop[2 + size] != c'\r' or stop[3 + size] != c'\n':
            self.complaint = b"a message that does not end where its size says"
            return GARBLED
        return READY

    cdef void advance(self) noexcept nogil:
        """Release the frame that `parse` found."""
        self.start = self.start + self.frame.length
        self.wanted = 0

    # The socket

    cdef Status reserve(self) noexcept nogil:
        """Move unread bytes to the beginning, and make room for the wanted frame."""
        cdef Py_ssize_t unread = self.end - self.start
        cdef char *grown
        if self.start > 0:
            memmove(self.buffer, self.buffer + self.start, unread)
            self.start, self.end = 0, unread
        if self.wanted > self.capacity or unread == self.capacity:
            grown = <char *>realloc(self.buffer, max(self.wanted, 2 * self.capacity))
            if grown == NULL:
                return NO_MEMORY
            self.buffer = grown
            self.capacity = max(self.wanted, 2 * self.capacity)
        return READY

    cdef Status fill(self) noexcept nogil:
        """Read what the socket has, once. READY, or BLOCKED if there is nothing now."""
        cdef Py_ssize_t count
        if self.descriptor < 0:
            return WAITED
        if self.reserve() == NO_MEMORY:
            return NO_MEMORY
        if self.encrypted:
            with gil:
                return self.fill_from_channel()
        count = recv(self.descriptor, self.buffer + self.end, self.capacity - self.end, MSG_DONTWAIT)
        if count > 0:
            self.end = self.end + count
            return READY
        if count < 0 and errno == EINTR:
            return INTERRUPTED
        if count < 0 and errno == EAGAIN:
            return BLOCKED
        self.error = errno if count < 0 else 0
        return ENDED

    cdef Status write(self, const char *data, Py_ssize_t length, Py_ssize_t *written) noexcept nogil:
        """Write what the socket accepts, once. READY, or BLOCKED if it accepts nothing now."""
        cdef Py_ssize_t count
        if self.encrypted:
            with gil:
                return self.write_to_channel(data, length, written)
        count = send(self.descriptor, data, length, MSG_DONTWAIT | MSG_NOSIGNAL)
        written[0] = max(count, 0)
        if count >= 0:
            return READY
        if errno == EINTR:
            return INTERRUPTED
        if errno == EAGAIN:
            return BLOCKED
        self.error = errno
        return ENDED

    cdef Status fill_from_channel(self) noexcept:
        cdef Py_ssize_t count
        try:
            room = PyMemoryView_FromMemory(self.buffer + self.end, self.capacity - self.end, PyBUF_WRITE)
            count = self.channel.read_into(room)
        except BaseException as error:       # KeyboardInterrupt, too: `trouble` raises it
            self.failure = error
            return ENDED
        if count < 0:
            return BLOCKED
        self.end = self.end + count
        return READY if count else ENDED

    cdef Status write_to_channel(self, const char *data, Py_ssize_t length, Py_ssize_t *written) noexcept:
        written[0] = 0
        try:
            written[0] = self.channel.write(PyMemoryView_FromMemory(<char *>data, length, PyBUF_READ))
        except BaseException as error:
            self.failure = error
            return ENDED
        return READY if written[0] else BLOCKED

    cdef Status wait(self, short events, int64_t deadline) noexcept nogil:
        """READY when the socket is, WAITED when the time is up, INTERRUPTED by a signal."""
        cdef pollfd entry
        cdef int64_t left = deadline - monotonic_nanoseconds()
        if left <= 0:
            return WAITED
        entry.fd, entry.events, entry.revents = self.descriptor, events, 0
        # Rounded up, so that the time is up when poll says so.
        cdef int ready = poll(&entry, 1, <int>min((left + 999_999) // 1_000_000, <int64_t>INT_MAX))
        if ready > 0:
            return READY
        if ready == 0:
            return WAITED
        if errno == EINTR:
            return INTERRUPTED
        self.error = errno
        return ENDED

    # For Python

    cdef object event(self):
        cdef Frame *frame = &self.frame
        cdef Event event = Event.__new__(Event)
        event.kind = KINDS[<int>frame.kind]
        event.sid = frame.sid
        event.subject = PyBytes_FromStringAndSize(frame.subject, frame.subject_length)
        event.reply = PyBytes_FromStringAndSize(frame.reply, frame.reply_length)
        event.headers = PyBytes_FromStringAndSize(frame.headers, frame.headers_length)
        event.payload = PyBytes_FromStringAndSize(frame.payload, frame.payload_length)
        if frame.sid < 0:
            event.payload = event.payload.strip()
        return event

    cdef object result(self, Status status):
        """The result of a reader that has ended with this status: the frame, or None. Raises its exception."""
        if status == READY:
            event = self.event()
            self.advance()
            return event
        if status == ENOUGH or status == WAITED:
            return None
        raise self.trouble(status)

    cdef object trouble(self, Status status):
        """The exception for a status."""
        if status == NO_MEMORY:
            return MemoryError()
        if status == ENDED and self.failure is not None:
            if not isinstance(self.failure, OSError):    # which those of TLS are, too
                return self.failure
            ended = ConnectionEnded(str(self.failure))
            ended.__cause__ = self.failure
            return ended
        if status == ENDED:
            return ConnectionEnded(os.strerror(self.error) if self.error else "closed by the server")
        near = PyBytes_FromStringAndSize(self.buffer + self.start, min(self.end - self.start, 60))
        return BadFrame(f"{self.complaint.decode()}: {near!r}")
