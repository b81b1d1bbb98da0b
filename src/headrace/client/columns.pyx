"""Messages of a stream, straight from the socket's buffer into Arrow columns. No Python object per message.

A consumer's delivery looks like this; the sequence and the time are in its reply subject:

    MSG orders.eu 7 $JS.ACK.ORDERS.c1.1.4711.12.1763251200000000000.345 128
                                      ^ stream sequence
                                           ^ consumer sequence
                                              ^ nanoseconds since 1970
                                                                  ^ how many follow

and these are the columns, in Arrow's layout (offsets are 32-bit, one more than there are rows):

    subject     offsets, data
    data        offsets, data
    headers     offsets into -> key offsets, key data; value offsets, value data
    seq         int64
    timestamp   int64, microseconds

The plan
--------
`read` parses frames with the GIL released until something happens that is not a row: the batch is full, the
server's credit runs low, another frame arrived (returned as an Event), the range is complete, or time is up.
Python looks at the attributes and decides. `take` returns the buffers without copying, and starts a new batch.

The rules
---------
* Sequences increase. Anything else is an error of the server.
* A string column is valid UTF-8. Subjects and headers on the wire may be any bytes, so invalid UTF-8 gets
  replacement characters: one odd message must not make a stream unreadable. Payloads stay as they are.
* A batch ends when it has `batch_rows` rows or `batch_bytes` bytes, so 32-bit offsets never overflow.
* Header lines without a colon are skipped; spaces around a value are not part of it (as in other clients).
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp, memcpy

from headrace.client.frames cimport (BLOCKED, ENOUGH, GARBLED, HMSG, INTERRUPTED, MSG, NO_MEMORY, POLLIN, READY,
                                     UNFINISHED, WAITED, deadline_after, parse_number)
from headrace.client.growing cimport ensure, put, put_int32, put_int64

from headrace.client.frames import BadFrame

cdef enum:
    BATCH_ROWS_MAX = 1 << 22
    BATCH_BYTES_MAX = 1 << 28        # and a frame of 128 MiB whose every byte is replaced by three: below 2**31
    ACK_TOKENS = 9                   # $JS.ACK.stream.consumer.deliveries.seq.consumer_seq.time.pending
    ACK_TOKENS_WITH_DOMAIN = 11      # $JS.ACK.domain.account.stream. … .pending, maybe one more
    ACK_TOKENS_MAX = 12
    TIME_DIGITS = 19                 # nanoseconds since 1970, from 2001 to 2262
    STATUS_DIGIT = 9                 # where the status of NATS/1.0 503 begins


cdef class Buffer:
    """Memory that was filled here and that Arrow reads. Freed with the last reader."""

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.length, 1, flags)

    def __len__(self):
        return self.length


cdef Buffer release(Bytes *run):
    """Return the memory; the run is empty afterwards, and remembers how much it needed."""
    cdef Buffer buffer = Buffer.__new__(Buffer)
    buffer.data, buffer.length = run.data, run.length
    run.data = NULL
    run.capacity = run.length  # `ensure` uses it as a first guess
    run.length = 0
    return buffer


cdef inline bint is_ascii(const char *at, Py_ssize_t length) noexcept nogil:
    cdef uint64_t word, seen = 0
    while length >= 8:
        memcpy(&word, at, 8)
        seen |= word
        at += 8
        length -= 8
    word = 0
    memcpy(&word, at, length)
    return ((seen | word) & <uint64_t>0x8080808080808080) == 0


cdef inline bint is_ack_subject(Frame *frame) noexcept nogil:
    return frame.reply_length > 8 and memcmp(frame.reply, b"$JS.ACK.", 8) == 0


cdef inline bint is_status(Frame *frame) noexcept nogil:
    """Whether it is a status message of the consumer: an end, a heartbeat, a refusal."""
    return frame.kind == HMSG and frame.headers_length > STATUS_DIGIT \
        and memcmp(frame.headers, b"NATS/1.0 ", STATUS_DIGIT) == 0 and not is_ack_subject(frame)


cdef inline const char *after_dot(const char *at, const char *end) noexcept nogil:
    """Behind the next dot; the end if there is none."""
    while at < end and at[0] != c'.':
        at += 1
    return at + 1 if at < end else end


cdef inline int64_t take_digits(const char **at, const char *end, char stop) noexcept nogil:
    """The number here, up to `stop` (which is skipped) or to the end if that is 0. -1 if it is not that simple."""
    cdef const char *first = at[0]
    cdef const char *digit = first
    cdef const char *limit = min(end, first + TIME_DIGITS - 1)    # as many fit into 63 bits
    cdef int64_t number = 0
    cdef unsigned char value
    while digit < limit:
        value = <unsigned char>(digit[0] - c'0')
        if value > 9:
            break
        number = number * 10 + value
        digit += 1
    if digit == first or (digit < end) != (stop != 0) or (stop != 0 and digit[0] != stop):
        return -1
    at[0] = digit + 1 if stop else digit
    return number


cdef inline bint is_blank(char byte) noexcept nogil:
    return byte == c' ' or byte == c'\t'


cdef class Columns:
    """Rows of the messages that arrive for a subscription, up to the sequence `last`.

    `first` is the first expected sequence; messages after `last` are ignored.
    """

    def __cinit__(self, int64_t sid, *, int64_t first, int64_t last, int64_t batch_rows=32768,
                  Py_ssize_t batch_bytes=32 << 20, bint headers=True):
        if not 0 < batch_rows <= BATCH_ROWS_MAX or not 0 < batch_bytes <= BATCH_BYTES_MAX:
            raise ValueError(f"a batch has at most {BATCH_ROWS_MAX} rows and {BATCH_BYTES_MAX} bytes")
        if first < 0 or last < first:
            raise ValueError("a range needs a first sequence and a last one that is not before it")
        self.sid = sid
        self.batch_rows, self.batch_bytes, self.with_headers = batch_rows, batch_bytes, headers
        self.last_seq, self.final_seq = first - 1, last
        self.pending = self.jumped_from = -1
        self.low_credit = -1

    def __dealloc__(self):
        cdef int part
        for part in range(4):
            free(self.texts[part].offsets.data)
            free(self.texts[part].data.data)
        free(self.header_offsets.data)
        free(self.seqs.data)
        free(self.times.data)

    def follow(self, int64_t sid):
        """Continue with another subscription: messages of the earlier one are no longer rows."""
        self.sid = sid
        self.credit = 0
        self.pending = -1
        self.prefix_length = 0

    @property
    def full(self):
        """Whether `take` must come before more is read."""
        return self.rows >= self.batch_rows or self.size() >= self.batch_bytes

    def read(self, Frames frames, double timeout):
        """Fill rows; returns an Event for another frame, otherwise None.

        None means that the batch is full, `complete`, that nothing is `pending`, that the credit is low, or
        that no row came for `timeout` seconds. Raises BadFrame and ConnectionEnded; the rows up to there stay.
        """
        cdef int64_t deadline = deadline_after(timeout)
        cdef int64_t rows = self.rows
        cdef Status status
        if self.complete or self.full:
            return None
        if self.prepare() == NO_MEMORY:
            raise MemoryError
        while True:
            with nogil:
                while True:
                    status = frames.parse()
                    if status == UNFINISHED:
                        status = frames.fill()
                        if status == BLOCKED:
                            if self.rows > rows:
                                rows = self.rows
                                deadline = deadline_after(timeout)
                            status = frames.wait(POLLIN, deadline)
                        if status != READY:
                            break
                        continue
                    if status != READY:
                        break
                    if frames.frame.sid != self.sid or is_status(&frames.frame):
                        break
                    status = self.take_frame(&frames.frame)
                    if status != READY:
                        break
                    frames.advance()
                    if (self.complete or self.pending == 0 or self.rows >= self.batch_rows
                            or self.credit <= self.low_credit or self.size() >= self.batch_bytes):
                        status = ENOUGH
                        break
            if status == INTERRUPTED:
                PyErr_CheckSignals()
                continue
            if status == GARBLED and self.complaint != NULL:
                raise BadFrame(f"{self.complaint.decode()}: {frames.event()!r}")
            return frames.result(status)

    def take(self):
        """The rows so far, as (rows, header count, buffers); the next ones start a new batch.

        The buffers: subject offsets and data, payload offsets and data, header offsets, key offsets and
        data, value offsets and data, sequences, times.
        """
        if self.prepare() == NO_MEMORY:
            raise MemoryError
        rows, headers = self.rows, self.texts[KEY].offsets.length // 4 - 1
        buffers = (
            release(&self.texts[SUBJECT].offsets), release(&self.texts[SUBJECT].data),
            release(&self.texts[PAYLOAD].offsets), release(&self.texts[PAYLOAD].data),
            release(&self.header_offsets),
            release(&self.texts[KEY].offsets), release(&self.texts[KEY].data),
            release(&self.texts[VALUE].offsets), release(&self.texts[VALUE].data),
            release(&self.seqs), release(&self.times),
        )
        self.rows = 0
        self.jumped_from = -1
        return rows, headers, buffers

    cdef Py_ssize_t size(self) noexcept nogil:
        return (self.texts[SUBJECT].data.length + self.texts[PAYLOAD].data.length
                + self.texts[KEY].data.length + self.texts[VALUE].data.length)

    cdef Status prepare(self) noexcept nogil:
        """Allocate memory for every run, so that an empty batch is a batch, too."""
        cdef Texts *texts
        cdef int part
        for part in range(4):
            texts = &self.texts[part]
            if texts.offsets.data == NULL:
                if not ensure(&texts.offsets, 4) or not ensure(&texts.data, 0):
                    return NO_MEMORY
                put_int32(&texts.offsets, 0)
        if self.header_offsets.data == NULL:
            if not ensure(&self.header_offsets, 4):
                return NO_MEMORY
            put_int32(&self.header_offsets, 0)
        if not ensure(&self.seqs, 0) or not ensure(&self.times, 0):
            return NO_MEMORY
        return READY

    cdef Status take_frame(self, Frame *frame) noexcept nogil:
        """Append a row for a delivery."""
        cdef Place place
        cdef int64_t seq
        self.complaint = NULL
        if not self.parse_known_place(frame, &place) and not self.parse_place(frame, &place):
            return GARBLED
        seq = place.seq
        if seq <= self.last_seq:
            self.complaint = b"a delivery that is older than the one before"
            return GARBLED
        self.credit = self.credit - 1
        self.pending = place.pending
        if seq >= self.final_seq:
            self.complete = True
        if seq > self.final_seq:
            return READY
        return self.add_row(seq, place.time, frame.subject, frame.subject_length, frame.headers, frame.headers_length,
                            frame.payload, frame.payload_length)

    cdef Status add_row(self, int64_t seq, int64_t time, const char *subject, Py_ssize_t subject_length,
                        const char *headers, Py_ssize_t headers_length, const char *payload,
                        Py_ssize_t payload_length) noexcept nogil:
        """Append a row. `prepare` came before, and its sequence is above last_seq; time is in nanoseconds."""
        # The order matters when memory runs out: a row counts once all its parts are there.
        if not (ensure(&self.seqs, 8) and ensure(&self.times, 8) and ensure(&self.header_offsets, 4)
                and ensure(&self.texts[PAYLOAD].offsets, 4)
                and ensure(&self.texts[PAYLOAD].data, payload_length)):
            return NO_MEMORY
        if self.append_text(&self.texts[SUBJECT], subject, subject_length) != READY:
            return NO_MEMORY
        if self.with_headers and headers_length > 0:
            if self.take_headers(headers, headers_length) != READY:
                return NO_MEMORY
        put_int32(&self.header_offsets, self.texts[KEY].offsets.length // 4 - 1)
        put(&self.texts[PAYLOAD].data, payload, payload_length)
        put_int32(&self.texts[PAYLOAD].offsets, self.texts[PAYLOAD].data.length)
        put_int64(&self.seqs, seq)
        put_int64(&self.times, time // 1000)
        if seq != self.last_seq + 1 and self.jumped_from < 0:
            self.jumped_from = self.last_seq
        self.last_seq = seq
        self.rows = self.rows + 1
        return READY

    cdef bint parse_known_place(self, Frame *frame, Place *place) noexcept nogil:
        """The same for a reply subject with the names of the one before, which is nearly all of them.

        It saves a sixth of the instructions of decoding a message of 128 B. False: `parse_place` has to look at it.
        """
        cdef const char *at = frame.reply + self.prefix_length
        cdef const char *end = frame.reply + frame.reply_length
        if self.prefix_length == 0 or frame.reply_length <= self.prefix_length \
                or memcmp(frame.reply, self.prefix, self.prefix_length) != 0:
            return False
        at = after_dot(at, end)                  # how often it was delivered
        place.seq = take_digits(&at, end, c'.')
        at = after_dot(at, end)                  # the consumer's sequence
        if end - at > TIME_DIGITS and at[TIME_DIGITS] == c'.':
            place.time = parse_number(at, TIME_DIGITS)
            at += TIME_DIGITS + 1
        else:
            place.time = take_digits(&at, end, c'.')
        place.pending = take_digits(&at, end, 0)
        return at == end and place.seq > 0 and place.time >= 0 and place.pending >= 0

    cdef bint parse_place(self, Frame *frame, Place *place) noexcept nogil:
        """What a reply subject says about a delivery. False: it is not one, and `complaint` says why."""
        cdef const char *starts[ACK_TOKENS_MAX + 1]
        cdef const char *at = frame.reply
        cdef const char *end = at + frame.reply_length
        cdef int count = 1, first
        if not is_ack_subject(frame):
            self.complaint = b"a delivery without its place in the stream"
            return False
        starts[0] = at
        while count <= ACK_TOKENS_MAX:
            at = <const char *>memchr(at, c'.', end - at)
            if at == NULL:
                break
            at += 1
            starts[count] = at
            count += 1
        if count != ACK_TOKENS and not ACK_TOKENS_WITH_DOMAIN <= count <= ACK_TOKENS_MAX:
            self.complaint = b"a delivery whose reply subject has too few or too many tokens"
            return False
        if count < ACK_TOKENS_MAX:
            starts[count] = end + 1
        first = 5 if count == ACK_TOKENS else 7
        place.seq = parse_number(starts[first], starts[first + 1] - starts[first] - 1)
        place.time = parse_number(starts[first + 2], starts[first + 3] - starts[first + 2] - 1)
        place.pending = parse_number(starts[first + 3], starts[first + 4] - starts[first + 3] - 1)
        if place.seq <= 0 or place.time < 0 or place.pending < 0:
            self.complaint = b"a delivery whose reply subject has a wrong number"
            return False
        if starts[first - 1] - frame.reply <= PREFIX_MAX:
            self.prefix_length = starts[first - 1] - frame.reply
            memcpy(self.prefix, frame.reply, self.prefix_length)
        return True

    cdef Status take_headers(self, const char *at, Py_ssize_t length) noexcept nogil:
        """Every `key: value` line after the first line, in their order; a key may come twice."""
        cdef const char *end = at + length
        cdef const char *stop
        cdef const char *colon
        cdef const char *value
        cdef bint first = True
        while at < end:
            stop = <const char *>memchr(at, c'\n', end - at)
            if stop == NULL:
                stop = end
            colon = <const char *>memchr(at, c':', stop - at)
            if not first and colon != NULL and colon > at:
                if self.append_text(&self.texts[KEY], at, colon - at) != READY:
                    return NO_MEMORY
                value = colon + 1
                at = stop
                if at > value and (at - 1)[0] == c'\r':
                    at -= 1
                while value < at and is_blank(value[0]):
                    value += 1
                while at > value and is_blank((at - 1)[0]):
                    at -= 1
                if self.append_text(&self.texts[VALUE], value, at - value) != READY:
                    return NO_MEMORY
            first = False
            at = stop + 1
        return READY

    cdef Status append_text(self, Texts *texts, const char *at, Py_ssize_t length) noexcept nogil:
        """Append a string, with replacement characters where it is not UTF-8."""
        cdef bint copied = False
        if not ensure(&texts.offsets, 4) or not ensure(&texts.data, length):
            return NO_MEMORY
        if not is_ascii(at, length):
            with gil:
                copied = append_decoded(texts, at, length)
            if not copied:
                return NO_MEMORY
        else:
            put(&texts.data, at, length)
        put_int32(&texts.offsets, texts.data.length)
        return READY


cdef bint append_decoded(Texts *texts, const char *at, Py_ssize_t length) noexcept:
    cdef bytes text
    try:
        text = at[:length].decode("utf-8", "replace").encode()
    except MemoryError:
        return False
    if not ensure(&texts.data, len(text)):
        return False
    put(&texts.data, text, len(text))
    return True
