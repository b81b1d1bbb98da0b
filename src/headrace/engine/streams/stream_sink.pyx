"""From a publish to its acknowledgement: the subscriber that appends to a stream's log.

    receive   a message of a subject of the stream is appended to the log, and its answer is recorded
    settle    at the end of the tick the log passes the appended messages to the committer, as one group
    _on_group the group is on disk (or is not): its answers are sent

No Python runs per message on this path. What the C path cannot decide goes to `stream.on_publish`, at once, so that
the order of messages is kept: messages with a `Nats-` header other than Nats-Msg-Id and expected sequences (rows
stream-4096-ids and stream-256-expected of the benchmark), messages that expect another sequence or that the log refuses,
and all messages if the stream has a feature that needs it (`direct` is False then).

An answer is never sent before everything that was appended until then is on disk. If the disk fails, the whole group
gets an error.
"""

from cpython.mem cimport PyMem_Free
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from headrace.engine.basics.buffers cimport grow_buffer
from headrace.engine.basics.decimals cimport parse_decimal, write_decimal
from headrace.engine.basics.filters cimport is_literal
from headrace.engine.core.hub cimport Hub
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport Link
from headrace.engine.store.log cimport Log
from headrace.engine.store.readings cimport last_of_subject
from headrace.engine.core.message cimport Message
from headrace.engine.core.sinks cimport Sink
from headrace.engine.basics.system cimport wall_clock
from headrace.engine.core.slow_consumers cimport SlowConsumers
from headrace.engine.core.trie cimport Subscription
from headrace.engine.streams.duplicate_window cimport DuplicateWindow, trim

cdef struct Wishes:
    # What the headers of a message ask of the stream.
    const char *msg_id
    Py_ssize_t msg_id_length       # 0: it has none
    int64_t last_seq               # the last sequence that its publisher expects; -1: any
    int64_t last_subject_seq       # the same of its subject

DEF MAX_SUBJECT = 65535
DEF MAX_HEADERS = 65535
DEF FIRST_LINE = 10               # "NATS/1.0\r\n"
cdef size_t FULL_LOG = 64 * 1024 * 1024      # bytes waiting for the disk at which publishers have to wait, too


cdef bint read_wishes(const char *headers, Py_ssize_t length, Wishes *wishes) noexcept:
    """Read the headers that concern the stream. False: one of them is for Python to decide about."""
    cdef const char *at = headers
    cdef const char *end = headers + length
    cdef const char *line_end
    wishes.msg_id_length = 0
    wishes.last_seq = wishes.last_subject_seq = -1
    while at < end:
        line_end = <const char *> memchr(at, c'\n', end - at)
        if line_end == NULL:
            break
        # nats-server finds a header wherever its name follows a line end; names are case-sensitive there.
        if line_end - at > 5 and memcmp(at, b'Nats-', 5) == 0 and not read_wish(headers, at, line_end, wishes):
            return False
        at = line_end + 1
    return True


cdef bint read_wish(const char *headers, const char *at, const char *line_end, Wishes *wishes) noexcept:
    """The same for one line, which begins with `Nats-`."""
    cdef Py_ssize_t length = line_end - at
    if length > 12 and memcmp(at, b'Nats-Msg-Id:', 12) == 0 and wishes.msg_id_length == 0:
        wishes.msg_id = trim(at + 12, line_end, &wishes.msg_id_length)
        return True
    if at - headers < 2 or (at - 2)[0] != c'\r':
        return False
    if length > 28 and memcmp(at, b'Nats-Expected-Last-Sequence:', 28) == 0 and wishes.last_seq < 0:
        wishes.last_seq = number_in(at + 28, line_end)
        return wishes.last_seq >= 0
    if length > 36 and memcmp(at, b'Nats-Expected-Last-Subject-Sequence:', 36) == 0 and wishes.last_subject_seq < 0:
        wishes.last_subject_seq = number_in(at + 36, line_end)
        return wishes.last_subject_seq >= 0
    return False


cdef int64_t number_in(const char *at, const char *line_end) noexcept:
    """The value of a header as a number; -1: it is none that is usual."""
    cdef Py_ssize_t length
    at = trim(at, line_end, &length)
    return parse_decimal(at, length, 18)


