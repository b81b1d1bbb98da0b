"""The load generator's clients of a stream: those who publish to it, pull from it, or get values of keys.

A publisher is a requester whose answers are checked. `{"stream":"S","seq":17}` must have a sequence of this run,
each exactly once, and the sequences of one publisher must be in the order of its messages.
An error response is counted and its text kept; the run continues.

With keys, the subject of message n ends with key `n * KEY_STRIDE % keys`, so that neighbours differ. One that expects
sequences puts into a header what it knows to be the last one: it is the only publisher, and counts. One that gets asks
for the last message of a key's subject, and checks in the answer that it is of this subject and has the right size.

A client that pulls asks for a batch, reads it, acknowledges every message if asked to, and asks for the next.
Everything that matters about a message is in its reply subject, `$JS.ACK.S.C.<deliveries>.<sequence>. ...`. With
a shared consumer, each sequence goes to exactly one of the clients; with its own consumer, a client gets all of
them without a gap. In all it asks for exactly what it expects, so that no pull is left open at the end. A message
without a reply subject is a status of a pull, and ends the run.
"""

from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp, memcpy, strlen

from headrace.bench.clients.client_connection cimport (
    ANSWER_START_MAX, CONTROL_LINE_MAX, EXPECTING, IDENTIFIED, PLAIN, SUBSCRIBER, TOKEN_DIGITS, ClientConnection,
    answered_number,
)
from headrace.bench.clients.load cimport GARBLED, REFUSED
from headrace.engine.basics.decimals cimport parse_decimal, write_decimal

PULL_EXPIRES_NANOSECONDS = 600 * 1_000_000_000
cdef int64_t EXPIRES = PULL_EXPIRES_NANOSECONDS


cdef int64_t leading_number(const char *text, int64_t length) noexcept nogil:
    """The number that the text starts with, or -1."""
    cdef int64_t end = 0
    while end < min(length, TOKEN_DIGITS - 1) and c'0' <= text[end] <= c'9':
        end += 1
    return parse_decimal(text, end, TOKEN_DIGITS)


cdef void write_padded(char *text, int64_t number, int digits) noexcept nogil:
    cdef int place
    for place in range(digits - 1, -1, -1):
        text[place] = <char>(c'0' + number % 10)
        number //= 10


cdef int64_t key_of(ClientConnection *connection, int64_t number) noexcept nogil:
    return number * KEY_STRIDE % connection.keys


cdef int64_t next_sequence(ClientConnection *connection) noexcept nogil:
    """The sequence in an acknowledgement that begins as the one before and ends right behind it; otherwise -1."""
    cdef const char *body = connection.body
    cdef int64_t start = connection.answer_start_length
    cdef int64_t end = min(connection.body_length, connection.payload_length) - 1
    if start == 0 or end <= start or connection.header_length or body[end] != c'}' \
            or memcmp(body, connection.answer_start, start) != 0:
        return -1
    return parse_decimal(body + start, end - start, TOKEN_DIGITS - 1)


