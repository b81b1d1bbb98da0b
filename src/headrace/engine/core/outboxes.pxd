# What links have to send. The theory is at the top of outboxes.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.flush_threads cimport FlushThreads
from headrace.engine.core.link cimport DIRTY, GATHERS, Link, Piece
from headrace.engine.core.pieces cimport Gathering, Outgoing
from headrace.engine.core.slow_consumers cimport SlowConsumers
from headrace.engine.core.tick cimport EventQueue, Tick

cdef enum:
    ARENA_SIZE = 1048576
    MOST_BODIES = 8192             # of a tick
    OWED_LIMIT = 33554432          # bytes: beyond this, flush in the middle of a tick
    APART_SHARE = 24576            # the same for frames that could not be shared, for each receiver
    MOST_PIECES = 1010             # of a link; with 1024, those of ten links would share the same few cache lines

cdef class Backlogs:
    cdef char **pool               # empty backlogs of the usual size
    cdef Py_ssize_t pool_count
    cdef Py_ssize_t pool_low       # the fewest there were since the last trim

    cdef int grow(self, Link link, Py_ssize_t length) except -1
    cdef int free(self, Link link) except -1
    cdef int trim(self) except -1
    cdef int _use_pooled(self, Link link, Py_ssize_t used) except -1


cdef class Outboxes:
    # what every message needs comes first
    cdef Py_ssize_t arena_used
    cdef Py_ssize_t arena_frames   # or parts of frames
    cdef long long owed            # bytes of spans appended for receivers since the last flush
    cdef long long owed_apart      # bytes copied for single receivers since the last flush
    cdef Py_ssize_t dirty_count
    cdef Gathering gathering       # with the arena: the frames of this tick
    cdef Tick tick
    cdef EventQueue events
    cdef SlowConsumers slow_consumers
    cdef Backlogs backlogs
    cdef FlushThreads flush_threads
    cdef uint64_t arena_number     # counts how often it was started
    cdef uint32_t body_count
    cdef Piece **spare_pieces      # of links that were flushed
    cdef Py_ssize_t spare_count
    cdef void **dirty              # links with something to flush (borrowed)
    cdef Py_ssize_t dirty_flushed  # those before it have been flushed, in the current flush
    cdef Py_ssize_t dirty_capacity
    cdef Outgoing *outgoing        # of the first links of `dirty`, which the flush threads have written
    cdef Py_ssize_t outgoing_count
    cdef Py_ssize_t outgoing_capacity

    cdef Py_ssize_t arena_frame(self, const char *prefix, Py_ssize_t prefix_length,
                                const char *rest, Py_ssize_t rest_length) except -1
    cdef int append(self, Link receiver, const char *first, Py_ssize_t first_length,
                    const char *second, Py_ssize_t second_length) except -1
    cdef char *begin_frame(self, Link receiver, Py_ssize_t longest) except NULL
    cdef int end_frame(self, Link receiver, char *end) except -1
    cdef int settle_span(self, Link receiver) except -1
    cdef int append_piece(self, Link receiver, Py_ssize_t start, Py_ssize_t length) except -1
    cdef int add_body(self, const char *text, Py_ssize_t length) except -1
    cdef int append_message(self, Link receiver, uint32_t head, uint32_t head_length, uint32_t body) except -1
    cdef int _start_piece(self, Link link, uint32_t head, uint32_t head_length, uint32_t body) except -1
    cdef bint _write_together(self) except -1
    cdef bint _has_longer_frames(self, Link link) noexcept
    cdef Py_ssize_t _write(self, Link link) except? -1
    cdef int _settle(self, Link link, Py_ssize_t written) except -1
    cdef int _forget_spans(self, Link link) noexcept
    cdef int mark_dirty(self, Link link) except -1
    cdef int flush_all(self) except -1
    cdef int flush_link(self, Link link) except -1
    cdef int _note_progress(self, Link link, Py_ssize_t written) except -1
    cdef int _drained(self, Link link, Py_ssize_t before) except -1
    cdef int _keep_spans(self, Link link, Py_ssize_t skipped) except -1


cdef inline int append_span(Outboxes outboxes, Link receiver, Py_ssize_t start, Py_ssize_t length) except -1:
    """Append a range of the arena to an outbox: the one step that is taken for every message delivered."""
    if receiver.piece_count:
        return outboxes.append_piece(receiver, start, length)
    if receiver.span_length:
        if receiver.span_start + receiver.span_length == start:
            receiver.span_length += length
            outboxes.owed += length
            return 0
        if receiver.flags & GATHERS:
            return outboxes.append_piece(receiver, start, length)
        outboxes.settle_span(receiver)
    if not receiver.flags & DIRTY:
        outboxes.mark_dirty(receiver)    # first: a span that is not flushed in this tick would refer to lost data
    receiver.span_start = start
    receiver.span_length = length
    outboxes.owed += length
    return 0


cdef inline bint owes_much(Outboxes outboxes) noexcept:
    """Whether enough is queued in this tick that it should be written now."""
    return outboxes.owed > OWED_LIMIT or outboxes.owed_apart > APART_SHARE * outboxes.dirty_count
