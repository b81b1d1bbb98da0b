"""From sockets to the parser: one buffer that all links are read into, and the frames that have arrived in part.

A link's `partial` has the beginning of a frame that has arrived in part. The next read puts it in front of the new
bytes, in the headroom of the shared buffer, unless the frame is too long for that: then it has been given its own
buffer of the announced (and checked) length, and the socket is read straight into it.

A publisher that has to wait is not read; what it had already sent waits in its `partial`.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memcpy

from headrace.engine.core.link cimport CLOSED, DIRTY, Link
from headrace.engine.core.parser cimport Parser
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.basics.system cimport iovec
from headrace.engine.core.slow_consumers cimport BUDGET
from headrace.engine.core.tick cimport Tick
from headrace.engine.core.transport cimport UNREAD_INSIDE, UNSENT_INSIDE

cdef Py_ssize_t READ_SIZE = 256 * 1024
cdef Py_ssize_t HEADROOM = 64 * 1024         # a frame up to this length is completed in the shared buffer


@cython.final
cdef class Reader:
    def __cinit__(self, Tick tick not None, Publishers publishers not None, Parser parser not None):
        self.tick = tick
        self.publishers = publishers
        self.parser = parser

    def __dealloc__(self):
        PyMem_Free(self.buffer)

    cdef int set_control_line_limit(self, Py_ssize_t limit) except -1:
        # A control line that has arrived in part has to fit into the headroom, including its operation.
        cdef Py_ssize_t headroom = max(HEADROOM, limit + 1024)
        cdef void *grown
        if self.tick.running:
            raise RuntimeError("the control line limit cannot change during a poll")
        if headroom > self.headroom:
            grown = PyMem_Realloc(self.buffer, headroom + READ_SIZE)
            if grown == NULL:
                raise MemoryError
            self.buffer = <char *> grown
            self.headroom = self.parser.longest_in_buffer = headroom
        self.parser.control_line_limit = limit
        return 0

    cdef int readable(self, Link link) except -1:
        if link.in_msgs and self.publishers.slow_consumers.fair_total > BUDGET:
            return self.publishers.overran(link)
        return self.read(link)

    cdef int read(self, Link link) except -1:
        cdef iovec part
        cdef char *start
        cdef Py_ssize_t count
        if link.frame_total:
            return self._read_long_frame(link)
        part.iov_base = self.buffer + self.headroom
        part.iov_len = READ_SIZE
        count = link.transport.receive(&part, 1)
        if link.transport.inside:
            self._look_inside(link)
        if count <= 0:
            return self._nothing_read(link, count)
        link.active_at = self.tick.now
        start = self.buffer + self.headroom
        if link.partial_length:
            start -= link.partial_length
            memcpy(start, link.partial, link.partial_length)
            PyMem_Free(link.partial)
            link.partial = NULL
            link.partial_length = 0
        return self._feed(link, start, self.buffer + self.headroom + count)

    cdef int _read_long_frame(self, Link link) except -1:
        """Read the rest of a long frame into its own buffer, and what follows into the shared buffer."""
        cdef iovec parts[2]
        cdef Py_ssize_t count, missing = link.frame_total - link.partial_length
        cdef char *frame
        assert missing > 0
        parts[0].iov_base = link.partial + link.partial_length
        parts[0].iov_len = missing
        parts[1].iov_base = self.buffer + self.headroom
        parts[1].iov_len = READ_SIZE
        count = link.transport.receive(parts, 2)
        if link.transport.inside:
            self._look_inside(link)
        if count <= 0:
            return self._nothing_read(link, count)
        link.active_at = self.tick.now
        if count < missing:
            link.partial_length += count
            return 0
        frame = link.partial
        link.partial = NULL
        link.partial_length = 0
        count -= missing
        missing = link.frame_total
        link.frame_total = 0
        try:
            self._feed(link, frame, frame + missing)
        finally:
            PyMem_Free(frame)
        if count:
            assert link.partial_length == 0 or link.flags & CLOSED
            self._feed(link, self.buffer + self.headroom, self.buffer + self.headroom + count)
        return 0

    cdef int _look_inside(self, Link link) except -1:
        """Its transport holds bytes that epoll does not know about."""
        if link.transport.inside & UNREAD_INSIDE:
            self.tick.read_again(link)
        if link.transport.inside & UNSENT_INSIDE and not link.flags & DIRTY:
            self.publishers.outboxes.mark_dirty(link)
        return 0

    cdef int _nothing_read(self, Link link, Py_ssize_t count) except -1:
        if count < 0 and (errno == EAGAIN or errno == EINTR):
            return 0
        return self.tick.close_link(link, 'Client Closed' if count == 0 else 'Read Error')

    cdef int parse_partial(self, Link link) except -1:
        """Parse what a link had already sent when it was paused."""
        cdef char *unparsed = link.partial
        cdef Py_ssize_t length = link.partial_length
        if length and not link.frame_total:
            link.partial = NULL
            link.partial_length = 0
            try:
                self._feed(link, unparsed, unparsed + length)
            finally:
                PyMem_Free(unparsed)
        return 0

    cdef int _feed(self, Link link, char *start, char *end) except -1:
        """Parse what has arrived and keep what is not complete."""
        self.tick.received = start
        self.tick.received_end = end
        try:
            start = self.parser.parse(link, start, end)
        finally:
            self.tick.received = self.tick.received_end = NULL
        if start < end and not link.flags & CLOSED:
            self._keep_partial(link, start, end)
        return 0

    cdef int _keep_partial(self, Link link, const char *start, const char *end) except -1:
        cdef Py_ssize_t length = end - start
        cdef Py_ssize_t room = length if length > link.frame_total else link.frame_total
        assert link.partial == NULL
        link.partial = <char *> PyMem_Malloc(room)
        if link.partial == NULL:
            raise MemoryError
        memcpy(link.partial, start, length)
        link.partial_length = length
        return 0
