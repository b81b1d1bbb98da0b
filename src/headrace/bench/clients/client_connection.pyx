"""What a client of the load writes and reads, without any system call.

A publisher cycles through one prebuilt block of whole PUB frames: one write carries hundreds of messages. Small things
(PING, PONG, requests, replies) are whole frames in an outbox, and never get inside a block.

Of what is read, only an unfinished control line and the number of payload bytes that are still to come are kept. A
subscriber of one subject and one size gets frames that all look alike. Once the first is parsed, a read is counted by
division; the headers of its first and of its last whole frame are compared, so anything else in between (a PING shifts
all that follows) is noticed and that read is walked frame by frame. Nothing is estimated.

Every length that a server sends is checked before it is used.
"""

from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

from headrace.bench.clients.websocket_client cimport MASKED_HEAD, write_masked_head
from headrace.engine.basics.decimals cimport parse_decimal

ROLES = ("publisher", "subscriber", "responder", "requester")


cdef bint prepare(ClientConnection *connection, int descriptor, Role role, int64_t outbox_capacity) noexcept nogil:
    """Whether there was memory for its outbox."""
    memset(connection, 0, sizeof(ClientConnection))
    connection.outbox = <char *>malloc(outbox_capacity)
    connection.descriptor, connection.role = descriptor, role
    connection.outbox_capacity = outbox_capacity
    return connection.outbox != NULL


cdef int set_request(ClientConnection *connection, bytes request, bytes request_end) except -1:
    """What is written before and after a number; the caller keeps both."""
    connection.request, connection.request_length = request, len(request)
    connection.request_end, connection.request_end_length = request_end, len(request_end)
    return 0


cdef void dispose(ClientConnection *connection) noexcept nogil:
    free(connection.outbox)
    free(connection.times)


# Writing.

cdef bint append(ClientConnection *connection, const char *text, int64_t length) noexcept nogil:
    """Add to the outbox. Whether there was room."""
    cdef char head[MASKED_HEAD]
    if connection.in_websocket:
        write_masked_head(head, length)
        return append_as_it_is(connection, head, MASKED_HEAD) and append_as_it_is(connection, text, length)
    return append_as_it_is(connection, text, length)


cdef bint append_as_it_is(ClientConnection *connection, const char *text, int64_t length) noexcept nogil:
    if length > connection.outbox_capacity - connection.outbox_length:
        return False
    if length > connection.outbox_capacity - connection.outbox_begin - connection.outbox_length:
        memmove(connection.outbox, connection.outbox + connection.outbox_begin, connection.outbox_length)
        connection.outbox_begin = 0
    memcpy(connection.outbox + connection.outbox_begin + connection.outbox_length, text, length)
    connection.outbox_length += length
    return True


cdef int64_t next_write(ClientConnection *connection, const char **start) noexcept nogil:
    """What to write next: the outbox if no block is half written, otherwise more of the block. Returns its length."""
    cdef int64_t length
    if connection.outbox_length and connection.position == 0:
        start[0] = connection.outbox + connection.outbox_begin
        return connection.outbox_length
    start[0] = connection.block + connection.position
    length = min(connection.block_length - connection.position, connection.to_send)
    # A write that was cut short is finished first, so that later ones start at a message again.
    return min(length, connection.write_length - connection.position % connection.write_length) if length else 0


cdef bint wrote(ClientConnection *connection, int64_t sent) noexcept nogil:
    """`sent` bytes of it were written. Whether that was the end of all blocks."""
    if connection.outbox_length and connection.position == 0:
        connection.outbox_length -= sent
        connection.outbox_begin = connection.outbox_begin + sent if connection.outbox_length else 0
        return False
    connection.position = (connection.position + sent) % connection.block_length
    connection.to_send -= sent
    if connection.to_send == 0:
        connection.position = 0
    return connection.to_send == 0


# Reading.

cdef Event read_event(ClientConnection *connection, const char **position, const char *end) noexcept nogil:
    """Read on to the next thing that somebody has to act on; NOTHING: to the end."""
    cdef const char *at = position[0]
    cdef const char *newline
    cdef int64_t step
    cdef Event event = NOTHING
    while at < end and event == NOTHING:
        if connection.skip:
            step = min(connection.skip, <int64_t>(end - at))
            if connection.keeps_body:
                keep_body(connection, at, step)
            connection.skip -= step
            at += step
            if connection.skip == 0:
                event = MESSAGE
            continue
        step = count_same_frames(connection, at, end)
        if step:
            at += step
            continue
        newline = <const char *>memchr(at, c'\n', end - at)
        step = (newline + 1 if newline != NULL else end) - at
        if step > CONTROL_LINE_MAX or (newline == NULL and step == CONTROL_LINE_MAX):
            event = unexpected(connection, GARBAGE, at, 60)
        elif newline == NULL:
            memcpy(connection.carry, at, step)
            connection.carry_length = step
        else:
            event = read_line(connection, at, step)
        at += step
    position[0] = at
    return event


