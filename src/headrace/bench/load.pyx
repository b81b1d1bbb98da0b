"""The load generator's inner loop: many NATS client connections, one epoll loop, no Python per message.

The plan
--------
Python opens the connections (CONNECT, SUB, PING/PONG) and hands their descriptors over; `run` then drives
all of them with the GIL released. The generator usually has a single core, so it must never cost more than
the server:

* A publisher cycles through one prebuilt block of whole PUB frames: one write carries hundreds of messages.
* All connections read into one shared buffer. A connection keeps only an unfinished control line and the
  number of payload bytes that are still to come.
* A subscriber of one subject and one size gets frames that all look alike. Once the first is parsed, a read
  is counted by division; the headers of its first and of its last whole frame are compared, so anything
  else in between (a PING shifts all that follows) is noticed and that read is walked frame by frame.
  Nothing is estimated.
* A publisher at a fixed rate numbers its messages in the reply subject. When a message is due follows from
  its number alone, so the wait is counted from the intended moment, whatever delayed the writing: a stall
  of the server or of this loop is not hidden (the pitfall that is known as coordinated omission).

The rules
---------
* Readable connections go first: a server is not to be blamed for the backlog of a generator that only writes.
* A publisher is complete when its closing PING is answered; a subscriber when it has all that it expects.
  The members of a queue group are complete together, when their sum is.
  Then every subscriber sends a PING too, so that surplus messages are seen before the PONG and are counted.
* Every length that a server sends is checked before it is used; anything unexpected ends the run and says
  why.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove, memset
from posix.unistd cimport close

from headrace.engine.core.decimals cimport parse_decimal, write_decimal
from headrace.engine.core.system cimport monotonic_nanoseconds

import os

ROLES = ("publisher", "subscriber", "responder", "requester")
STATUSES = ("running", "running", "done", "stalled", "closed", "refused", "garbled")


cdef inline bint starts_frame(Connection *connection, const char *at) noexcept nogil:
    return memcmp(at, connection.head, connection.head_length) == 0


cdef inline int64_t digits(const char *text, int64_t length) noexcept nogil:
    """The number that the text is, or -1."""
    return parse_decimal(text, length, TOKEN_DIGITS - 1)


cdef inline int64_t number_before(const char *line, int64_t *at) noexcept nogil:
    """The number that ends at `at`, which moves to its first digit; -1 if there is none after a blank."""
    cdef int64_t end = at[0]
    while at[0] > 4 and c'0' <= line[at[0] - 1] <= c'9':
        at[0] -= 1
    return digits(line + at[0], end - at[0]) if line[at[0] - 1] == c' ' else -1


cdef class Load:
    """One run: add the connections, call `run` once, read the outcome.

    The descriptors stay the caller's: they are used, made neither blocking nor non-blocking, and never
    closed.
    """

    def __cinit__(self, double stall_seconds=10.0, Histogram waits=None, Histogram delays=None):
        self.stall_nanoseconds = <int64_t>(stall_seconds * 1e9)
        self.waits, self.delays = waits, delays
        self.culprit = -1
        self.kept = []
        self.buffer = <char *>malloc(CONTROL_LINE_MAX + READ_LENGTH)
        if self.buffer == NULL:
            raise MemoryError
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll < 0:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        cdef int index
        for index in range(self.count):
            free(self.connections[index].outbox)
            free(self.connections[index].times)
        free(self.connections)
        free(self.buffer)
        if self.epoll >= 0:
            close(self.epoll)

    # Building the run. Each returns the client's index in `clients`.

    def add_publisher(self, int descriptor, bytes block, int64_t to_send, int64_t write_length):
        """Write `to_send` bytes by repeating `block`, at most `write_length` bytes per system call."""
        if not block or to_send < 0 or write_length < 1:
            raise ValueError("a publisher needs a block, a length to send and a length per write")
        cdef Connection *connection = self.add(descriptor, PUBLISHER, 64)
        self.kept.append(block)
        connection.block = block
        connection.block_length = len(block)
        connection.write_length = write_length
        connection.to_send = to_send
        if to_send == 0:
            self.put(connection, b"PING\r\n", 6)
        return self.count - 1

    def add_subscriber(self, int descriptor, int64_t expected, bint same_frames):
        """Expect so many messages; `same_frames` says that they have one subject and one size."""
        if expected < 0:
            raise ValueError("a subscriber cannot expect fewer than no messages")
        cdef Connection *connection = self.add(descriptor, SUBSCRIBER, 64)
        connection.expected = expected
        connection.same_frames = same_frames
        return self.count - 1

    def add_queue_member(self, int descriptor, bint same_frames):
        """A subscriber whose share is the server's choice; `expect_shared` says what all of them get."""
        cdef Connection *connection = self.add(descriptor, SUBSCRIBER, 64)
        connection.shares = True
        connection.same_frames = same_frames
        return self.count - 1

    def expect_shared(self, int64_t messages):
        """What all queue members together are to receive."""
        self.shared_expected = messages

    def add_paced_publisher(self, int descriptor, bytes subject, bytes payload, int64_t first, int64_t stride,
                            int64_t numbers, double interval_ns):
        """Send the messages `first`, `first + stride`, ... below `numbers`, each when it is due."""
        if first < 0 or stride < 1 or numbers < 0 or interval_ns <= 0 or self.delays is None:
            raise ValueError("a paced publisher needs numbers, an interval and a histogram of delays")
        request, request_end = b"PUB %b " % subject, b" %d\r\n%b\r\n" % (len(payload), payload)
        cdef int64_t longest = len(request) + TOKEN_DIGITS + len(request_end)
        cdef Connection *connection = self.add(
            descriptor, PUBLISHER, max(longest, <int64_t>PACED_OUTBOX_LENGTH) + 64)
        self.kept += [request, request_end]
        connection.request, connection.request_length = request, len(request)
        connection.request_end, connection.request_end_length = request_end, len(request_end)
        connection.interval, connection.stride = interval_ns, stride
        connection.requested, connection.numbers = first, numbers
        self.paced = True
        if first >= numbers:
            self.put(connection, b"PING\r\n", 6)
        return self.count - 1

    def add_timed_subscriber(self, int descriptor, int64_t expected, double interval_ns):
        """Expect numbered messages, and count how long each took since it was due."""
        if interval_ns <= 0 or self.waits is None:
            raise ValueError("a timed subscriber needs an interval and a histogram of waits")
        index = self.add_subscriber(descriptor, expected, False)
        self.connections[self.count - 1].interval = interval_ns
        return index

    def add_responder(self, int descriptor, bytes payload, int64_t in_flight):
        """Answer every message with `payload`; at most `in_flight` answers wait to be written."""
        if in_flight < 1:
            raise ValueError("a responder needs room for at least one answer")
        cdef Connection *connection = self.add(
            descriptor, RESPONDER, in_flight * (CONTROL_LINE_MAX + len(payload)) + 64)
        request_end = b" %d\r\n%b\r\n" % (len(payload), payload)
        self.kept.append(request_end)
        connection.request_end = request_end
        connection.request_end_length = len(request_end)
        return self.count - 1

    def add_requester(self, int descriptor, bytes subject, bytes inbox, bytes payload, int64_t requests,
                      int64_t in_flight):
        """Send so many requests, `in_flight` at a time, each with the reply subject `inbox` + its number."""
        if requests < 0 or in_flight < 1 or len(subject) + len(inbox) > CONTROL_LINE_MAX // 2:
            raise ValueError("a requester needs short subjects and at least one request in flight")
        request, request_end = b"PUB %b %b" % (subject, inbox), b" %d\r\n%b\r\n" % (len(payload), payload)
        cdef int64_t longest = len(request) + TOKEN_DIGITS + len(request_end)
        cdef Connection *connection = self.add_requests(
            descriptor, request, request_end, len(inbox), requests, in_flight, longest)
        self.put_first_requests(connection, in_flight)
        return self.count - 1

    cdef Connection *add_requests(self, int descriptor, bytes request, bytes request_end, int64_t inbox_length,
                                  int64_t requests, int64_t in_flight, int64_t longest) except NULL:
        """One that sends numbered requests; `longest` is the most that one of them can take."""
        cdef Connection *connection = self.add(descriptor, REQUESTER, in_flight * longest + 64)
        self.kept += [request, request_end]
        connection.request, connection.request_length = request, len(request)
        connection.request_end, connection.request_end_length = request_end, len(request_end)
        connection.inbox_length = inbox_length
        connection.expected = requests
        connection.times = <int64_t *>calloc(requests + 1, sizeof(int64_t))
        if connection.times == NULL:
            raise MemoryError
        return connection

    cdef void put_first_requests(self, Connection *connection, int64_t in_flight) noexcept nogil:
        while connection.requested < min(connection.expected, in_flight):
            self.put_request(connection, 0)

    cdef Connection *add(self, int descriptor, Role role, int64_t outbox_capacity) except NULL:
        cdef size_t size = (self.count + 1) * sizeof(Connection)
        cdef Connection *grown = <Connection *>realloc(self.connections, size)
        if grown == NULL:
            raise MemoryError
        self.connections = grown
        cdef Connection *connection = &grown[self.count]
        memset(connection, 0, sizeof(Connection))
        connection.outbox = <char *>malloc(outbox_capacity)
        if connection.outbox == NULL:
            raise MemoryError
        connection.descriptor, connection.role = descriptor, role
        connection.outbox_capacity = outbox_capacity
        self.count += 1
        return connection

    # Running it.

    def run(self, on_tick=None):
        """Drive every connection to its end and return how it ended: `done` or a word for what went wrong.

        `stalled`: nothing moved for `stall_seconds`; `closed`: a connection broke; `refused`: -ERR;
        `garbled`: bytes that no server should send. `failure` has the details. `on_tick` is called a few
        times per second.
        """
        cdef epoll_event event
        cdef epoll_event *events
        cdef int index
        if self.started_at:
            raise ValueError("a load runs once")
        events = <epoll_event *>malloc((self.count + 1) * sizeof(epoll_event))
        if events == NULL:
            raise MemoryError
        try:
            self.started_at = self.progress_at = monotonic_nanoseconds()
            for index in range(self.count):
                event.events, event.data.u32 = EPOLLIN, index
                if epoll_ctl(self.epoll, EPOLL_CTL_ADD, self.connections[index].descriptor, &event) < 0:
                    raise OSError(errno, os.strerror(errno))
            if self.paced:
                prctl(PR_SET_TIMERSLACK, 1)  # the default lets every sleep of this thread last 50 us longer
            with nogil:
                self.start()
            while self.status == RUNNING:
                with nogil:
                    self.loop(events)
                PyErr_CheckSignals()
                if on_tick is not None:
                    on_tick()
                if self.status == TICK:
                    self.status = RUNNING
        finally:
            free(events)
        return STATUSES[self.status]

    cdef void start(self) noexcept nogil:
        cdef Connection *connection
        cdef int64_t number
        cdef int index
        for index in range(self.count):
            connection = &self.connections[index]
            if connection.role == REQUESTER:
                for number in range(connection.requested):
                    connection.times[number] = self.started_at
            if connection.role != RESPONDER:
                self.unfinished = self.unfinished + 1
        for index in range(self.count):
            self.transmit(index)
            self.check_complete(index, self.started_at)
        self.check_shared()

    cdef void loop(self, epoll_event *events) noexcept nogil:
        cdef int64_t now = monotonic_nanoseconds()
        cdef int64_t tick_at = now + TICK_MILLISECONDS * <int64_t>1_000_000
        cdef int64_t pause = TICK_MILLISECONDS * <int64_t>1_000_000
        cdef int ready, index
        while self.status == RUNNING:
            if self.paced:
                pause = self.send_due(monotonic_nanoseconds())
            ready = self.wait(events, pause)
            now = monotonic_nanoseconds()
            for index in range(ready):
                if self.status == RUNNING and events[index].events & ~<uint32_t>EPOLLOUT:
                    self.receive(events[index].data.u32)
            for index in range(ready):
                if self.status == RUNNING and events[index].events & EPOLLOUT:
                    self.transmit(events[index].data.u32)
            if self.status == RUNNING and now - self.progress_at > self.stall_nanoseconds:
                self.stop(STALLED, -1, b"", 0)
            elif self.status == RUNNING and now >= tick_at:
                self.status = TICK

    cdef int wait(self, epoll_event *events, int64_t nanoseconds) noexcept nogil:
        cdef pollfd waiting
        cdef timespec timeout
        if not self.paced:
            return epoll_wait(self.epoll, events, self.count, TICK_MILLISECONDS)
        # epoll_wait sleeps for whole milliseconds, in which thousands of messages may fall due.
        waiting.fd, waiting.events = self.epoll, POLLIN
        timeout.tv_sec, timeout.tv_nsec = nanoseconds // 1_000_000_000, nanoseconds % 1_000_000_000
        ppoll(&waiting, 1, &timeout, NULL)
        return epoll_wait(self.epoll, events, self.count, 0)

    cdef int64_t send_due(self, int64_t now) noexcept nogil:
        """Write what is due on the paced publishers; return the nanoseconds until more is."""
        cdef Connection *connection
        cdef int64_t due, longest, pause = TICK_MILLISECONDS * <int64_t>1_000_000
        cdef int index
        for index in range(self.count):
            connection = &self.connections[index]
            if connection.role != PUBLISHER or connection.interval == 0:
                continue
            longest = connection.request_length + TOKEN_DIGITS + connection.request_end_length + 6
            while connection.requested < connection.numbers \
                    and connection.outbox_capacity - connection.outbox_length >= longest:
                due = <int64_t>(connection.requested * connection.interval)
                if self.started_at + due > now:
                    pause = min(pause, self.started_at + due - now)
                    break
                self.delays.record(due, now - self.started_at - due)
                self.put_numbered(connection)
                connection.requested += connection.stride
                if connection.requested >= connection.numbers:
                    self.put(connection, b"PING\r\n", 6)
            if connection.outbox_length and not connection.watches_output:
                self.transmit(index)
        return pause

    cdef void stop(self, Status status, int index, const char *text, int64_t length) noexcept nogil:
        if self.status != RUNNING:
            return
        self.status, self.culprit = status, index
        snprintf(self.detail, sizeof(self.detail), b"%.*s", <int>min(length, 200), text)

    # Reading.

    cdef void receive(self, int index) noexcept nogil:
        cdef Connection *connection = &self.connections[index]
        cdef char *fresh = self.buffer + CONTROL_LINE_MAX
        cdef char *at = fresh - connection.carry_length
        cdef int64_t before
        cdef ssize_t got = recv(connection.descriptor, fresh, READ_LENGTH, MSG_DONTWAIT)
        if got < 0 and (errno == EAGAIN or errno == EINTR):
            return
        if got <= 0:
            self.stop(CLOSED, index, b"", 0)
            return
        self.progress_at = monotonic_nanoseconds()
        if connection.started_at == 0:
            connection.started_at = self.progress_at
        memcpy(at, connection.carry, connection.carry_length)
        connection.carry_length = 0
        before = connection.messages
        self.parse(index, at, fresh + got)
        if connection.outbox_length:
            self.transmit(index)
        if connection.messages > before and not self.settling \
                and (connection.shares or connection.role == RESPONDER):
            connection.ended_at = self.progress_at
        if connection.shares and not self.settling:
            self.shared_messages = self.shared_messages + connection.messages - before
            self.check_shared()
        self.check_complete(index, self.progress_at)

    cdef void parse(self, int index, const char *at, const char *end) noexcept nogil:
        cdef Connection *connection = &self.connections[index]
        cdef const char *newline
        cdef int64_t whole, step
        while at < end and self.status == RUNNING:
            if connection.skip:
                step = min(connection.skip, <int64_t>(end - at))
                if connection.keeps_body:
                    self.keep_body(connection, at, step)
                connection.skip -= step
                at += step
                if connection.skip == 0:
                    self.on_message(index)
                continue
            if connection.same_frames and connection.head_length and end - at >= connection.frame_length:
                whole = (end - at) // connection.frame_length
                if not starts_frame(connection, at + (whole - 1) * connection.frame_length):
                    whole = 1
                if starts_frame(connection, at):
                    connection.messages += whole
                    connection.payload_bytes += whole * connection.payload_length
                    at += whole * connection.frame_length
                    continue
            newline = <const char *>memchr(at, c'\n', end - at)
            step = (newline + 1 if newline != NULL else end) - at
            if step > CONTROL_LINE_MAX or (newline == NULL and step == CONTROL_LINE_MAX):
                self.stop(GARBLED, index, at, 60)
            elif newline == NULL:
                memcpy(connection.carry, at, step)
                connection.carry_length = step
            else:
                self.on_line(index, at, step)
            at += step

    cdef void on_line(self, int index, const char *line, int64_t length) noexcept nogil:
        cdef Connection *connection = &self.connections[index]
        # PUB is what benchmarks/ceiling.py sends when the peer of this loop is this loop again.
        if length > 6 and (memcmp(line, b"MSG ", 4) == 0 or memcmp(line, b"PUB ", 4) == 0):
            self.on_head(index, line, length)
        elif length > 7 and connection.keeps_body and memcmp(line, b"HMSG ", 5) == 0:
            self.on_head(index, line, length)
        elif length == 6 and memcmp(line, b"PING\r\n", 6) == 0:
            self.put(connection, b"PONG\r\n", 6)
        elif length == 6 and memcmp(line, b"PONG\r\n", 6) == 0:
            connection.pongs += 1
        elif length > 6 and memcmp(line, b"-ERR ", 5) == 0:
            self.stop(REFUSED, index, line, length - 2)
        elif length < 5 or (memcmp(line, b"INFO ", 5) != 0 and memcmp(line, b"+OK\r\n", 5) != 0):
            self.stop(GARBLED, index, line, min(length, 60))

    cdef void on_head(self, int index, const char *line, int64_t length) noexcept nogil:
        """The control line of a message: its length is the last word, that of its headers the one before."""
        cdef Connection *connection = &self.connections[index]
        cdef int64_t at = length - 2, end, size, header_length = 0
        size = number_before(line, &at)
        if size >= 0 and line[0] == c'H':
            end = at - 1
            header_length = number_before(line, &end)
        if not 0 <= header_length <= size <= PAYLOAD_MAX:
            self.stop(GARBLED, index, line, min(length, 60))
            return
        memcpy(connection.head, line, length)
        connection.head_length = length
        connection.payload_length, connection.header_length = size, header_length
        connection.frame_length = length + size + 2
        connection.skip = size + 2
        connection.body_length = 0

    cdef void keep_body(self, Connection *connection, const char *at, int64_t length) noexcept nogil:
        length = min(length, BODY_MAX - connection.body_length)
        memcpy(connection.body + connection.body_length, at, length)
        connection.body_length += length

    cdef void on_message(self, int index) noexcept nogil:
        cdef Connection *connection = &self.connections[index]
        connection.messages += 1
        connection.payload_bytes += connection.payload_length - connection.header_length
        if connection.role == RESPONDER:
            self.answer(index)
        elif connection.role == REQUESTER:
            self.take_answer(index)
        elif connection.interval:
            self.take_numbered(index)

    cdef const char *reply_of(self, int index, int64_t *length) noexcept nogil:
        """The fourth word of `MSG subject sid reply size`, or NULL after a stop."""
        cdef Connection *connection = &self.connections[index]
        cdef const char *end = connection.head + connection.head_length
        cdef const char *reply = connection.head
        cdef const char *space
        cdef int word
        for word in range(3):
            reply = <const char *>memchr(reply, c' ', end - reply)
            if reply == NULL:
                self.stop(GARBLED, index, connection.head, connection.head_length)
                return NULL
            reply += 1
        space = <const char *>memchr(reply, c' ', end - reply)
        if space == NULL:
            self.stop(GARBLED, index, b"a request without a reply subject", 33)
            return NULL
        length[0] = space - reply
        return reply

    cdef void answer(self, int index) noexcept nogil:
        cdef Connection *connection = &self.connections[index]
        cdef int64_t length = 0
        cdef const char *reply = self.reply_of(index, &length)
        if reply == NULL:
            return
        self.put(connection, b"PUB ", 4)
        self.put(connection, reply, length)
        self.put(connection, connection.request_end, connection.request_end_length)

    cdef void take_numbered(self, int index) noexcept nogil:
        """The reply subject is the number, and the number says when the message was due."""
        cdef Connection *connection = &self.connections[index]
        cdef int64_t length = 0, number = 0, due
        cdef const char *reply = self.reply_of(index, &length)
        if reply == NULL:
            return
        number = digits(reply, length)
        if not 0 <= number < connection.expected:
            self.stop(GARBLED, index, connection.head, connection.head_length - 2)
            return
        due = <int64_t>(number * connection.interval)
        self.waits.record(due, self.progress_at - self.started_at - due)

    cdef int64_t answered_number(self, Connection *connection) noexcept nogil:
        """`MSG <inbox><number> sid size`: the number of the request, or -1."""
        cdef int64_t start = (5 if connection.head[0] == c'H' else 4) + connection.inbox_length
        cdef const char *token = connection.head + start
        cdef int64_t room = connection.head_length - start
        cdef const char *space = <const char *>memchr(token, c' ', room) if room > 0 else NULL
        return digits(token, space - token) if space != NULL else -1

    cdef void take_answer(self, int index) noexcept nogil:
        """Note how long it took and send the next request."""
        cdef Connection *connection = &self.connections[index]
        cdef int64_t number = self.answered_number(connection)
        cdef int64_t sent_at
        if number < 0 or number >= connection.requested or connection.times[number] < 0:
            self.stop(GARBLED, index, connection.head, connection.head_length - 2)
            return
        sent_at = connection.times[number]
        connection.times[number] = min(sent_at - self.progress_at, -1)
        if self.waits is not None:
            self.waits.record(sent_at - self.started_at, self.progress_at - sent_at)
        if connection.requested < connection.expected:
            self.put_request(connection, self.progress_at)

    # Writing.

    cdef void put_request(self, Connection *connection, int64_t now) noexcept nogil:
        connection.times[connection.requested] = now
        self.put_numbered(connection)
        connection.requested += 1

    cdef void put_token(self, Connection *connection) noexcept nogil:
        cdef char token[24]
        self.put(connection, connection.request, connection.request_length)
        self.put(connection, token, write_decimal(token, connection.requested))

    cdef void put_numbered(self, Connection *connection) noexcept nogil:
        self.put_token(connection)
        self.put(connection, connection.request_end, connection.request_end_length)

    cdef void put(self, Connection *connection, const char *text, int64_t length) noexcept nogil:
        if length > connection.outbox_capacity - connection.outbox_length:
            self.stop(GARBLED, <int>(connection - self.connections), b"more to answer than was asked", 29)
            return
        if length > connection.outbox_capacity - connection.outbox_begin - connection.outbox_length:
            memmove(connection.outbox, connection.outbox + connection.outbox_begin, connection.outbox_length)
            connection.outbox_begin = 0
        memcpy(connection.outbox + connection.outbox_begin + connection.outbox_length, text, length)
        connection.outbox_length += length

    cdef void transmit(self, int index) noexcept nogil:
        """Write the outbox if no block is half written, else more of the block; then watch for the rest."""
        cdef Connection *connection = &self.connections[index]
        cdef int64_t length, sent, turn_bytes = 0
        cdef int turn
        for turn in range(WRITES_PER_TURN):
            length = sent = 0
            if connection.outbox_length and connection.position == 0:
                length = connection.outbox_length
                sent = self.write(index, connection.outbox + connection.outbox_begin, length)
                connection.outbox_length -= sent
                connection.outbox_begin = connection.outbox_begin + sent if connection.outbox_length else 0
            elif connection.to_send:
                length = min(connection.block_length - connection.position, connection.to_send)
                # A write that was cut short is finished first, so that later ones start at a message again.
                length = min(length, connection.write_length - connection.position % connection.write_length)
                sent = self.write(index, connection.block + connection.position, length)
                connection.position = (connection.position + sent) % connection.block_length
                connection.to_send -= sent
                if connection.to_send == 0:
                    connection.position = 0
                    self.put(connection, b"PING\r\n", 6)
            turn_bytes += sent
            # A socket that took only a part is full: asking it again would cost a system call for nothing.
            if sent == 0 or sent < length or turn_bytes >= BYTES_PER_TURN:
                break
        self.watch(index, connection.outbox_length > 0 or connection.to_send > 0)

    cdef int64_t write(self, int index, const char *bytes_out, int64_t length) noexcept nogil:
        cdef Connection *connection = &self.connections[index]
        cdef ssize_t sent = send(connection.descriptor, bytes_out, length, MSG_DONTWAIT | MSG_NOSIGNAL)
        if sent < 0:
            if errno != EAGAIN and errno != EINTR:
                self.stop(CLOSED, index, b"", 0)
            return 0
        self.progress_at = monotonic_nanoseconds()
        if connection.started_at == 0:
            connection.started_at = self.progress_at
        return sent

    cdef void watch(self, int index, bint output) noexcept nogil:
        cdef Connection *connection = &self.connections[index]
        cdef epoll_event event
        if output == connection.watches_output:
            return
        connection.watches_output = output
        event.events, event.data.u32 = EPOLLIN | (EPOLLOUT if output else 0), index
        epoll_ctl(self.epoll, EPOLL_CTL_MOD, connection.descriptor, &event)

    # Ending.

    cdef void check_complete(self, int index, int64_t now) noexcept nogil:
        cdef Connection *connection = &self.connections[index]
        if connection.complete or connection.role == RESPONDER or self.status != RUNNING:
            return
        if connection.shares and not self.settling:
            return
        if connection.role == PUBLISHER:
            connection.complete = connection.pongs > 0
        elif self.settling and connection.role == SUBSCRIBER:
            connection.complete = connection.pongs > 0
        else:
            connection.complete = connection.messages >= connection.expected
        if not connection.complete:
            return
        if not self.settling:
            connection.ended_at = now
        self.unfinished = self.unfinished - 1
        if self.unfinished == 0:
            self.finish_phase()

    cdef void check_shared(self) noexcept nogil:
        """When everything that the queue groups expect has come, all their members are complete."""
        cdef int index, members = 0
        if self.shared_complete or self.shared_messages < self.shared_expected or self.status != RUNNING:
            return
        self.shared_complete = True
        for index in range(self.count):
            if self.connections[index].shares:
                self.connections[index].complete = True
                members += 1
        self.unfinished = self.unfinished - members
        if members and self.unfinished == 0:
            self.finish_phase()

    cdef void finish_phase(self) noexcept nogil:
        cdef Connection *connection
        cdef int index
        if self.settling:
            self.stop(DONE, -1, b"", 0)
            return
        self.settling = True
        for index in range(self.count):
            connection = &self.connections[index]
            if connection.role == SUBSCRIBER:
                connection.complete = False
                self.unfinished = self.unfinished + 1
                self.put(connection, b"PING\r\n", 6)
                self.transmit(index)
        if self.unfinished == 0:
            self.stop(DONE, -1, b"", 0)

    # The outcome.

    @property
    def failure(self):
        """The client that the run broke on (or -1) and the text that goes with it."""
        return self.culprit, self.detail.decode("utf-8", "replace")

    @property
    def expected(self):
        """How many messages all clients together are to receive."""
        cdef int index
        return self.shared_expected + sum(self.connections[index].expected for index in range(self.count))

    @property
    def clients(self):
        """By connection: role, messages read, payload bytes read, bytes left to write, start and end."""
        cdef Connection *connection
        cdef int index
        rows = []
        for index in range(self.count):
            connection = &self.connections[index]
            rows.append((ROLES[connection.role], connection.messages, connection.payload_bytes,
                         connection.to_send, connection.started_at, connection.ended_at))
        return rows

    def latencies(self, int index):
        """The nanoseconds that each answered request of a requester took, in the order of sending."""
        cdef int64_t number
        if not 0 <= index < self.count or self.connections[index].role != REQUESTER:
            raise ValueError(f"client {index} is not a requester")
        cdef Connection *connection = &self.connections[index]
        cdef int64_t *times = connection.times
        return [-times[number] for number in range(connection.requested) if times[number] < 0]