cdef bint is_fast_batch(Message *message) noexcept:
    """Whether it belongs to a fast batch, by the end of its reply subject: streams/ingest/fast_batches.py."""
    cdef uint32_t length = message.reply_length
    return length > 4 and memcmp(message.reply + length - 4, b'.$FI', 4) == 0


cdef class Answers:
    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef int add(self, uint64_t seq, const char *reply, uint32_t reply_length,
                 const char *body, uint32_t body_length) except -1:
        cdef Py_ssize_t needed = self.used + sizeof(Answer) + reply_length + body_length
        cdef Answer head
        self.make_room(sizeof(Answer) + reply_length + body_length)
        head.seq = seq
        head.reply_length = reply_length
        head.body_length = body_length
        memcpy(self.data + self.used, &head, sizeof(Answer))
        memcpy(self.data + self.used + sizeof(Answer), reply, reply_length)
        if body_length:
            memcpy(self.data + self.used + sizeof(Answer) + reply_length, body, body_length)
        self.used = needed
        return 0

    cdef int make_room(self, Py_ssize_t size) except -1:
        return grow_buffer(&self.data, &self.capacity, self.used + size)


cdef class StreamSink(Sink):
    """See stream_sink.pyi for what a stream sets and what it is asked."""

    def __init__(self, Hub hub, Interest interest, Log log not None, stream):
        self.imports = True            # a stream stores what its account imports
        self.slow_consumers = hub.slow_consumers
        self.log = log
        self.stream = stream
        self.ack_prefix = b'{"seq":'
        self.ack_suffix = b''
        self.max_msg_size = -1
        self.direct = True
        self.last_msg_id = b''
        self.duplicates = DuplicateWindow(log)
        self.waiting = Answers.__new__(Answers)

    # -- while the route is walked --------------------------------------------------------------------------------

    cdef int receive(self, Link publisher, Subscription subscription, Message *message) except -1:
        try:
            return self._store(publisher, message)
        except MemoryError:            # it was not stored; its publisher gets an error, and stays connected
            self.stream.on_no_memory(message.reply[:message.reply_length])
            return self.note()

    cdef bint receive_traced(self, Link publisher, Subscription subscription, Message *message, object trace) except -1:
        """Python decides about it, and tells the trace."""
        cdef Py_ssize_t header = message.header_length
        self.turn = 0
        self.stream.on_traced(message.subject[:message.subject_length], message.reply[:message.reply_length],
                              message.payload[:header], message.payload[header:message.size], trace)
        self._received()
        return True

    cdef int _store(self, Link publisher, Message *message) except -1:
        cdef Wishes wishes
        cdef int64_t now
        cdef uint64_t seq
        cdef uint64_t hashed = 0
        cdef bint identified = False
        if not self.direct or (self.max_msg_size >= 0 and message.size > self.max_msg_size) \
                or message.subject_length > MAX_SUBJECT or is_fast_batch(message):
            return self._hand_over(message)
        if message.header_length:
            if message.header_length > MAX_HEADERS or message.header_length < FIRST_LINE \
                    or message.payload[FIRST_LINE - 2] != c'\r':       # a status, which is not stored
                return self._hand_over(message)
            if not read_wishes(message.payload, message.header_length, &wishes) or not self._meets(&wishes, message):
                return self._hand_over(message)
            identified = wishes.msg_id_length > 0
        now = self._now(publisher)
        if identified and self.duplicates.length:
            hashed = self.duplicates.ids.hash(wishes.msg_id, wishes.msg_id_length)
            if publisher is not None:
                self._fetch_ahead(&wishes)
            try:
                seq = self.duplicates.find_hashed(hashed, wishes.msg_id, wishes.msg_id_length, now)
            except OSError:
                return self._hand_over(message)    # which notices it, too, and answers
            if seq:
                self.answer_duplicate(message.reply[:message.reply_length], seq)
                return self._received()
        self.waiting.make_room(sizeof(Answer) + message.reply_length)    # stored messages are answered
        if identified:
            self.duplicates.ids.reserve()                                # and their ids remembered
        seq = self.log.append_message(message.subject, message.subject_length, message.payload,
                                      <uint32_t> message.header_length, message.size, now)
        if seq == 0:
            return self._hand_over(message)
        if identified:
            self.last_msg_id = wishes.msg_id[:wishes.msg_id_length]
            if self.duplicates.length:
                self.duplicates.ids.add(hashed, seq, now)
        elif self.last_msg_id:
            self.last_msg_id = b''
        if message.reply_length and not self.no_ack:
            self._add_answer(seq, message.reply, message.reply_length, NULL, 0)
        return self._received()

    cdef bint _meets(self, Wishes *wishes, Message *message) except -1:
        """Whether the stream is where the publisher expects it. If not, or if it cannot be read, Python answers."""
        cdef uint64_t looks = <uint64_t> -1, seq = 0
        if wishes.last_seq >= 0 and <uint64_t> wishes.last_seq != self.log.store.last_seq:
            return False
        if wishes.last_subject_seq < 0:
            return True
        if not is_literal(message.subject, message.subject_length):
            return False
        try:
            last_of_subject(self.log.store, message.subject, message.subject_length, &looks, &seq)
            return <uint64_t> wishes.last_subject_seq == seq
        except OSError:
            return False

    cdef int64_t _now(self, Link publisher) noexcept:
        """The clock is read once per turn of a link, since that takes as long as a tenth of a message.

        What is parsed in a turn was sent before it began, and only `stream` can store anything else in the meantime. The
        messages of a turn are a nanosecond apart, so that each time still identifies one message.
        """
        if publisher is not None and self.turn == self.tick.turns:
            self.time += 1
        else:
            self.time = wall_clock()
            self.turn = self.tick.turns if publisher is not None else 0
        return self.time

    cdef void _fetch_ahead(self, Wishes *wishes) noexcept:
        """Prefetch the bucket of the next message's id, while this message is stored.

        Successive messages are often equally long, so the next id is probably as far after this one as this one is
        after the last. A wrong guess only wastes a prefetch. With millions of ids, waiting for that memory took a quarter
        of the server's time (row stream-4096-ids of the benchmark, and the sink of Spark's).
        """
        cdef const char *id = wishes.msg_id
        cdef size_t distance = <size_t> id - <size_t> self.last_id
        cdef size_t left
        self.last_id = id
        if self.tick.received <= id < self.tick.received_end:
            left = self.tick.received_end - id
            if distance < left and <size_t> wishes.msg_id_length <= left - distance:
                self.duplicates.ids.fetch(self.duplicates.ids.hash(id + distance, wishes.msg_id_length))

    cdef int _received(self) except -1:
        """After every message, whichever way it took: whoever published it waits if the disk does not keep up."""
        if self._has_too_much():
            self.deliveries.overran = True
            if not self.full:
                self.full = True
                self.slow_consumers.full_logs += 1
                self.tick.deferred.append(self._wait_for_disk)
        return self.note()

    cdef bint _has_too_much(self) noexcept:
        return self.log.backlog() + <size_t> self.answer_bytes > FULL_LOG

    def _wait_for_disk(self):
        self.log.when_committed(self._let_publishers_go)

    def _let_publishers_go(self, failure):
        if failure is None and self._has_too_much():
            self.tick.deferred.append(self._wait_for_disk)
            (<Hub> self.hub).flush_soon()
            return
        self.full = False
        self.slow_consumers.full_logs -= 1
        (<Hub> self.hub).events.wake_soon()

    cdef int _hand_over(self, Message *message) except -1:
        cdef Py_ssize_t header = message.header_length
        self.turn = 0                  # it reads the clock: the messages after it must not be earlier
        self.stream.on_publish(message.subject[:message.subject_length], message.reply[:message.reply_length],
                               message.payload[:header], message.payload[header:message.size])
        return self._received()

    # -- for the stream ---------------------------------------------------------------------------------------------

    def acknowledge(self, bytes reply not None, uint64_t seq):
        """The usual answer for a stored message, once it is on disk."""
        if reply and not self.no_ack:
            self._add_answer(seq, reply, <uint32_t> len(reply), NULL, 0)
            self.note()

    def answer(self, bytes reply not None, bytes body not None):
        """Send `body` once everything that was appended so far is on disk."""
        if reply and not self.no_ack:
            self._add_answer(0, reply, <uint32_t> len(reply), body, <uint32_t> len(body))
            self.note()

    cdef int _add_answer(self, uint64_t seq, const char *reply, uint32_t reply_length,
                         const char *body, uint32_t body_length) except -1:
        cdef Py_ssize_t before = self.waiting.used
        self.waiting.add(seq, reply, reply_length, body, body_length)
        self.answer_bytes += self.waiting.used - before
        return 0

    def answer_duplicate(self, bytes reply not None, uint64_t seq):
        self.answer(reply, b'%b%d%b,"duplicate": true}' % (self.ack_prefix, seq, self.ack_suffix))

    def remember(self, bytes msg_id not None, uint64_t seq, int64_t time):
        """Call it in the order of time."""
        self.last_msg_id = msg_id
        self.duplicates.remember(msg_id, seq, time)
        self.note()

    # -- at the end of the tick ---------------------------------------------------------------------------------------

    def settle(self):
        cdef Answers group = self.waiting
        self.noted = False
        self.log.commit()
        if group.used:
            self.waiting = Answers.__new__(Answers)
            self.log.when_committed(lambda failure: self._on_group(group, failure))
        else:
            self.log.when_committed(self._on_unanswered)

    def _on_unanswered(self, failure):
        """A group for which nobody waits."""
        if failure is not None:
            self.last_msg_id = self.duplicates.forget_failed()

    def _on_group(self, Answers group, failure):
        cdef Py_ssize_t at = 0
        cdef Answer *head
        self.answer_bytes -= group.used
        if failure is None:
            self._send(group)
            (<Hub> self.hub).flush_soon()
            return
        self.last_msg_id = self.duplicates.forget_failed()
        while at < group.used:
            head = <Answer *> (group.data + at)
            reply = (<char *> (head + 1))[:head.reply_length]
            at += sizeof(Answer) + head.reply_length + head.body_length
            self.stream.on_store_failure(reply, failure)
        (<Hub> self.hub).flush_soon()

    cdef int _send(self, Answers group) except -1:
        """Publish the answers of a group that is on disk."""
        cdef Py_ssize_t at = 0
        cdef Answer *head
        cdef Message message
        cdef char text[512]
        cdef Py_ssize_t prefix = len(self.ack_prefix), suffix = len(self.ack_suffix), length
        if prefix + suffix + 32 > 512:
            return self._send_slowly(group)
        memcpy(text, <const char *> self.ack_prefix, prefix)
        message.reply = NULL
        message.reply_length = 0
        message.header_length = 0
        while at < group.used:
            head = <Answer *> (group.data + at)
            message.subject = <const char *> (head + 1)
            message.subject_length = head.reply_length
            if head.seq:
                length = prefix + write_decimal(text + prefix, head.seq)
                memcpy(text + length, <const char *> self.ack_suffix, suffix)
                length += suffix
                text[length] = c'}'
                message.payload = text
                message.size = length + 1
            else:
                message.payload = message.subject + head.reply_length
                message.size = head.body_length
            self.deliveries.send_once(self.interest, &message)
            at += sizeof(Answer) + head.reply_length + head.body_length
        return 0

    def _send_slowly(self, Answers group):
        """The same for a stream name that is too long for the buffer."""
        cdef Py_ssize_t at = 0
        cdef Answer *head
        while at < group.used:
            head = <Answer *> (group.data + at)
            reply = (<char *> (head + 1))[:head.reply_length]
            body = (<char *> (head + 1) + head.reply_length)[:head.body_length]
            if head.seq:
                body = b'%b%d%b}' % (self.ack_prefix, head.seq, self.ack_suffix)
            (<Hub> self.hub).publish(self.interest, reply, body)
            at += sizeof(Answer) + head.reply_length + head.body_length
        return 0
