"""What links have to send: the arena, and the backlog of each link.

The arena. A frame is written once into the arena, however many receivers get it in the same form (see Group in
routes.pxd), and a receiver notes only which span of the arena is for it. Consecutive frames make one longer span.
An outbox is therefore

    backlog  | bytes the socket has not accepted so far, owned by the link
    span     | at most one range of the arena, of this tick

and whatever breaks the run (another sid, an answer such as PONG, the end of the tick with a full socket) first
settles the span into the backlog. After a flush no span refers to the arena, so it is simply started again, and a
backlog that was written out is given up. That is why an idle connection holds no buffer at all. The buffers that busy
links give up serve the next ones: a fan-out to 100 receivers that cannot share frames spent 40 % of its time in page
faults of fresh memory. Those that nobody needed for a while are freed.

What happens when receivers do not keep up is in congestion.pyx and publishers.pyx.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memmove

from headrace.engine.core.congestion cimport Congestion
from headrace.engine.core.link cimport DIRTY, WANTS_WRITE, Link, backlog_length
from headrace.engine.core.system cimport iovec
from headrace.engine.core.tick cimport EventQueue, Tick

cdef long long OWED_LIMIT = 32 * 1024 * 1024   # flush in the middle of a tick past this
cdef long long APART_SHARE = 24 * 1024       # the same for frames that could not be shared, for each receiver
cdef Py_ssize_t PROOF_BYTES = 64 * 1024      # what a full socket has to accept for its link to count as alive
cdef Py_ssize_t FIRST_BACKLOG = 512          # room for a few answers
cdef Py_ssize_t POOLED_BACKLOG = 32 * 1024   # the size of the buffers that are kept for the next tick
cdef Py_ssize_t MOST_GROWTH = 256 * 1024     # of a long backlog, beyond what is needed
cdef Py_ssize_t POOL_SIZE = 1024


@cython.final
cdef class Backlogs:
    """The memory of the links' backlogs."""

    def __cinit__(self):
        self.pool = <char **> PyMem_Malloc(POOL_SIZE * sizeof(char *))
        if self.pool == NULL:
            raise MemoryError

    def __dealloc__(self):
        while self.pool_count:
            self.pool_count -= 1
            PyMem_Free(self.pool[self.pool_count])
        PyMem_Free(self.pool)

    cdef int grow(self, Link link, Py_ssize_t length) except -1:
        """Make room for `length` more bytes where there is too little."""
        cdef Py_ssize_t used = backlog_length(link)
        cdef Py_ssize_t capacity
        cdef void *grown
        if 2 * link.backlog_head >= link.backlog_capacity and used + length <= link.backlog_capacity:
            memmove(link.backlog, link.backlog + link.backlog_head, used)
            link.backlog_head = 0
            link.backlog_tail = used
            return 0
        if link.backlog_tail + length <= FIRST_BACKLOG:
            capacity = FIRST_BACKLOG
        elif used + length <= POOLED_BACKLOG and link.backlog_capacity < POOLED_BACKLOG:
            return self._use_pooled(link, used)
        else:
            capacity = link.backlog_tail + length
            capacity = max(capacity, min(2 * link.backlog_capacity, capacity + MOST_GROWTH))
        grown = PyMem_Realloc(link.backlog, capacity)
        if grown == NULL:
            raise MemoryError
        link.backlog = <char *> grown
        link.backlog_capacity = capacity
        return 0

    cdef int _use_pooled(self, Link link, Py_ssize_t used) except -1:
        """Give a link one of the buffers that others have just emptied, while its bytes are still in the cache."""
        cdef char *buffer
        if self.pool_count:
            self.pool_count -= 1
            buffer = self.pool[self.pool_count]
            self.pool_low = min(self.pool_low, self.pool_count)
        else:
            buffer = <char *> PyMem_Malloc(POOLED_BACKLOG)
            if buffer == NULL:
                raise MemoryError
        if used:                   # otherwise it may have no backlog so far, and memcpy() accepts no NULL
            memcpy(buffer, link.backlog + link.backlog_head, used)
        PyMem_Free(link.backlog)
        link.backlog = buffer
        link.backlog_head = 0
        link.backlog_tail = used
        link.backlog_capacity = POOLED_BACKLOG
        return 0

    cdef int free(self, Link link) except -1:
        """The backlog is empty, or of no use any more: a link keeps no buffer."""
        if link.backlog_capacity == POOLED_BACKLOG and self.pool_count < POOL_SIZE:
            self.pool[self.pool_count] = link.backlog
            self.pool_count += 1
        else:
            PyMem_Free(link.backlog)
        link.backlog = NULL
        link.backlog_head = link.backlog_tail = link.backlog_capacity = 0
        return 0

    cdef int trim(self) except -1:
        """Free the buffers that nobody has needed since the last call."""
        while self.pool_low > 0:
            self.pool_low -= 1
            self.pool_count -= 1
            PyMem_Free(self.pool[self.pool_count])
        self.pool_low = self.pool_count
        return 0


