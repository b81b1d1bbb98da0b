"""The pieces of an outbox on their way out: gathered for a system call, or copied to the backlog.

A piece is a head and consecutive bodies, each of which follows that head. The frames are copied one behind the other into
one buffer, which the next link uses again while it is in the cache. Only what is long goes to the system call as it is: a
head and a body of their own cost more in there than a short copy costs here.

Rows of `headrace bench compare` that need it: `10-10`, with fewer and longer writes, and `10-100`, with fewer parts in each.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memcpy

from headrace.engine.core.link cimport Piece, backlog_length


cdef int gather_first(Gathering *gathering, Link link, Place *place) noexcept:
    """Fill `parts` with the beginning of an outbox. Returns how many there are; `place` is where they end."""
    cdef int count = 0
    place.piece = place.body = 0
    if backlog_length(link):
        count = add_part(gathering.parts, count, link.backlog + link.backlog_head, backlog_length(link))
    if link.span_length:
        count = add_part(gathering.parts, count, gathering.arena + link.span_start, link.span_length)
    return gather(gathering, link, place, count)


cdef int gather(Gathering *gathering, Link link, Place *place, int count) noexcept:
    """Add pieces to the `count` parts, from `place` on, while there is room. Returns how many parts there are then."""
    cdef Piece *piece
    cdef Body *body
    cdef Body *end
    cdef char *at = gathering.joined
    cdef char *start = at                # of the frames that are in no part so far
    cdef char *full = at + JOINED_SIZE - LONG_FRAME
    while place.piece < link.piece_count and at <= full and count < MOST_PARTS - 3:
        piece = &link.pieces[place.piece]
        body = gathering.bodies + piece.first + place.body
        end = gathering.bodies + piece.first + piece.count
        while body < end and at <= full and piece.head_length + body.length <= LONG_FRAME:
            at = copy_over(at, gathering.arena + piece.head, piece.head_length)
            at = copy_over(at, gathering.arena + body.start, body.length)
            body += 1
        if body < end and at <= full:
            if at > start:
                count = add_part(gathering.parts, count, start, at - start)
                start = at
            count = add_part(gathering.parts, count, gathering.arena + piece.head, piece.head_length)
            count = add_part(gathering.parts, count, gathering.arena + body.start, body.length)
            body += 1
        place.body = <uint32_t> (body - gathering.bodies) - piece.first
        if body == end:
            place.piece += 1
            place.body = 0
    if at > start:
        count = add_part(gathering.parts, count, start, at - start)
    return count


cdef Py_ssize_t total_length(const iovec *parts, int count) noexcept:
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


cdef inline int add_part(iovec *parts, int count, char *start, Py_ssize_t length) noexcept:
    parts[count].iov_base = start
    parts[count].iov_len = length
    return count + 1


cdef inline char *copy_over(char *at, const char *source, uint32_t length) noexcept:
    """Copy in blocks, beyond the end: for what is short that takes a third of the time. Returns where it ends."""
    cdef uint32_t copied = 0
    while copied < length:
        memcpy(at + copied, source + copied, BLOCK)
        copied += BLOCK
    return at + length


cdef inline char *copy_rest(char *at, const char *source, Py_ssize_t length, Py_ssize_t *skipped) noexcept:
    """Copy what is left of it after `skipped` bytes, of which it takes its share. Returns where the copy ends."""
    if skipped[0] >= length:
        skipped[0] -= length
        return at
    memcpy(at, source + skipped[0], length - skipped[0])
    at += length - skipped[0]
    skipped[0] = 0
    return at