cdef int64_t count_same_frames(ClientConnection *connection, const char *at, const char *end) noexcept nogil:
    """Count the messages that look like the one before; returns the bytes of them."""
    cdef int64_t whole
    if not connection.same_frames or not connection.head_length or end - at < connection.frame_length:
        return 0
    if not starts_frame(connection, at):
        return 0
    whole = (end - at) // connection.frame_length
    if not starts_frame(connection, at + (whole - 1) * connection.frame_length):
        whole = 1
    connection.messages += whole
    connection.payload_bytes += whole * (connection.payload_length - connection.header_length)
    return whole * connection.frame_length


cdef bint starts_frame(ClientConnection *connection, const char *at) noexcept nogil:
    return memcmp(at, connection.head, connection.head_length) == 0


cdef Event unexpected(ClientConnection *connection, Event event, const char *text, int64_t length) noexcept nogil:
    connection.unexpected, connection.unexpected_length = text, length
    return event


cdef Event read_line(ClientConnection *connection, const char *line, int64_t length) noexcept nogil:
    # PUB is what benchmarks/ceiling.py sends when the peer of this loop is this loop again.
    if length > 6 and (memcmp(line, b"MSG ", 4) == 0 or memcmp(line, b"PUB ", 4) == 0):
        return read_head(connection, line, length)
    if length > 7 and memcmp(line, b"HMSG ", 5) == 0:
        return read_head(connection, line, length)
    if length == 6 and memcmp(line, b"PING\r\n", 6) == 0:
        return PING
    if length == 6 and memcmp(line, b"PONG\r\n", 6) == 0:
        return PONG
    if length > 6 and memcmp(line, b"-ERR ", 5) == 0:
        return unexpected(connection, REFUSAL, line, length - 2)
    if length < 5 or (memcmp(line, b"INFO ", 5) != 0 and memcmp(line, b"+OK\r\n", 5) != 0):
        return unexpected(connection, GARBAGE, line, min(length, 60))
    return NOTHING


cdef Event read_head(ClientConnection *connection, const char *line, int64_t length) noexcept nogil:
    """The control line of a message: its length is the last word, that of its headers the one before."""
    cdef int64_t at = length - 2, end, size, header_length = 0
    size = number_before(line, &at)
    if size >= 0 and line[0] == c'H':
        end = at - 1
        header_length = number_before(line, &end)
    if not 0 <= header_length <= size <= PAYLOAD_MAX:
        return unexpected(connection, GARBAGE, line, min(length, 60))
    memcpy(connection.head, line, length)
    connection.head_length = length
    connection.payload_length, connection.header_length = size, header_length
    connection.frame_length = length + size + 2
    connection.skip = size + 2
    connection.body_length = 0
    return NOTHING


cdef void keep_body(ClientConnection *connection, const char *at, int64_t length) noexcept nogil:
    length = min(length, BODY_MAX - connection.body_length)
    memcpy(connection.body + connection.body_length, at, length)
    connection.body_length += length


cdef int64_t digits(const char *text, int64_t length) noexcept nogil:
    """The number that the text is, or -1."""
    return parse_decimal(text, length, TOKEN_DIGITS - 1)


cdef int64_t number_before(const char *line, int64_t *at) noexcept nogil:
    """The number that ends at `at`, which moves to its first digit; -1 if there is none after a space."""
    cdef int64_t end = at[0]
    while at[0] > 4 and c'0' <= line[at[0] - 1] <= c'9':
        at[0] -= 1
    return digits(line + at[0], end - at[0]) if line[at[0] - 1] == c' ' else -1


# The latest message.

cdef const char *find_reply(ClientConnection *connection, int64_t *length) noexcept nogil:
    """The fourth word of `MSG subject sid reply size`; NULL: there are not as many."""
    cdef const char *end = connection.head + connection.head_length
    cdef const char *reply = connection.head
    cdef const char *space
    cdef int word
    for word in range(3):
        reply = <const char *>memchr(reply, c' ', end - reply)
        if reply == NULL:
            return NULL
        reply += 1
    space = <const char *>memchr(reply, c' ', end - reply)
    if space == NULL:
        return NULL
    length[0] = space - reply
    return reply


cdef int64_t answered_number(ClientConnection *connection) noexcept nogil:
    """`MSG <inbox><number> sid size`: the number of the request, or -1."""
    cdef int64_t start = (5 if connection.head[0] == c'H' else 4) + connection.inbox_length
    cdef const char *token = connection.head + start
    cdef int64_t room = connection.head_length - start
    cdef const char *space = <const char *>memchr(token, c' ', room) if room > 0 else NULL
    return digits(token, space - token) if space != NULL else -1


# The end.

cdef bint has_all(ClientConnection *connection, bint settling) noexcept nogil:
    """Whether it has what it waits for; `settling`: everything has arrived, and the subscribers' PINGs are out."""
    if connection.role == PUBLISHER or (settling and connection.role == SUBSCRIBER):
        return connection.pongs > 0
    return not connection.shares and connection.messages >= connection.expected


cdef tuple outcome_of(ClientConnection *connection):
    """Role, messages read, payload bytes read, bytes left to write, start and end."""
    return (ROLES[connection.role], connection.messages, connection.payload_bytes, connection.to_send,
            connection.started_at, connection.ended_at)


cdef list latencies_of(ClientConnection *connection):
    """The nanoseconds that each answered request took, in the order of sending."""
    cdef int64_t number
    cdef int64_t *times = connection.times
    return [-times[number] for number in range(connection.requested) if times[number] < 0]