@cython.final
cdef class Outboxes:
    """What every link has to send."""

    def __cinit__(self, Tick tick not None, EventQueue events not None, Congestion congestion not None):
        self.tick = tick
        self.events = events
        self.congestion = congestion
        self.backlogs = Backlogs()
        self.arena = <char *> PyMem_Malloc(ARENA_SIZE)
        self.dirty_capacity = 64
        self.dirty = <void **> PyMem_Malloc(self.dirty_capacity * sizeof(void *))
        if self.arena == NULL or self.dirty == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.arena)
        PyMem_Free(self.dirty)

    # -- filling ------------------------------------------------------------------------------------------------

    cdef Py_ssize_t arena_frame(self, const char *prefix, Py_ssize_t prefix_length,
                                const char *rest, Py_ssize_t rest_length) except -1:
        """Write a frame into the arena. Returns where it starts there."""
        cdef Py_ssize_t start
        if self.arena_used + prefix_length + rest_length > ARENA_SIZE:
            self.flush_all()
        start = self.arena_used
        memcpy(self.arena + start, prefix, prefix_length)
        memcpy(self.arena + start + prefix_length, rest, rest_length)
        self.arena_used = start + prefix_length + rest_length
        return start

    cdef int append(self, Link receiver, const char *first, Py_ssize_t first_length,
                    const char *second, Py_ssize_t second_length) except -1:
        """Append bytes that only this link gets."""
        cdef char *at = self.begin_frame(receiver, first_length + second_length)
        memcpy(at, first, first_length)
        if second_length:
            memcpy(at + first_length, second, second_length)
        return self.end_frame(receiver, at + first_length + second_length)

    cdef char *begin_frame(self, Link receiver, Py_ssize_t longest) except NULL:
        """Where the next bytes that only this link gets are to be written: at most `longest`, then call `end_frame`."""
        if receiver.span_length:
            self.settle_span(receiver)
        if receiver.backlog_tail + longest > receiver.backlog_capacity:
            self.backlogs.grow(receiver, longest)
        return receiver.backlog + receiver.backlog_tail

    cdef int end_frame(self, Link receiver, char *end) except -1:
        cdef Py_ssize_t before = backlog_length(receiver)
        self.owed_apart += end - (receiver.backlog + receiver.backlog_tail)
        receiver.backlog_tail = end - receiver.backlog
        if not receiver.flags & DIRTY:
            self.mark_dirty(receiver)
        if receiver.flags & WANTS_WRITE:
            self.congestion.weigh(receiver, before)
        return 0

    cdef int settle_span(self, Link receiver) except -1:
        """Copy the span to the end of the backlog."""
        cdef Py_ssize_t before = backlog_length(receiver)
        self._keep_span(receiver)
        if receiver.flags & WANTS_WRITE:
            self.congestion.weigh(receiver, before)
        return 0

    cdef bint owe_much(self) noexcept:
        """Whether receivers got so much in this tick that it had better be written now."""
        return self.owed > OWED_LIMIT or self.owed_apart > APART_SHARE * self.dirty_count

    cdef int mark_dirty(self, Link link) except -1:
        cdef void *grown
        if self.dirty_count == self.dirty_capacity:
            grown = PyMem_Realloc(self.dirty, 2 * self.dirty_capacity * sizeof(void *))
            if grown == NULL:
                raise MemoryError
            self.dirty = <void **> grown
            self.dirty_capacity *= 2
        self.dirty[self.dirty_count] = <void *> link
        self.dirty_count += 1
        link.flags |= DIRTY
        return 0

    # -- emptying -----------------------------------------------------------------------------------------------

    cdef int flush_all(self) except -1:
        """Write every outbox that got something, then start the arena again."""
        cdef Link link
        while self.dirty_flushed < self.dirty_count:
            link = <Link> self.dirty[self.dirty_flushed]
            self.dirty_flushed += 1          # whatever happens now, nobody meets this pointer again
            link.flags &= ~(<uint32_t> DIRTY)
            try:
                if link.flags & WANTS_WRITE:
                    # Its socket was full a moment ago, and epoll will report when it is not.
                    if link.span_length:
                        self.settle_span(link)
                else:
                    self.flush_link(link)
            except MemoryError as error:
                link.span_length = 0         # it will not get what was in it: nothing may follow
                self.tick.report_bug(link, error)
        self.dirty_count = self.dirty_flushed = 0
        self.arena_used = 0
        self.owed = self.owed_apart = 0
        return 0

    cdef int flush_link(self, Link link) except -1:
        """Write as much as the socket accepts; the rest becomes the backlog."""
        cdef iovec parts[2]
        cdef int count = 0
        cdef Py_ssize_t waiting = backlog_length(link)
        cdef Py_ssize_t before = waiting if link.flags & WANTS_WRITE else 0
        cdef Py_ssize_t written
        if link.fd < 0:
            link.span_length = 0
            return 0
        if waiting:
            parts[count].iov_base = link.backlog + link.backlog_head
            parts[count].iov_len = waiting
            count += 1
        if link.span_length:
            parts[count].iov_base = self.arena + link.span_start
            parts[count].iov_len = link.span_length
            count += 1
        if count == 0:
            return 0
        written = link.transport.send(parts, count)
        if written < 0:
            if errno != EAGAIN and errno != EINTR:
                link.span_length = 0
                return self.tick.close_link(link, 'Write Error')
            written = 0
        else:
            self._note_progress(link, written)
        if written < waiting:
            link.backlog_head += written
        else:
            written -= waiting
            link.backlog_head = link.backlog_tail = 0
            link.span_start += written
            link.span_length -= written
        if link.span_length == 0 and link.backlog_head == link.backlog_tail:
            return self._drained(link, before)
        if not link.flags & WANTS_WRITE:
            link.flags |= WANTS_WRITE
            link.written_at = self.tick.now
            link.blocked_in = self.congestion.window
            self.events.update(link)
        if link.span_length:
            self._keep_span(link)
        return self.congestion.weigh(link, before)

    cdef int _note_progress(self, Link link, Py_ssize_t written) except -1:
        link.drained += written
        link.unproven += written
        if link.unproven >= PROOF_BYTES:
            link.unproven = 0
            link.written_at = self.tick.now
        return 0

    cdef int _drained(self, Link link, Py_ssize_t before) except -1:
        """Everything has been written."""
        self.backlogs.free(link)
        if link.waiters is not None:
            self.tick.deferred.extend(link.waiters)
            link.waiters = None
        if link.flags & WANTS_WRITE:
            self.congestion.weigh(link, before)
            link.flags &= ~(<uint32_t> WANTS_WRITE)
            self.events.update(link)
        return 0

    cdef int _keep_span(self, Link link) except -1:
        if link.backlog_tail + link.span_length > link.backlog_capacity:
            self.backlogs.grow(link, link.span_length)
        memcpy(link.backlog + link.backlog_tail, self.arena + link.span_start, link.span_length)
        link.backlog_tail += link.span_length
        link.span_length = 0
        return 0
