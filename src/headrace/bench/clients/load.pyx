"""The load generator's inner loop: many NATS client connections, one epoll loop, no Python per message.

Python opens the connections (CONNECT, SUB, PING/PONG) and hands their descriptors over; `run` then drives all of them
with the GIL released. The generator usually has a single core, so it must never cost more than the server:

* What a client writes and reads is the business of `client_connection.pyx`: prebuilt blocks of hundreds of messages go
  out, and frames that all look alike are counted by division.
* All connections read into one shared buffer. `channels` has those of TLS, by descriptor (`socket_io.pyx`).
* A publisher at a fixed rate numbers its messages in the reply subject. When a message is due follows from its number
  alone, so the wait is counted from the intended moment: a stall is not hidden (as by "coordinated omission").

The rules:

* Readable connections go first: a server is not to be blamed for the backlog of a generator that only writes.
* A publisher is complete when its closing PING is answered; a subscriber when it has all that it expects.
  The members of a queue group are complete together, when their sum is.
  Then every subscriber sends a PING too, so that surplus messages are seen before the PONG and are counted.
* Anything unexpected ends the run and says why.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy

from headrace.bench.clients.client_connection cimport (
    CONTROL_LINE_MAX, GARBAGE, MESSAGE, PING, PONG, PUBLISHER, REFUSAL, REQUESTER, RESPONDER, SUBSCRIBER, TOKEN_DIGITS,
    ClientConnection, Event, Role, answered_number, append, digits, dispose, find_reply, has_all, latencies_of,
    next_write, outcome_of, prepare, read_event, set_request, wrote,
)
from headrace.bench.clients.poller cimport EPOLLOUT, Poller, epoll_event
from headrace.bench.clients.socket_io cimport ENDED, find_channel, read_some, write_some
from headrace.bench.clients.websocket_client cimport unframe
from headrace.engine.basics.decimals cimport write_decimal
from headrace.engine.basics.system cimport monotonic_nanoseconds

STATUSES = ("running", "running", "done", "stalled", "closed", "refused", "garbled")


cdef class Load:
    """One run: add the connections, call `run` once, read the outcome. The descriptors stay the caller's."""

    def __cinit__(self, double stall_seconds=10.0, Histogram waits=None, Histogram delays=None, dict channels=None,
                  bint in_websocket=False):
        self.stall_nanoseconds = <int64_t>(stall_seconds * 1e9)
        self.waits, self.delays = waits, delays
        self.culprit, self.in_websocket, self.kept, self.channels = -1, in_websocket, [], channels or {}
        self.buffer = <char *>malloc(CONTROL_LINE_MAX + READ_LENGTH)
        if self.buffer == NULL:
            raise MemoryError
        self.poller = Poller()

    def __dealloc__(self):
        cdef int index
        for index in range(self.count):
            dispose(&self.connections[index])
        free(self.connections)
        free(self.buffer)

    # Building the run. Each returns the client's index in `clients`.

    def add_publisher(self, int descriptor, bytes block, int64_t to_send, int64_t write_length):
        """Write `to_send` bytes by repeating `block`, at most `write_length` bytes per system call."""
        if not block or to_send < 0 or write_length < 1:
            raise ValueError("a publisher needs a block, a length to send and a length per write")
        cdef ClientConnection *connection = self.add(descriptor, PUBLISHER, 64)
        self.kept.append(block)
        connection.block, connection.block_length = block, len(block)
        connection.to_send, connection.write_length = to_send, write_length
        if to_send == 0:
            self.put(connection, b"PING\r\n", 6)
        return self.count - 1

    def add_subscriber(self, int descriptor, int64_t expected, bint same_frames):
        """Expect this many messages; `same_frames` says that they have one subject and one size."""
        if expected < 0:
            raise ValueError("a subscriber cannot expect fewer than no messages")
        cdef ClientConnection *connection = self.add(descriptor, SUBSCRIBER, 64)
        connection.expected, connection.same_frames = expected, same_frames
        return self.count - 1

    def add_queue_member(self, int descriptor, bint same_frames):
        """A subscriber whose share is the server's choice; `expect_shared` says what all of them get."""
        cdef ClientConnection *connection = self.add(descriptor, SUBSCRIBER, 64)
        connection.shares, connection.same_frames = True, same_frames
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
        cdef ClientConnection *connection = self.add(
            descriptor, PUBLISHER, max(longest, <int64_t>PACED_OUTBOX_LENGTH) + 64)
        self.kept += [request, request_end]
        set_request(connection, request, request_end)
        connection.interval, connection.stride = interval_ns, stride
        connection.requested, connection.numbers, self.paced = first, numbers, True
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
        cdef ClientConnection *connection = self.add(
            descriptor, RESPONDER, in_flight * (CONTROL_LINE_MAX + len(payload)) + 64)
        request_end = b" %d\r\n%b\r\n" % (len(payload), payload)
        self.kept.append(request_end)
        set_request(connection, b"", request_end)
        return self.count - 1

    def add_requester(self, int descriptor, bytes subject, bytes inbox, bytes payload, int64_t requests,
                      int64_t in_flight):
        """Send this many requests, `in_flight` at a time, each with the reply subject `inbox` + its number."""
        if requests < 0 or in_flight < 1 or len(subject) + len(inbox) > CONTROL_LINE_MAX // 2:
            raise ValueError("a requester needs short subjects and at least one request in flight")
        request, request_end = b"PUB %b %b" % (subject, inbox), b" %d\r\n%b\r\n" % (len(payload), payload)
        cdef int64_t longest = len(request) + TOKEN_DIGITS + len(request_end)
        cdef ClientConnection *connection = self.add_requests(
            descriptor, request, request_end, len(inbox), requests, in_flight, longest)
        self.put_first_requests(connection, in_flight)
        return self.count - 1

    cdef ClientConnection *add_requests(self, int descriptor, bytes request, bytes request_end, int64_t inbox_length,
                                  int64_t requests, int64_t in_flight, int64_t longest) except NULL:
        """One that sends numbered requests; each is `longest` at most."""
        cdef ClientConnection *connection = self.add(descriptor, REQUESTER, in_flight * longest + 64)
        self.kept += [request, request_end]
        set_request(connection, request, request_end)
        connection.inbox_length, connection.expected = inbox_length, requests
        connection.times = <int64_t *>calloc(requests + 1, sizeof(int64_t))
        if connection.times == NULL:
            raise MemoryError
        return connection

    cdef void put_first_requests(self, ClientConnection *connection, int64_t in_flight) noexcept nogil:
        while connection.requested < min(connection.expected, in_flight):
            self.put_request(connection, 0)

    cdef ClientConnection *add(self, int descriptor, Role role, int64_t outbox_capacity) except NULL:
        cdef size_t size = (self.count + 1) * sizeof(ClientConnection)
        cdef ClientConnection *grown = <ClientConnection *>realloc(self.connections, size)
        if grown == NULL:
            raise MemoryError
        self.connections = grown
        cdef ClientConnection *connection = &grown[self.count]
        if not prepare(connection, descriptor, role, outbox_capacity):
            raise MemoryError
        connection.channel = find_channel(self.channels, descriptor)
        connection.in_websocket, self.count = self.in_websocket, self.count + 1
        return connection

    # Running it.

    def run(self, on_tick=None):
        """Drive every connection to its end and return how it ended: `done` or a word for what went wrong.

        `stalled`: nothing moved for `stall_seconds`; `closed`: a connection broke; `refused`: -ERR; `garbled`: bytes
        that no server should send. `failure` has the details. `on_tick` is called a few times per second.
        """
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
                self.poller.add(self.connections[index].descriptor, index)
            if self.paced:
                self.poller.wait_exactly()
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
        cdef ClientConnection *connection
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
            ready = self.poller.wait(events, self.count, pause)
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

    cdef int64_t send_due(self, int64_t now) noexcept nogil:
        """Write what is due on the paced publishers; return the nanoseconds until more is."""
        cdef ClientConnection *connection
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
        cdef ClientConnection *connection = &self.connections[index]
        cdef char *fresh = self.buffer + CONTROL_LINE_MAX
        cdef const char *at = fresh - connection.carry_length
        cdef int64_t before, got = read_some(connection, fresh, READ_LENGTH)
        if got > 0 and connection.in_websocket:
            got = unframe(connection, fresh, got) or ENDED
        if got <= 0:
            if got == ENDED:
                self.stop(CLOSED, index, b"", 0)
            return
        self.progress_at = monotonic_nanoseconds()
        if connection.started_at == 0:
            connection.started_at = self.progress_at
        memcpy(fresh - connection.carry_length, connection.carry, connection.carry_length)
        connection.carry_length = 0
        before = connection.messages
        while at < fresh + got and self.status == RUNNING:
            self.on_event(index, read_event(connection, &at, fresh + got))
        if connection.outbox_length:
            self.transmit(index)
        if connection.messages > before and not self.settling \
                and (connection.shares or connection.role == RESPONDER):
            connection.ended_at = self.progress_at
        if connection.shares and not self.settling:
            self.shared_messages = self.shared_messages + connection.messages - before
            self.check_shared()
        self.check_complete(index, self.progress_at)
        if got == READ_LENGTH and connection.channel != NULL and self.status == RUNNING:
            self.receive(index)              # no poll reports what TLS has decrypted

    cdef void on_event(self, int index, Event event) noexcept nogil:
        cdef ClientConnection *connection = &self.connections[index]
        if event == MESSAGE:
            self.on_message(index)
        elif event == PING:
            self.put(connection, b"PONG\r\n", 6)
        elif event == PONG:
            connection.pongs += 1
        elif event == REFUSAL:
            self.stop(REFUSED, index, connection.unexpected, connection.unexpected_length)
        elif event == GARBAGE:
            self.stop(GARBLED, index, connection.unexpected, connection.unexpected_length)

    cdef void on_message(self, int index) noexcept nogil:
        cdef ClientConnection *connection = &self.connections[index]
        connection.messages += 1
        connection.payload_bytes += connection.payload_length - connection.header_length
        if connection.role == RESPONDER:
            self.answer(index)
        elif connection.role == REQUESTER:
            self.take_answer(index)
        elif connection.interval:
            self.take_numbered(index)

    cdef const char *reply_of(self, int index, int64_t *length) noexcept nogil:
        """The reply subject of the latest message, or NULL after a stop."""
        cdef const char *reply = find_reply(&self.connections[index], length)
        if reply == NULL:
            self.stop(GARBLED, index, b"a request without a reply subject", 33)
        return reply

    cdef void answer(self, int index) noexcept nogil:
        cdef ClientConnection *connection = &self.connections[index]
        cdef int64_t length = 0
        cdef const char *reply = self.reply_of(index, &length)
        if reply == NULL:
            return
        self.put(connection, b"PUB ", 4)
        self.put(connection, reply, length)
        self.put(connection, connection.request_end, connection.request_end_length)

    cdef void take_numbered(self, int index) noexcept nogil:
        """The reply subject is the number, and the number says when the message was due."""
        cdef ClientConnection *connection = &self.connections[index]
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

    cdef void take_answer(self, int index) noexcept nogil:
        """Note how long it took and send the next request."""
        cdef ClientConnection *connection = &self.connections[index]
        cdef int64_t number = answered_number(connection)
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

    cdef void put_request(self, ClientConnection *connection, int64_t now) noexcept nogil:
        connection.times[connection.requested] = now
        self.put_numbered(connection)
        connection.requested += 1

    cdef void put_token(self, ClientConnection *connection) noexcept nogil:
        cdef char token[24]
        self.put(connection, connection.request, connection.request_length)
        self.put(connection, token, write_decimal(token, connection.requested))

    cdef void put_numbered(self, ClientConnection *connection) noexcept nogil:
        self.put_token(connection)
        self.put(connection, connection.request_end, connection.request_end_length)

    cdef void put(self, ClientConnection *connection, const char *text, int64_t length) noexcept nogil:
        if not append(connection, text, length):
            self.stop(GARBLED, <int>(connection - self.connections), b"more to answer than was asked", 29)

    cdef void transmit(self, int index) noexcept nogil:
        """Write as much as a turn allows, then watch for the rest."""
        cdef ClientConnection *connection = &self.connections[index]
        cdef const char *start = NULL
        cdef int64_t length, sent, turn_bytes = 0
        cdef int turn
        for turn in range(WRITES_PER_TURN):
            length = next_write(connection, &start)
            if length == 0:
                break
            sent = self.write(index, start, length)
            if wrote(connection, sent):
                self.put(connection, b"PING\r\n", 6)
            turn_bytes += sent
            # A socket that accepted only a part is full: asking it again would cost a system call for nothing.
            if sent < length or turn_bytes >= BYTES_PER_TURN:
                break
        if connection.unsent:
            self.write(index, connection.outbox, 0)
        if connection.watches_output != (connection.outbox_length > 0 or connection.to_send > 0 or connection.unsent):
            connection.watches_output = not connection.watches_output
            self.poller.watch(connection.descriptor, index, connection.watches_output)

    cdef int64_t write(self, int index, const char *bytes_out, int64_t length) noexcept nogil:
        cdef ClientConnection *connection = &self.connections[index]
        cdef int64_t sent = write_some(connection, bytes_out, length)
        if sent <= 0:
            if sent == ENDED:
                self.stop(CLOSED, index, b"", 0)
            return 0
        self.progress_at = monotonic_nanoseconds()
        if connection.started_at == 0:
            connection.started_at = self.progress_at
        return sent

    # Ending.

    cdef void check_complete(self, int index, int64_t now) noexcept nogil:
        cdef ClientConnection *connection = &self.connections[index]
        if connection.complete or connection.role == RESPONDER or self.status != RUNNING:
            return
        connection.complete = has_all(connection, self.settling)
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
        cdef ClientConnection *connection
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
        cdef int index
        return [outcome_of(&self.connections[index]) for index in range(self.count)]

    def latencies(self, int index):
        """The nanoseconds that each answered request of a requester took, in the order of sending."""
        if not 0 <= index < self.count or self.connections[index].role != REQUESTER:
            raise ValueError(f"client {index} is not a requester")
        return latencies_of(&self.connections[index])
