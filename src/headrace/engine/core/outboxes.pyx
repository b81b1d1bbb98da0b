"""What links have to send: the arena, and the backlog of each link.

The arena. A frame is written once into the arena, however many receivers get it in the same form (see Group in
routes.pxd), and a receiver notes only which span of the arena is for it. Consecutive frames make one longer span.
Receivers with different sids share what follows the head of the frame, its body. Such a receiver notes a piece: its
head, which is in the arena once per tick, and the body. If the next body is for it, too, then the piece just becomes
one body longer, and that is all a message costs until it is written. An outbox is therefore

    backlog  | bytes the socket has not accepted yet, owned by the link
    span     | a range of the arena, of this tick
    pieces   | heads, each with bodies that follow it; or ranges of the arena: frames with an empty body

Anything that is not in the arena (an answer such as PONG, the rest of a full socket at the end of the tick) first
settles span and pieces into the backlog. How pieces are written is in pieces.pyx. Transports that cannot gather parts
(TLS, WebSocket) have only a span.

After a flush nothing refers to the arena, so it is simply started again, and a backlog that was written out is given
up. That is why an idle connection holds no buffer at all. The buffers that busy links give up are reused by the next
ones: a fan-out to 100 receivers that cannot share frames spent 40 % of its time in page faults of fresh memory. Buffers
that have not been needed for a while are freed.

What happens when receivers do not keep up is in slow_consumers.pyx and publishers.pyx.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memmove

from headrace.engine.basics.copying cimport BLOCK
from headrace.engine.core.flush_threads cimport FlushThreads
from headrace.engine.core.link cimport DIRTY, WANTS_WRITE, Link, Piece, backlog_length
from headrace.engine.core.pieces cimport (EMPTY_BODY, FAILED, JOINED_SIZE, NOT_TRIED, Body, Outgoing, Place, copy_spans,
                                          describe, gather_first, write_out)
from headrace.engine.core.slow_consumers cimport SlowConsumers
from headrace.engine.core.tick cimport EventQueue, Tick
from headrace.engine.core.transport cimport UNSENT_INSIDE

cdef long long LARGE_FLUSH = 1024 * 1024     # from this many bytes on, other threads help to write them
cdef Py_ssize_t LARGE_CROWD = 4              # and from this many links on,
cdef Py_ssize_t LONG_WRITE = 128 * 1024      # unless each of them gets this much,
cdef Py_ssize_t SHORT_FRAME = 512            # in frames longer than this
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
        """Make room for `length` more bytes."""
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
        if used:                   # otherwise it may have no backlog yet, and memcpy() does not accept NULL
            memcpy(buffer, link.backlog + link.backlog_head, used)
        PyMem_Free(link.backlog)
        link.backlog = buffer
        link.backlog_head = 0
        link.backlog_tail = used
        link.backlog_capacity = POOLED_BACKLOG
        return 0

    cdef int free(self, Link link) except -1:
        """The backlog is empty, or no longer needed: an idle link keeps no buffer."""
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

    def __cinit__(self, Tick tick not None, EventQueue events not None, SlowConsumers slow_consumers not None):
        self.tick = tick
        self.events = events
        self.slow_consumers = slow_consumers
        self.backlogs = Backlogs()
        self.flush_threads = FlushThreads()
        self.gathering.arena = <char *> PyMem_Malloc(ARENA_SIZE + BLOCK)
        self.gathering.bodies = <Body *> PyMem_Malloc(MOST_BODIES * sizeof(Body))
        self.gathering.joined = <char *> PyMem_Malloc(JOINED_SIZE + BLOCK)
        self.arena_number = self.body_count = 1
        self.dirty_capacity = 64
        self.dirty = <void **> PyMem_Malloc(self.dirty_capacity * sizeof(void *))
        self.spare_pieces = <Piece **> PyMem_Malloc(POOL_SIZE * sizeof(Piece *))
        if self.gathering.arena == NULL or self.gathering.bodies == NULL or self.gathering.joined == NULL \
                or self.dirty == NULL or self.spare_pieces == NULL:
            raise MemoryError
        self.gathering.bodies[EMPTY_BODY].start = self.gathering.bodies[EMPTY_BODY].length = 0

    def __dealloc__(self):
        while self.spare_count:
            self.spare_count -= 1
            PyMem_Free(self.spare_pieces[self.spare_count])
        PyMem_Free(self.spare_pieces)
        PyMem_Free(self.gathering.arena)
        PyMem_Free(self.gathering.bodies)
        PyMem_Free(self.gathering.joined)
        PyMem_Free(self.dirty)
        PyMem_Free(self.outgoing)

    # -- filling ------------------------------------------------------------------------------------------------

    cdef Py_ssize_t arena_frame(self, const char *prefix, Py_ssize_t prefix_length,
                                const char *rest, Py_ssize_t rest_length) except -1:
        """Write a frame into the arena. Returns where it starts there."""
        cdef Py_ssize_t start
        if self.arena_used + prefix_length + rest_length > ARENA_SIZE:
            self.flush_all()
        start = self.arena_used
        memcpy(self.gathering.arena + start, prefix, prefix_length)
        if rest_length:            # otherwise it may be NULL, which memcpy() does not accept
            memcpy(self.gathering.arena + start + prefix_length, rest, rest_length)
        self.arena_used = start + prefix_length + rest_length
        self.arena_frames += 1
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
        """Where to write the next bytes that only this link gets: at most `longest`; then call `end_frame`."""
        if has_spans(receiver):
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
            self.slow_consumers.weigh(receiver, before)
        return 0

    cdef int settle_span(self, Link receiver) except -1:
        """Copy the span, and what follows it, to the end of the backlog."""
        cdef Py_ssize_t before = backlog_length(receiver)
        self._keep_spans(receiver, 0)
        if receiver.flags & WANTS_WRITE:
            self.slow_consumers.weigh(receiver, before)
        return 0

    cdef int append_piece(self, Link receiver, Py_ssize_t start, Py_ssize_t length) except -1:
        """Append a range of the arena behind the span."""
        cdef Piece *last
        if receiver.piece_count:
            last = &receiver.pieces[receiver.piece_count - 1]
            if last.first == EMPTY_BODY and last.head + last.head_length == start:
                last.head_length += <uint32_t> length
                receiver.pieces_length += length
                self.owed += length
                return 0
        self._start_piece(receiver, <uint32_t> start, <uint32_t> length, EMPTY_BODY)
        receiver.pieces_length += length
        self.owed += length
        return 0

    cdef int add_body(self, const char *text, Py_ssize_t length) except -1:
        """Write what follows the head of a frame into the arena, for any number of receivers. Returns its number."""
        cdef Py_ssize_t start
        if self.body_count == MOST_BODIES:
            self.flush_all()
        start = self.arena_frame(text, length, NULL, 0)
        self.gathering.bodies[self.body_count].start = <uint32_t> start
        self.gathering.bodies[self.body_count].length = <uint32_t> length
        self.body_count += 1
        return <int> self.body_count - 1

    cdef int append_message(self, Link receiver, uint32_t head, uint32_t head_length, uint32_t body) except -1:
        """Append a head that is in the arena, and a body."""
        cdef Py_ssize_t length = head_length + self.gathering.bodies[body].length
        self._start_piece(receiver, head, head_length, body)
        receiver.pieces_length += length
        self.owed += length
        return 0

    cdef int _start_piece(self, Link link, uint32_t head, uint32_t head_length, uint32_t body) except -1:
        cdef Piece *piece
        if link.piece_count == MOST_PIECES:
            if link.flags & WANTS_WRITE:
                self.settle_span(link)
            else:
                self.flush_link(link)
        if not link.flags & DIRTY:
            self.mark_dirty(link)        # first: a piece that is not flushed in this tick would refer to lost data
        if link.pieces == NULL:
            if self.spare_count:
                self.spare_count -= 1
                link.pieces = self.spare_pieces[self.spare_count]
            else:
                link.pieces = <Piece *> PyMem_Malloc(MOST_PIECES * sizeof(Piece))
                if link.pieces == NULL:
                    raise MemoryError
        piece = &link.pieces[link.piece_count]
        piece.head = head
        piece.head_length = head_length
        piece.first = body
        piece.count = 1
        link.piece_count += 1
        return 0

    cdef int _forget_spans(self, Link link) noexcept:
        link.span_length = link.pieces_length = 0
        link.piece_count = 0
        if link.pieces != NULL:
            if self.spare_count < POOL_SIZE:
                self.spare_pieces[self.spare_count] = link.pieces
                self.spare_count += 1
            else:
                PyMem_Free(link.pieces)
            link.pieces = NULL
        return 0

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
        cdef Py_ssize_t place
        if self.owed >= LARGE_FLUSH and self.dirty_count >= LARGE_CROWD and self.dirty_flushed == 0:
            self._write_together()
        while self.dirty_flushed < self.dirty_count:
            place = self.dirty_flushed
            link = <Link> self.dirty[place]
            self.dirty_flushed += 1          # whatever happens now, this pointer is not used again
            link.flags &= ~(<uint32_t> DIRTY)
            try:
                if place < self.outgoing_count and self.outgoing[place].written != NOT_TRIED:
                    errno = self.outgoing[place].error
                    self._settle(link, self.outgoing[place].written)
                elif link.flags & WANTS_WRITE:
                    # Its socket was full a moment ago, and epoll will report when it no longer is.
                    if has_spans(link):
                        self.settle_span(link)
                else:
                    self.flush_link(link)
            except MemoryError as error:
                self._forget_spans(link)     # it will not get what was in its outbox: nothing may follow
                self.tick.report_bug(link, error)
        self.dirty_count = self.dirty_flushed = self.outgoing_count = 0
        self.arena_used = self.arena_frames = 0
        self.body_count = 1              # without EMPTY_BODY
        self.arena_number += 1
        self.owed = self.owed_apart = 0
        return 0

    cdef bint _write_together(self) except -1:
        """Let the flush threads write the outboxes of all plain sockets, if it pays and there is memory.

        Returns whether they did.
        """
        cdef Py_ssize_t k, in_bulk = 0
        cdef bint long_spans = self.arena_used > SHORT_FRAME * self.arena_frames
        cdef Link link
        cdef void *grown
        if self.outgoing_capacity < self.dirty_count:
            grown = PyMem_Realloc(self.outgoing, self.dirty_capacity * sizeof(Outgoing))
            if grown == NULL:
                return False
            self.outgoing = <Outgoing *> grown
            self.outgoing_capacity = self.dirty_capacity
        for k in range(self.dirty_count):
            link = <Link> self.dirty[k]
            describe(link, &self.outgoing[k])
            if long_spans:
                in_bulk += link.span_length
            if self._has_longer_frames(link):
                in_bulk += link.pieces_length
            if not link.flags & GATHERS or link.flags & WANTS_WRITE or not has_spans(link) and not backlog_length(link):
                self.outgoing[k].fd = -1
        if in_bulk >= LONG_WRITE * self.dirty_count:
            return False
        self.outgoing_count = self.dirty_count
        self.flush_threads.write(&self.gathering, self.outgoing, <uint32_t> self.dirty_count)
        return True

    cdef bint _has_longer_frames(self, Link link) noexcept:
        """Whether copying the bytes of its pieces, rather than putting them together, is what takes time."""
        return link.piece_count > 0 and \
            link.pieces[0].head_length + self.gathering.bodies[link.pieces[0].first].length > SHORT_FRAME

    cdef int flush_link(self, Link link) except -1:
        """Write as much as the socket accepts; the rest becomes the backlog."""
        if link.fd < 0:
            self._forget_spans(link)
            return 0
        if backlog_length(link) + link.span_length + link.pieces_length == 0 \
                and not link.transport.inside & UNSENT_INSIDE:
            return 0
        return self._settle(link, self._write(link))

    cdef Py_ssize_t _write(self, Link link) except? -1:
        """Offer the outbox to the transport. Returns how many bytes it accepted, or -1 with a reason in errno."""
        cdef Outgoing outgoing
        cdef Place place
        describe(link, &outgoing)
        if not link.flags & GATHERS:         # there are no pieces
            return link.transport.send(self.gathering.parts, gather_first(&self.gathering, &outgoing, &place))
        write_out(&self.gathering, &outgoing)
        if outgoing.written == FAILED:
            errno = outgoing.error
        return outgoing.written

    cdef int _settle(self, Link link, Py_ssize_t written) except -1:
        """The transport has accepted this much of the outbox (-1: an error, in errno): keep the rest."""
        cdef Py_ssize_t waiting = backlog_length(link)
        cdef Py_ssize_t before = waiting if link.flags & WANTS_WRITE else 0
        cdef Py_ssize_t new = link.span_length + link.pieces_length
        if written < 0:
            if errno != EAGAIN and errno != EINTR:
                self._forget_spans(link)
                return self.tick.close_link(link, 'Write Error')
            written = 0
        else:
            self._note_progress(link, written)
        if written < waiting:
            link.backlog_head += written
            written = 0
        else:
            written -= waiting
            link.backlog_head = link.backlog_tail = 0
        if new and written == new:
            self._forget_spans(link)
            new = 0
        if new == 0 and link.backlog_head == link.backlog_tail and not link.transport.inside & UNSENT_INSIDE:
            return self._drained(link, before)
        if not link.flags & WANTS_WRITE:
            link.flags |= WANTS_WRITE
            link.written_at = self.tick.now
            link.blocked_in = self.slow_consumers.window
            self.events.update(link)
        if new:
            self._keep_spans(link, written)
        return self.slow_consumers.weigh(link, before)

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
            self.slow_consumers.weigh(link, before)
            link.flags &= ~(<uint32_t> WANTS_WRITE)
            self.events.update(link)
        return 0

    cdef int _keep_spans(self, Link link, Py_ssize_t skipped) except -1:
        """Copy the span and the pieces to the backlog, without the first `skipped` bytes, which were written."""
        cdef Py_ssize_t length = link.span_length + link.pieces_length - skipped
        cdef char *end
        if link.backlog_tail + length > link.backlog_capacity:
            self.backlogs.grow(link, length)
        end = copy_spans(&self.gathering, link, link.backlog + link.backlog_tail, skipped)
        link.backlog_tail += length
        assert end == link.backlog + link.backlog_tail
        self._forget_spans(link)
        return 0


cdef inline bint has_spans(Link link) noexcept:
    return link.span_length or link.piece_count
