"""The pieces of an outbox on their way out: gathered for a system call, or copied to the backlog.

A piece is a head and consecutive bodies, each of which follows that head. The frames are copied one after another into
one buffer, which the next link reuses while it is in the cache. Only long ones go to the system call as they are:
there, a separate head and body cost more than a short copy costs here.

Rows of `headrace bench compare` that need it: `10-10`, with fewer and longer writes, and `10-100`, with fewer parts in each.
"""

from libc.errno cimport errno
from libc.stdint cimport uint32_t
from libc.string cimport memcpy

from headrace.engine.basics.copying cimport copy_over
from headrace.engine.basics.system cimport iovec, writev
from headrace.engine.core.link cimport Piece, backlog_length


cdef void describe(Link link, Outgoing *outgoing) noexcept:
    """What a link has to send. This holds until its outbox changes, or the tick's arena is started again."""
    outgoing.fd = link.fd
    outgoing.backlog = link.backlog + link.backlog_head if backlog_length(link) else NULL
    outgoing.backlog_length = backlog_length(link)
    outgoing.span_start = link.span_start
    outgoing.span_length = link.span_length
    outgoing.pieces = link.pieces
    outgoing.piece_count = link.piece_count
    outgoing.written = NOT_TRIED


cdef void write_out(Gathering *gathering, Outgoing *outgoing) noexcept nogil:
    """Write to the socket until it is full or nothing is left. `gathering` is this thread's own, without the arena."""
    cdef Place place
    cdef Py_ssize_t offered, written
    cdef int count = gather_first(gathering, outgoing, &place)
    outgoing.written = 0
    while True:
        offered = _total_length(gathering.parts, count)
        written = writev(outgoing.fd, gathering.parts, count)
        if written < 0:
            if outgoing.written == 0:            # otherwise the next attempt will see the error again
                outgoing.error = errno
                outgoing.written = FAILED
            return
        outgoing.written += written
        if written < offered or place.piece == outgoing.piece_count:
            return
        count = _gather(gathering, outgoing, &place, 0)


cdef int gather_first(Gathering *gathering, const Outgoing *outgoing, Place *place) noexcept nogil:
    """Fill `parts` with the beginning of an outbox. Returns how many there are; `place` is where they end."""
    cdef int count = 0
    place.piece = place.body = 0
    if outgoing.backlog_length:
        count = _add_part(gathering.parts, count, outgoing.backlog, outgoing.backlog_length)
    if outgoing.span_length:
        count = _add_part(gathering.parts, count, gathering.arena + outgoing.span_start, outgoing.span_length)
    return _gather(gathering, outgoing, place, count)


cdef int _gather(Gathering *gathering, const Outgoing *outgoing, Place *place, int count) noexcept nogil:
    """Add pieces to the `count` parts, from `place` on, while there is room. Returns how many parts there are then."""
    cdef const Piece *piece
    cdef Body *body
    cdef Body *end
    cdef char *at = gathering.joined
    cdef char *start = at                # of the frames that are not in a part yet
    cdef char *full = at + JOINED_SIZE - LONG_FRAME
    while place.piece < outgoing.piece_count and at <= full and count < MOST_PARTS - 3:
        piece = &outgoing.pieces[place.piece]
        body = gathering.bodies + piece.first + place.body
        end = gathering.bodies + piece.first + piece.count
        while body < end and at <= full and piece.head_length + body.length <= LONG_FRAME:
            at = copy_over(at, gathering.arena + piece.head, piece.head_length)
            at = copy_over(at, gathering.arena + body.start, body.length)
            body += 1
        if body < end and at <= full:
            if at > start:
                count = _add_part(gathering.parts, count, start, at - start)
                start = at
            count = _add_part(gathering.parts, count, gathering.arena + piece.head, piece.head_length)
            count = _add_part(gathering.parts, count, gathering.arena + body.start, body.length)
            body += 1
        place.body = <uint32_t> (body - gathering.bodies) - piece.first
        if body == end:
            place.piece += 1
            place.body = 0
    if at > start:
        count = _add_part(gathering.parts, count, start, at - start)
    return count


cdef Py_ssize_t _total_length(const iovec *parts, int count) noexcept nogil:
    cdef Py_ssize_t total = 0
    cdef int k
    for k in range(count):
        total += parts[k].iov_len
    return total


cdef char *copy_spans(Gathering *gathering, Link link, char *at, Py_ssize_t skipped) noexcept:
    """Copy the span and the pieces to `at`, without the first `skipped` bytes. Returns where the copy ends."""
    cdef Piece *piece
    cdef Body *body
    cdef uint32_t k, n
    at = copy_rest(at, gathering.arena + link.span_start, link.span_length, &skipped)
    for k in range(link.piece_count):
        piece = &link.pieces[k]
        for n in range(piece.count):
            body = &gathering.bodies[piece.first + n]
            at = copy_rest(at, gathering.arena + piece.head, piece.head_length, &skipped)
            at = copy_rest(at, gathering.arena + body.start, body.length, &skipped)
    return at


cdef inline int _add_part(iovec *parts, int count, const char *start, Py_ssize_t length) noexcept nogil:
    parts[count].iov_base = <void *> start
    parts[count].iov_len = length
    return count + 1


cdef inline char *copy_rest(char *at, const char *source, Py_ssize_t length, Py_ssize_t *skipped) noexcept:
    """Copy what is left of it after `skipped` bytes, of which it takes its share. Returns where the copy ends."""
    if skipped[0] >= length:
        skipped[0] -= length
        return at
    memcpy(at, source + skipped[0], length - skipped[0])
    at += length - skipped[0]
    skipped[0] = 0
    return at
