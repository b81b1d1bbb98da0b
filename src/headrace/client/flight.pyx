"""Publishing with acknowledgements: a bounded number of messages in flight, no Python per message.

Every message of a publisher has a number, and asks for its acknowledgement at `inbox` + number:

    numbers    … settled | lowest … some settled, some not … | next_number
                           `-- at most `limit` of them wait, in a ring --'

The plan
--------
`run` encodes rows while fewer than `limit` wait, writes, and settles acknowledged messages, with the GIL
released. It returns when all rows are written (or all are settled, as asked), when a frame arrives that is not
a plain acknowledgement, or when nothing moved for a while. Python decides what that means: `retry` one
message, `resend` everything that waits after a new connection, or give up.

The rules
---------
* Once the limit is reached, the next row is encoded when a quarter of it is settled: otherwise every
  acknowledgement would cost a system call for one message.
* A message that may have arrived needs a message id to be sent again; `resend` returns how many have none.
* An acknowledgement for a number that does not wait is ignored: it arrives when a message was sent twice.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

from headrace.client.frames cimport (BLOCKED, ENOUGH, INTERRUPTED, NO_MEMORY, PING, POLLIN, POLLOUT, READY,
                                     UNFINISHED, WAITED, parse_number)
from headrace.client.growing cimport ensure, put
from headrace.engine.basics.system cimport monotonic_nanoseconds

cdef enum:
    OUTBOX_BYTES = 128 * 1024        # at least this much is encoded before it is written
    PONG_LENGTH = 6
    LIMIT_MAX = 1 << 20


cdef inline bint is_gap(char byte) noexcept nogil:
    return byte == c' ' or byte == c'\t' or byte == c'\r' or byte == c'\n'


cdef inline const char *skip_string(const char *at, const char *end) noexcept nogil:
    """From the opening quote of a string to after the closing one; NULL if there is none."""
    at += 1
    while at < end:
        if at[0] == c'"':
            return at + 1
        at += 2 if at[0] == c'\\' else 1
    return NULL


cdef const char *skip_value(const char *at, const char *end) noexcept nogil:
    """The end of a JSON value; NULL if it does not end."""
    cdef int depth = 0
    while at < end:
        if at[0] == c'"':
            at = skip_string(at, end)
            if at == NULL:
                return NULL
            if depth == 0:
                return at
            continue
        if at[0] == c'{' or at[0] == c'[':
            depth += 1
        elif at[0] == c'}' or at[0] == c']':
            if depth == 0:
                return at
            depth -= 1
            if depth == 0:
                return at + 1
        elif depth == 0 and (at[0] == c',' or is_gap(at[0])):
            return at
        at += 1
    return NULL


cdef bint parse_ack(const char *at, Py_ssize_t length, Ack *ack) noexcept nogil:
    """{"stream":"ORDERS","seq":17,"duplicate":true}, in any order and with spaces. False if it is not one."""
    cdef const char *end = at + length
    cdef const char *key
    cdef const char *value
    cdef Py_ssize_t key_length, value_length
    ack.failed = ack.duplicate = False
    ack.seq = -1
    ack.stream, ack.stream_length = at, 0
    while at < end and is_gap(at[0]):
        at += 1
    if at == end or at[0] != c'{':
        return False
    at += 1
    while True:
        while at < end and (is_gap(at[0]) or at[0] == c','):
            at += 1
        if at >= end:
            return False
        if at[0] == c'}':
            return ack.failed or ack.seq >= 0
        if at[0] != c'"':
            return False
        key = at + 1
        at = skip_string(at, end)
        if at == NULL:
            return False
        key_length = at - 1 - key
        while at < end and (is_gap(at[0]) or at[0] == c':'):
            at += 1
        value = at
        at = skip_value(at, end)
        if at == NULL or at == value:
            return False
        value_length = at - value
        if key_length == 3 and memcmp(key, b"seq", 3) == 0:
            ack.seq = parse_number(value, value_length)
        elif key_length == 5 and memcmp(key, b"error", 5) == 0:
            ack.failed = not (value_length == 4 and memcmp(value, b"null", 4) == 0)
        elif key_length == 6 and memcmp(key, b"stream", 6) == 0 and value[0] == c'"':
            ack.stream, ack.stream_length = value + 1, value_length - 2
        elif key_length == 9 and memcmp(key, b"duplicate", 9) == 0:
            ack.duplicate = value_length == 4 and memcmp(value, b"true", 4) == 0


cdef class Flight:
    """The messages of one publisher. An empty `inbox` asks for no acknowledgements."""

    def __cinit__(self, int64_t sid, bytes inbox, *, int64_t limit=4096, bytes stream=b""):
        if not 0 < limit <= LIMIT_MAX:
            raise ValueError(f"between 1 and {LIMIT_MAX} messages can be in flight")
        self.sid, self.inbox, self.limit, self.stream = sid, inbox, limit, stream
        self.inbox_start, self.inbox_length = self.inbox, len(inbox)
        self.stream_start, self.stream_length = self.stream, len(stream)
        self.kept, self.failures = [], []
        self.mask = 1
        while self.mask < 2 * limit:
            self.mask *= 2
        self.ring = <Sent *>calloc(self.mask, sizeof(Sent))
        if self.ring == NULL:
            raise MemoryError
        self.mask -= 1

    def __dealloc__(self):
        free(self.ring)
        free(self.outbox.data)

    @property
    def sent(self):
        """Whether everything that was added is written."""
        return self.is_sent()

    def follow(self, int64_t sid):
        """Acknowledgements arrive at this subscription from now on."""
        self.sid = sid

    def add(self, Outgoing outgoing not None):
        """Send these rows next. The ones before must be `sent`; their columns are kept until they settle."""
        if self.outgoing is not None and self.row < self.outgoing.count:
            raise ValueError("the rows before these are not sent")
        outgoing.first_number = self.next_number
        self.outgoing, self.row = outgoing, 0
        if self.inbox:
            self.kept.append(outgoing)

    def run(self, Frames frames, double timeout, bint settle):
        """Send, and process acknowledgements, until all is sent; with `settle`, until all is acknowledged.

        Returns an Event for another frame. Returns None when that is reached, when there are `failures`, or
        when nothing moved for `timeout` seconds. Raises BadFrame and ConnectionEnded.
        """
        cdef int64_t patience = <int64_t>(max(0.0, min(timeout, 1e9)) * 1e9)
        cdef int64_t deadline = monotonic_nanoseconds() + patience
        cdef Status status
        self.refused = False
        while True:
            with nogil:
                while True:
                    status = self.step(frames, settle, &deadline, patience)
                    if status != UNFINISHED:
                        break
            self.forget_settled()
            if status == INTERRUPTED:
                PyErr_CheckSignals()
                continue
            return frames.result(status)

    cdef object forget_settled(self):
        cdef Outgoing oldest
        while self.kept:
            oldest = self.kept[0]
            if oldest.first_number + oldest.count > self.lowest:
                return
            del self.kept[0]

    def resend(self):
        """Resend everything that waits, on a new connection. Returns how many of them have no message id."""
        cdef int64_t number
        cdef Sent *sent
        cdef int64_t without = 0
        self.outbox.length = self.written = 0
        self.again = self.lowest
        for number in range(self.lowest, self.next_number):
            sent = &self.ring[number & self.mask]
            if sent.state == WAITING:
                sent.state = AGAIN
                if not (<Outgoing>sent.outgoing).has_id(sent.row):
                    without += 1
        return without

    def retry(self, int64_t number):
        """Send this one again."""
        self.find(number).state = AGAIN
        self.again = min(self.again, number)

    def subject(self, int64_t number):
        """Of a message that waits."""
        cdef Sent *sent = self.find(number)
        text = (<Outgoing>sent.outgoing).subject_of(sent.row)
        return PyBytes_FromStringAndSize(text.data, text.length)

    cdef Sent *find(self, int64_t number) except NULL:
        if not self.lowest <= number < self.next_number or self.ring[number & self.mask].state == SETTLED:
            raise KeyError(number)
        return &self.ring[number & self.mask]

    # One turn of `run`

    cdef Status step(self, Frames frames, bint settle, int64_t *deadline, int64_t patience) noexcept nogil:
        """Encode, write, read: UNFINISHED to continue, otherwise why not."""
        cdef Status status
        cdef bint moved = False
        cdef Py_ssize_t count
        if self.encode() == NO_MEMORY:
            return NO_MEMORY
        if self.written < self.outbox.length:
            status = frames.write(self.outbox.data + self.written, self.outbox.length - self.written, &count)
            if status != READY and status != BLOCKED:
                return status
            self.written = self.written + count
            moved = count > 0
            if self.written == self.outbox.length:
                self.outbox.length = self.written = 0
        while True:
            status = frames.parse()
            if status == UNFINISHED:
                status = frames.fill()
                if status != READY:
                    break
                moved = True
                continue
            if status != READY:
                return status
            if frames.frame.kind == PING:
                # After what waits to be written: a frame may be partly written.
                if not ensure(&self.outbox, PONG_LENGTH):
                    return NO_MEMORY
                put(&self.outbox, b"PONG\r\n", PONG_LENGTH)
                frames.advance()
                continue
            if frames.frame.sid != self.sid or self.inbox_length == 0:
                return READY
            self.take_ack(&frames.frame)
            frames.advance()
        if status != BLOCKED:
            return status
        if self.refused:
            return ENOUGH
        if self.is_sent() and (not settle or self.in_flight == 0):
            return ENOUGH
        if moved:
            deadline[0] = monotonic_nanoseconds() + patience
            if self.outbox.length == 0 and self.may_encode():
                return UNFINISHED
        status = frames.wait(POLLIN | POLLOUT if self.outbox.length else POLLIN, deadline[0])
        return UNFINISHED if status == READY else status

    cdef bint is_sent(self) noexcept nogil:
        return ((self.outgoing is None or self.row == self.outgoing.count)
                and self.outbox.length == 0 and self.again >= self.next_number)

    cdef bint may_encode(self) noexcept nogil:
        """Whether there is something to encode, and room for its acknowledgement."""
        if self.again < self.next_number:
            return True
        if self.outgoing is None or self.row == self.outgoing.count:
            return False
        if self.full and self.in_flight > self.limit - self.limit // 4 - 1:
            return False
        self.full = self.in_flight >= self.limit or self.next_number - self.lowest > self.mask
        return not self.full

    cdef Status encode(self) noexcept nogil:
        cdef Sent *sent
        if self.written > 0:
            return READY                     # the socket is slow; first what waits for it
        while self.outbox.length < OUTBOX_BYTES and self.may_encode():
            if self.again < self.next_number:
                sent = &self.ring[self.again & self.mask]
                if sent.state == AGAIN:
                    if not (<Outgoing>sent.outgoing).put_frame(
                            &self.outbox, sent.row, self.inbox_start, self.inbox_length, self.again):
                        return NO_MEMORY
                    sent.state = WAITING
                self.again = self.again + 1
                continue
            if not self.outgoing.put_frame(
                    &self.outbox, self.row, self.inbox_start, self.inbox_length, self.next_number):
                return NO_MEMORY
            if self.inbox_length:
                sent = &self.ring[self.next_number & self.mask]
                sent.outgoing, sent.row, sent.state = <void *>self.outgoing, self.row, WAITING
                self.in_flight = self.in_flight + 1
                self.next_number = self.next_number + 1
                self.again = self.next_number
            self.row = self.row + 1
        return READY

    cdef void take_ack(self, Frame *frame) noexcept nogil:
        """Settle what the frame acknowledges. Any other answer goes to `failures`."""
        cdef Ack ack
        cdef int64_t number = -1
        cdef bint good
        if frame.subject_length > self.inbox_length:
            number = parse_number(frame.subject + self.inbox_length, frame.subject_length - self.inbox_length)
        if not self.lowest <= number < self.next_number:
            return
        cdef Sent *sent = &self.ring[number & self.mask]
        if sent.state == SETTLED:
            return
        good = frame.headers_length == 0 and parse_ack(frame.payload, frame.payload_length, &ack)
        if good and not ack.failed and self.stream_length:
            good = (ack.stream_length == self.stream_length
                    and memcmp(ack.stream, self.stream_start, self.stream_length) == 0)
        if not good or ack.failed:
            with gil:
                self.failures.append((number, frame.headers[:frame.headers_length],
                                      frame.payload[:frame.payload_length]))
            self.refused = True
            return
        sent.state = SETTLED
        self.in_flight = self.in_flight - 1
        self.acked = self.acked + 1
        self.duplicates = self.duplicates + ack.duplicate
        while self.lowest < self.next_number and self.ring[self.lowest & self.mask].state == SETTLED:
            self.lowest = self.lowest + 1