cdef class StreamLoad(Load):
    """A load whose clients may also publish to streams and pull from consumers."""

    def __dealloc__(self):
        free(self.seen)

    # Building the run.

    def expect_sequences(self, int64_t first, int64_t count):
        """The sequences from `first` on that publishers, or clients that share a consumer, get once each."""
        if first < 0 or count < 0 or self.seen != NULL:
            raise ValueError("sequences are expected once, and are not negative")
        self.seen = <uint8_t *>calloc(count // 8 + 1, 1)
        if self.seen == NULL:
            raise MemoryError
        self.seen_first, self.seen_count = first, count

    def add_stream_publisher(self, int descriptor, bytes subject, bytes inbox, bytes payload, int64_t messages,
                             int64_t in_flight, bytes message_id=b"", bytes expects=b"", int64_t first=1,
                             int64_t keys=0):
        """Publish this many messages, `in_flight` at a time unacknowledged, the reply subject being `inbox` and
        a number. `message_id`: what their Nats-Msg-Id starts with. `expects`: the header that names the last
        sequence, `first` being that of the first message. `keys`: how many there are, at the end of the subject."""
        if messages < 0 or in_flight < 1 or len(subject) + len(inbox) > CONTROL_LINE_MAX // 2:
            raise ValueError("a publisher needs short subjects and at least one message in flight")
        header, request_end = b"", b" %d\r\n%b\r\n" % (len(payload), payload)
        if message_id or expects:
            header = b"NATS/1.0\r\n" + (b"Nats-Msg-Id: " + message_id if message_id else expects + b": ")
            request_end = b"\r\n\r\n%b\r\n" % payload
        cdef int64_t more = len(header) + HEADER_LENGTHS + TOKEN_DIGITS
        cdef ClientConnection *connection = self.add_targets(
            descriptor, b"HPUB" if header else b"PUB", subject, inbox, request_end, messages, in_flight, keys, more)
        self.kept.append(header)
        connection.header, connection.header_start_length = header, len(header)
        connection.numbering = IDENTIFIED if message_id else EXPECTING if expects else PLAIN
        connection.payload_size, connection.first_sequence = len(payload), first
        connection.latest_number = -1
        self.put_first_requests(connection, in_flight)
        return self.count - 1

    def add_getter(self, int descriptor, bytes subject, bytes inbox, int64_t size, int64_t requests,
                   int64_t in_flight, int64_t keys):
        """Ask for the last messages of the keys below `subject`, `in_flight` at a time; their payloads have `size`."""
        if requests < 0 or in_flight < 1 or keys < 1 or len(subject) + len(inbox) > CONTROL_LINE_MAX // 2:
            raise ValueError("one that gets needs short subjects, keys and at least one request in flight")
        cdef ClientConnection *connection = self.add_targets(
            descriptor, b"PUB", subject, inbox, b" 0\r\n\r\n", requests, in_flight, keys, 0)
        connection.gets, connection.payload_size = True, size
        self.put_first_requests(connection, in_flight)
        return self.count - 1

    cdef ClientConnection *add_targets(self, int descriptor, bytes verb, bytes subject, bytes inbox, bytes request_end,
                                       int64_t requests, int64_t in_flight, int64_t keys, int64_t more) except NULL:
        """One whose requests have a key each, if there are `keys`, and `more` bytes than others."""
        request, middle = b"%b %b" % (verb, subject), b" " + inbox
        if not keys:
            request, middle = request + middle, b""
        cdef int64_t longest = len(request) + KEY_DIGITS + len(middle) + TOKEN_DIGITS + len(request_end) + more
        cdef ClientConnection *connection = self.add_requests(
            descriptor, request, request_end, len(inbox), requests, in_flight, longest)
        self.kept.append(middle)
        connection.request_middle, connection.request_middle_length = middle, len(middle)
        connection.keys, connection.keeps_body = keys, True
        return connection

    def add_puller(self, int descriptor, str stream, str consumer, bytes inbox, int64_t batch, bint acknowledges,
                   int64_t first, int64_t expected):
        """Pull `expected` messages, `batch` at a time, from its own consumer, which starts at `first`."""
        if batch < 1 or expected < 0:
            raise ValueError("a batch has at least one message")
        names = f"{stream}.{consumer}".encode()
        request = b"PUB $JS.API.CONSUMER.MSG.NEXT.%b %b " % (names, inbox)
        if len(request) > CONTROL_LINE_MAX // 2:
            raise ValueError("the names are too long")
        cdef int64_t acknowledgements = batch * (ACK_FRAME_LENGTH + len(names)) if acknowledges else 0
        cdef ClientConnection *connection = self.add(
            descriptor, SUBSCRIBER, len(request) + PULL_LENGTH + acknowledgements + 64)
        self.kept.append(request)
        connection.request, connection.request_length = request, len(request)
        connection.keeps_body = connection.pulls = True
        connection.batch, connection.acknowledges = batch, acknowledges
        connection.expected = connection.to_request = expected
        connection.latest_sequence = first - 1
        return self.count - 1

    def add_sharing_puller(self, int descriptor, str stream, str consumer, bytes inbox, int64_t batch,
                           bint acknowledges):
        """The same from a consumer that is shared; `expect_shared` and `expect_sequences` say what comes."""
        index = self.add_puller(descriptor, stream, consumer, inbox, batch, acknowledges, 0, 0)
        self.connections[self.count - 1].shares = True
        return index

    # Running it.

    cdef void start(self) noexcept nogil:
        cdef int index
        self.to_pull = self.shared_expected
        for index in range(self.count):
            if self.connections[index].pulls:
                self.pull(index, self.started_at)
        Load.start(self)

    cdef void on_message(self, int index) noexcept nogil:
        cdef ClientConnection *connection = &self.connections[index]
        if not connection.keeps_body:
            Load.on_message(self, index)
            return
        connection.messages += 1
        connection.payload_bytes += connection.payload_length - connection.header_length
        if connection.pulls:
            self.take_pulled(index)
        elif connection.gets:
            self.take_value(index)
        else:
            self.take_acknowledgement(index)

    cdef bint take_sequence(self, int index, int64_t sequence) noexcept nogil:
        """Whether it is expected, and arrives for the first time."""
        cdef int64_t place = sequence - self.seen_first
        cdef char text[80]
        if not 0 <= place < self.seen_count or self.seen[place >> 3] & (1 << (place & 7)):
            snprintf(text, sizeof(text), b"sequence %lld is not one that was to come now", <long long>sequence)
            self.stop(GARBLED, index, text, strlen(text))
            return False
        self.seen[place >> 3] = self.seen[place >> 3] | <uint8_t>(1 << (place & 7))
        return True

    # Publishing.

    cdef void put_numbered(self, ClientConnection *connection) noexcept nogil:
        self.put_target(connection)
        if connection.numbering != PLAIN:
            self.put_header(connection)
        self.put(connection, connection.request_end, connection.request_end_length)

    cdef void put_target(self, ClientConnection *connection) noexcept nogil:
        """The subject and the reply subject."""
        cdef char text[TOKEN_DIGITS + 1]
        if connection.keys == 0:
            self.put_token(connection)
            return
        self.put(connection, connection.request, connection.request_length)
        write_padded(text, key_of(connection, connection.requested), KEY_DIGITS)
        self.put(connection, text, KEY_DIGITS)
        self.put(connection, connection.request_middle, connection.request_middle_length)
        self.put(connection, text, write_decimal(text, connection.requested))

    cdef void put_header(self, ClientConnection *connection) noexcept nogil:
        """Lengths and headers; the end of the headers is part of `request_end`."""
        cdef char text[TOKEN_DIGITS + 1]
        cdef char lengths[HEADER_LENGTHS]
        cdef int64_t digits = IDENTITY_DIGITS, length, end
        if connection.numbering == EXPECTING:
            digits = write_decimal(text, connection.first_sequence + connection.requested - 1)
        else:
            write_padded(text, connection.requested, IDENTITY_DIGITS)
        length = connection.header_start_length + digits + 4
        lengths[0] = c' '
        end = 1 + write_decimal(lengths + 1, length)
        lengths[end] = c' '
        end += 1 + write_decimal(lengths + end + 1, length + connection.payload_size)
        lengths[end], lengths[end + 1] = c'\r', c'\n'
        self.put(connection, lengths, end + 2)
        self.put(connection, connection.header, connection.header_start_length)
        self.put(connection, text, digits)

    cdef void take_acknowledgement(self, int index) noexcept nogil:
        cdef ClientConnection *connection = &self.connections[index]
        cdef const char *body = connection.body
        cdef const char *place
        cdef int64_t length, sequence = next_sequence(connection)
        if sequence >= 0:
            self.take_stored(index, sequence)
            self.take_answer(index)
            return
        length = min(connection.body_length, connection.payload_length)
        place = <const char *>memmem(body, length, b"\"seq\":", 6)
        if place != NULL:
            place += 6
            sequence = leading_number(place, body + length - place)
        if connection.header_length or memmem(body, length, b"\"error\":", 8) != NULL:
            self.refuse(body, length)
        elif sequence < 0:
            self.stop(GARBLED, index, body, length)
        elif memmem(body, length, b"\"duplicate\":", 12) != NULL:
            self.duplicates = self.duplicates + 1
        else:
            self.take_stored(index, sequence)
            if place - body <= ANSWER_START_MAX:
                connection.answer_start_length = place - body
                memcpy(connection.answer_start, body, place - body)
        self.take_answer(index)

    cdef void take_stored(self, int index, int64_t sequence) noexcept nogil:
        cdef ClientConnection *connection = &self.connections[index]
        cdef int64_t number
        if not self.take_sequence(index, sequence):
            return
        number = answered_number(connection)
        if (number > connection.latest_number) != (sequence > connection.latest_sequence):
            self.stop(GARBLED, index, b"messages of one publisher were stored in another order", 54)
        connection.latest_number, connection.latest_sequence = number, sequence

    cdef void refuse(self, const char *text, int64_t length) noexcept nogil:
        if self.refusals == 0:
            snprintf(self.refusal, sizeof(self.refusal), b"%.*s", <int>min(length, 250), text)
        self.refusals = self.refusals + 1

    # Getting.

    cdef void take_value(self, int index) noexcept nogil:
        """`HMSG inbox sid size size`, whose headers say which subject it is of; a status says that there is none."""
        cdef ClientConnection *connection = &self.connections[index]
        cdef int64_t length = min(connection.body_length, connection.header_length)
        cdef char expected[KEY_DIGITS + 2]
        cdef const char *place
        if length < 10 or memcmp(connection.body, b"NATS/1.0\r\n", 10) != 0:
            self.refuse(connection.body, min(connection.body_length, connection.payload_length))
            self.take_answer(index)
            return
        write_padded(expected, key_of(connection, answered_number(connection)), KEY_DIGITS)
        expected[KEY_DIGITS], expected[KEY_DIGITS + 1] = c'\r', c'\n'
        place = <const char *>memmem(connection.body, length, b"\r\nNats-Subject: ", 16)
        if place != NULL:
            place = <const char *>memmem(place + 2, connection.body + length - place - 2, b"\r\n", 2)
        if place == NULL or memcmp(place - KEY_DIGITS, expected, KEY_DIGITS + 2) != 0 \
                or connection.payload_length - connection.header_length != connection.payload_size:
            self.stop(GARBLED, index, b"the value of another key", 24)
            return
        self.take_answer(index)

    # Pulling.

    cdef void pull(self, int index, int64_t now) noexcept nogil:
        """Ask for the next batch, if there is anything left to ask for."""
        cdef ClientConnection *connection = &self.connections[index]
        cdef char body[PULL_LENGTH]
        cdef char length[24]
        cdef int64_t left = self.to_pull if connection.shares else connection.to_request
        cdef int64_t count = min(connection.batch, left)
        if count == 0:
            return
        if connection.shares:
            self.to_pull = self.to_pull - count
        else:
            connection.to_request -= count
        connection.outstanding, connection.pulled_at = count, now
        snprintf(body, sizeof(body), b"{\"batch\":%lld,\"expires\":%lld}\r\n", <long long>count, <long long>EXPIRES)
        snprintf(length, sizeof(length), b"%d\r\n", <int>strlen(body) - 2)
        self.put(connection, connection.request, connection.request_length)
        self.put(connection, length, strlen(length))
        self.put(connection, body, strlen(body))

    cdef void take_pulled(self, int index) noexcept nogil:
        """`MSG inbox sid reply size` or `HMSG inbox sid reply size size`; the reply subject says it all."""
        cdef ClientConnection *connection = &self.connections[index]
        cdef const char *reply = connection.head
        cdef const char *end
        cdef const char *token
        cdef int64_t places[16]
        cdef int64_t length, deliveries, sequence
        cdef int word, tokens = 0, words = 0
        cdef char text[120]
        for word in range(3):
            token = <const char *>memchr(reply, c' ', connection.head + connection.head_length - reply)
            if token == NULL:
                self.stop(GARBLED, index, connection.head, connection.head_length - 2)
                return
            reply = token + 1
        end = <const char *>memchr(reply, c' ', connection.head + connection.head_length - reply)
        if end == NULL or memcmp(reply, b"$JS.ACK.", 8) != 0:
            # Not a message, but a status of the pull.
            connection.messages -= 1
            length = min(connection.body_length, connection.header_length)
            token = <const char *>memchr(connection.body, c'\r', length)
            self.stop(REFUSED, index, connection.body, length if token == NULL else token - connection.body)
            return
        token = reply
        while token != NULL and tokens < 16:
            places[tokens] = token - reply
            tokens += 1
            token = <const char *>memchr(token, c'.', end - token)
            if token != NULL:
                token += 1
        if tokens != ACK_SUBJECT_TOKENS and tokens < LONG_ACK_SUBJECT_TOKENS:
            self.stop(GARBLED, index, reply, end - reply)
            return
        word = 4 if tokens == ACK_SUBJECT_TOKENS else 6
        deliveries = leading_number(reply + places[word], end - reply - places[word])
        sequence = leading_number(reply + places[word + 1], end - reply - places[word + 1])
        if deliveries != 1:
            snprintf(text, sizeof(text), b"message %lld came again", <long long>sequence)
            self.stop(GARBLED, index, text, strlen(text))
        elif connection.shares:
            self.take_sequence(index, sequence)
        elif sequence != connection.latest_sequence + 1:
            snprintf(text, sizeof(text), b"message %lld after %lld", <long long>sequence,
                     <long long>connection.latest_sequence)
            self.stop(GARBLED, index, text, strlen(text))
        connection.latest_sequence = sequence
        if connection.acknowledges:
            self.put(connection, b"PUB ", 4)
            self.put(connection, reply, end - reply)
            self.put(connection, b" 4\r\n+ACK\r\n", 10)
        connection.outstanding -= 1
        if connection.outstanding == 0:
            if self.waits is not None:
                self.waits.record(connection.pulled_at - self.started_at, self.progress_at - connection.pulled_at)
            self.pull(index, self.progress_at)

    # The outcome.

    @property
    def first_refusal(self):
        """The text of the first error response, or the status that arrived instead."""
        return self.refusal.decode("utf-8", "replace")
