"""Bytes in to bytes out: reading, parsing, delivering and flushing, for all connections, in ticks.

A tick. The event loop calls `Hub.poll` when any socket is ready. It asks epoll which (one more system call per tick
buys: no Python per event, and no per-connection object in the event loop), and for each readable link
  1. reads as much as fits into the one shared buffer,
  2. parses it to the end,
  3. hands every message to its receivers' outboxes;
then each outbox that got something is written with one system call (outboxes.pyx, which also has the backpressure).
A publisher that has to wait is not read; what it had already sent waits in its `partial`.

Pace. A poll gives the event loop its turn after POLL_SECONDS, and a link's turn ends after TURN_BYTES of deliveries:
with a wide fan-out one buffer of a publisher makes work for many milliseconds. A poll that finds nothing more to do may
linger for a moment, and one that finds a message at a time may gather before it reads: see pace.pyx.

Unfinished frames. `partial` keeps the beginning of a frame that has not arrived whole. The next read puts it in front
of the new bytes, in the headroom of the shared buffer, unless the frame is too long for that: then it has got a buffer
of its own of the announced (and checked) length, and the socket is read straight into it.

The grammar follows nats-server's parser byte by byte: an error is raised at the first byte that cannot be right, and
arguments are cut as its parser cuts them (a lone CR inside a line that ends in a bare LF costs its last byte).
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from headrace.engine.grammar cimport *
from headrace.engine.interest cimport Group, Interest, Route, Subscription
from headrace.engine.message cimport Message
from headrace.engine.outboxes cimport *
from headrace.engine.pace cimport Pace
from headrace.engine.system cimport *

import os

DEF MAX_EVENTS = 256
cdef Py_ssize_t READ_SIZE = 256 * 1024
cdef Py_ssize_t HEADROOM = 64 * 1024         # a frame up to this length is completed in the shared buffer
cdef long long OWED_LIMIT = 32 * 1024 * 1024   # flush in the middle of a tick past this
cdef long long APART_SHARE = 24 * 1024       # the same for frames that could not be shared, for each receiver
cdef long long TURN_BYTES = 8 * 1024 * 1024    # what one link may have delivered before others get their turn
cdef double POLL_SECONDS = 0.003             # after which the event loop gets its turn


@cython.final
cdef class Hub(Outboxes):
    """All links of a server. Poll it whenever `fileno()` is readable; call `flush` after sending outside of a poll.

    The owner of a link decides. It is called, always from within `poll`, with
      on_connect(json), on_subscribe(subject, queue or None, sid), on_unsubscribe(sid, maximum or -1), on_info(json),
      on_pong(), on_first_ping() (the PONG is already in the outbox), on_early_operation() (before authentication),
      on_violation(kind, detail), on_trace(direction, operation, argument), on_bug(exception),
      on_closed(reason) once the socket is closed.
    """

    def __cinit__(self, *, long long max_payload, long long max_pending, Py_ssize_t max_control_line):
        cdef epoll_event event
        self.expired = []
        self.sources = {}
        self.pace = Pace()
        self.random_state = int.from_bytes(os.urandom(8), 'little') | 1
        self.max_control_line = max_control_line
        event.events = EPOLLIN
        event.data.ptr = NULL
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, self.timer, &event) < 0:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        PyMem_Free(self.buffer)
        PyMem_Free(self.scratch)

    @property
    def max_control_line(self):
        return self.control_line_limit

    @max_control_line.setter
    def max_control_line(self, Py_ssize_t limit):
        # A control line that has not arrived whole has to fit into the headroom, with its operation in front.
        cdef Py_ssize_t headroom = max(HEADROOM, limit + 1024)
        cdef void *grown
        if self.polling:
            raise RuntimeError("the control line limit cannot change during a poll")
        if headroom > self.headroom:
            grown = PyMem_Realloc(self.buffer, headroom + READ_SIZE)
            if grown == NULL:
                raise MemoryError
            self.buffer = <char *> grown
            self.headroom = headroom
        self.control_line_limit = limit

    def fileno(self):
        return self.epoll

    def attach(self, int fd, owner, Interest interest not None):
        """Take over a connected, non-blocking socket. The hub closes it."""
        cdef Link link = Link.__new__(Link)
        cdef epoll_event event
        link.fd = fd
        link.flags = VERBOSE | PEDANTIC | NO_HEADERS     # until CONNECT says otherwise
        link.hub = self
        link.owner = owner
        link.interest = interest
        link.subscriptions = {}
        link.active_at = link.written_at = monotonic()
        event.events = EPOLLIN
        event.data.ptr = <void *> link
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, fd, &event) < 0:
            close(fd)
            raise OSError(errno, os.strerror(errno))
        self.links[fd] = link
        return link

    def add_source(self, int fd, action):
        """Call `action()` in a poll whenever the descriptor is readable. It stays its owner's."""
        cdef Link link = Link.__new__(Link)
        cdef epoll_event event
        link.fd = fd
        link.flags = SOURCE
        link.hub = self
        link.owner = action
        event.events = EPOLLIN
        event.data.ptr = <void *> link
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, fd, &event) < 0:
            raise OSError(errno, os.strerror(errno))
        self.sources[fd] = link

    def remove_source(self, int fd):
        epoll_ctl(self.epoll, EPOLL_CTL_DEL, fd, NULL)
        del self.sources[fd]

    def publish(self, Interest interest not None, bytes subject not None, bytes payload not None,
                bytes reply=b'', bytes headers=b''):
        """A message from within this process, handed to its receivers at once. Returns whether anybody got it.

        Call it at the end of a tick (`defer`) or outside of one, then `flush`; never while a message is delivered.
        """
        cdef Message message
        cdef bytes body = headers + payload
        message.subject = subject
        message.subject_length = <uint32_t> len(subject)
        message.reply = reply
        message.reply_length = <uint32_t> len(reply)
        message.header_length = len(headers)
        message.payload = body
        message.size = len(body)
        return bool(self.send_message(interest, &message))

    # -- ticks --------------------------------------------------------------------------------------------------

    def poll(self):
        """Handle whatever is ready. Returns soon, so that the event loop can serve others."""
        cdef epoll_event events[MAX_EVENTS]
        cdef int count, handled, k
        cdef Link link
        cdef uint64_t expirations
        cdef long long messages
        cdef bint ticked = False
        self.polling = True
        self.now = monotonic()
        self.tick_ends = self.now + POLL_SECONDS
        try:
            while self.now < self.tick_ends:
                self.pace.gather()
                count = epoll_wait(self.epoll, events, MAX_EVENTS, 0)
                if count == 0 and ticked:
                    count = self.pace.linger(self.epoll, events, MAX_EVENTS)
                if count <= 0:
                    break
                ticked = True
                messages = self.in_msgs
                for handled in range(count):
                    if handled and monotonic() > self.tick_ends:
                        break
                    # epoll reports what is still ready in the same order again: start where we stopped.
                    k = <int> (self.turn % count)
                    self.turn += 1
                    if events[k].data.ptr == NULL:
                        read(self.timer, &expirations, sizeof(expirations))
                        continue
                    link = <Link> events[k].data.ptr
                    try:
                        if link.flags & SOURCE:
                            link.owner()
                            continue
                        if events[k].events & EPOLLOUT and not link.flags & CLOSED:
                            self.flush_link(link)
                        if events[k].events & (EPOLLERR | EPOLLHUP) and not link.flags & CLOSED:
                            self._hung_up(link)
                        elif events[k].events & EPOLLIN and not link.flags & CLOSED:
                            self._readable(link)
                    except Exception as error:
                        self.report_bug(link, error)
                self.now = monotonic()
                self.pace.watch(self.now, self.in_msgs - messages, self.in_msgs)
                self._end_tick()
        finally:
            self.polling = False

    def flush(self):
        """Write what was sent outside of a poll, and close what was closed there. Within a poll it does nothing."""
        if not self.polling:
            self.polling = True
            self.now = monotonic()
            self.tick_ends = self.now + POLL_SECONDS
            try:
                self._end_tick()
            finally:
                self.polling = False

    def flush_soon(self):
        """Have the next poll write what was sent outside of one, and call what was deferred there."""
        if not self.polling:
            self.wake_soon()

    def tidy(self, double deadline):
        """Close the links whose socket has taken too little for `deadline` seconds; free buffers not in use."""
        cdef Link link
        cdef double now = monotonic()
        for link in self.links.values():
            if link.flags & WANTS_WRITE and now - link.written_at > deadline:
                self.close_link(link, 'Slow Consumer (Write Deadline)')
        self.trim_pool()
        self.flush()

    def close(self):
        """Close every link and the hub's own descriptors."""
        cdef Link link
        for link in self.links.values():
            self.close_link(link, 'Server Shutdown')
        self.flush()
        close(self.timer)
        close(self.epoll)
        self.timer = self.epoll = -1

    cdef int _end_tick(self) except -1:
        self._run_deferred()
        self.flush_all()
        self.ease()
        while self.closing or self.deferred:
            self._reap()
            self._run_deferred()
            self.flush_all()
            if self.deferred and monotonic() > self.tick_ends:
                return self.wake_soon()
        if self.woken_early:
            self.woken_early = False
            if self.paused or self.stalled:
                self.arm_timer()
        return 0

    cdef int _run_deferred(self) except -1:
        cdef list actions = self.deferred
        if actions:
            self.deferred = []
            for action in actions:
                try:
                    action()
                except Exception as error:
                    if self.on_bug is None:
                        raise
                    self.on_bug(error)
        return 0

    # -- reading ------------------------------------------------------------------------------------------------

    cdef int _readable(self, Link link) except -1:
        if link.in_msgs and self.fair_total > BUDGET:
            self.stalls += 1
            return self.pause(link)
        return self._read(link)

    cdef int _hung_up(self, Link link) except -1:
        """The peer is gone, which is reported even for a link that is paused: hear what it had still to say."""
        if link.flags & PAUSED:
            self.resume(link)
        if link.flags & (CLOSED | PAUSED):
            return 0
        return self._read(link)

    cdef int _read(self, Link link) except -1:
        cdef char *start
        cdef Py_ssize_t count
        if link.frame_total:
            return self._read_long_frame(link)
        count = read(link.fd, self.buffer + self.headroom, READ_SIZE)
        if count <= 0:
            return self._nothing_read(link, count)
        link.active_at = self.now
        start = self.buffer + self.headroom
        if link.partial_length:
            start -= link.partial_length
            memcpy(start, link.partial, link.partial_length)
            PyMem_Free(link.partial)
            link.partial = NULL
            link.partial_length = 0
        return self._feed(link, start, self.buffer + self.headroom + count)

    cdef int _read_long_frame(self, Link link) except -1:
        """Read the rest of a long frame to where it belongs, and what follows it into the shared buffer."""
        cdef iovec parts[2]
        cdef Py_ssize_t count, missing = link.frame_total - link.partial_length
        cdef char *frame
        assert missing > 0
        parts[0].iov_base = link.partial + link.partial_length
        parts[0].iov_len = missing
        parts[1].iov_base = self.buffer + self.headroom
        parts[1].iov_len = READ_SIZE
        count = readv(link.fd, parts, 2)
        if count <= 0:
            return self._nothing_read(link, count)
        link.active_at = self.now
        if count < missing:
            link.partial_length += count
            return 0
        frame = link.partial
        link.partial = NULL
        link.partial_length = 0
        count -= missing
        missing = link.frame_total
        link.frame_total = 0
        try:
            self._feed(link, frame, frame + missing)
        finally:
            PyMem_Free(frame)
        if count:
            assert link.partial_length == 0 or link.flags & CLOSED
            self._feed(link, self.buffer + self.headroom, self.buffer + self.headroom + count)
        return 0

    cdef int _nothing_read(self, Link link, Py_ssize_t count) except -1:
        if count < 0 and (errno == EAGAIN or errno == EINTR):
            return 0
        return self.close_link(link, 'Client Closed' if count == 0 else 'Read Error')

    cdef int _feed(self, Link link, char *start, char *end) except -1:
        """Parse what has arrived and keep what is not complete."""
        self.turn_ends = self.out_bytes + TURN_BYTES
        start = self._parse(link, start, end)
        if start < end and not link.flags & CLOSED:
            self._keep(link, start, end)
        return 0

    cdef int _keep(self, Link link, const char *start, const char *end) except -1:
        cdef Py_ssize_t length = end - start
        cdef Py_ssize_t room = length if length > link.frame_total else link.frame_total
        assert link.partial == NULL
        link.partial = <char *> PyMem_Malloc(room)
        if link.partial == NULL:
            raise MemoryError
        memcpy(link.partial, start, length)
        link.partial_length = length
        return 0

    # -- parsing ------------------------------------------------------------------------------------------------

    cdef char *_parse(self, Link link, char *at, char *end) except NULL:
        """Carry out the complete operations. Returns where the first incomplete one starts."""
        cdef char *after
        while at < end and not link.flags & (CLOSED | PAUSED):
            if link.skipping:
                after = <char *> memchr(at, c'\n', end - at)
                if after == NULL:
                    return end
                at = after + 1
                self._short(link, link.skipping)
                continue
            after = self._operation(link, at, end)
            if after == at:
                break
            at = after
        return at

    cdef char *_operation(self, Link link, char *at, char *end) except NULL:
        """Carry out the operation at `at` and return where it ends; `at` itself if it is not complete."""
        cdef int operation
        cdef char *argument
        cdef char *argument_end
        cdef char *newline
        if link.flags & AWAITING_AUTH and at[0] != c'C' and at[0] != c'c':
            link.owner.on_early_operation()
            if link.flags & (CLOSED | AWAITING_AUTH):
                return end
        if end - at > 4 and memcmp(at, b'PUB ', 4) == 0:
            operation = PUB
            argument = at + 4
        else:
            operation = recognise(at, end)
            if operation == UNFINISHED:
                return at
            if operation == UNKNOWN:
                self._violation(link, 'parse', at[:min(end - at, 32)])
                return end
            argument = at + NAME_LENGTHS[operation]
            if operation == PING or operation == PONG or operation == OK:
                link.skipping = operation
                return argument
            if argument == end:
                return at
            if not is_space(argument[0]) and operation != CONNECT and operation != INFO:
                self._violation(link, 'parse', at[:min(end - at, 32)])
                return end
        while argument < end and is_space(argument[0]):
            argument += 1
        if argument - at > NAME_LENGTHS[operation] + 1:
            # One space is enough: an unfinished line must not grow past its limit by leading spaces.
            return shorten_spaces(at, argument, NAME_LENGTHS[operation])
        if argument == end:
            return at
        # The first byte of the argument is never taken for the end of the line: so nats-server reads it.
        newline = <char *> memchr(argument + 1, c'\n', end - argument - 1)
        if newline == NULL:
            if end - argument > self.control_line_limit + 1:
                self._violation(link, 'control_line', NAMES[operation])
                return end
            return at
        argument_end = newline
        if newline - 1 > argument and (newline - 1)[0] == c'\r':
            argument_end -= 1
        elif memchr(argument + 1, c'\r', newline - argument - 1) != NULL:
            argument_end -= 1
        if argument_end - argument > self.control_line_limit:
            self._violation(link, 'control_line', NAMES[operation])
            return end
        if operation == PUB or operation == HPUB or operation == HMSG:
            return self._publish_frame(link, operation, at, argument, argument_end, newline + 1, end)
        self._line(link, operation, argument, argument_end)
        return newline + 1

    cdef int _short(self, Link link, int operation) except -1:
        """PING, PONG and +OK: whatever stood between the name and the end of the line means nothing."""
        link.skipping = 0
        if link.flags & TRACED:
            link.owner.on_trace('in', NAMES[operation], b'')
        if operation == PING:
            self.give(link, b'PONG\r\n', 6, NULL, 0)
            if link.flags & CONNECTED and not link.flags & PONGED:
                link.flags |= PONGED
                link.owner.on_first_ping()
        elif operation == PONG:
            link.owner.on_pong()
        return 0

    cdef int _line(self, Link link, int operation, char *argument, char *argument_end) except -1:
        """The operations that are one line; the owner decides them."""
        cdef bytes line = argument[:argument_end - argument]
        cdef list tokens
        if link.flags & TRACED:
            link.owner.on_trace('in', NAMES[operation], line)
        if operation == CONNECT:
            link.owner.on_connect(line)
        elif operation == SUB:
            tokens = cut(line)
            if len(tokens) == 2:
                link.owner.on_subscribe(tokens[0], None, tokens[1])
            elif len(tokens) == 3:
                link.owner.on_subscribe(tokens[0], tokens[1], tokens[2])
            else:
                self._violation(link, 'arguments', b'SUB ' + line)
        elif operation == UNSUB:
            tokens = cut(line)
            if len(tokens) == 1:
                link.owner.on_unsubscribe(tokens[0], -1)
            elif len(tokens) == 2:
                link.owner.on_unsubscribe(tokens[0], parse_size(tokens[1], len(tokens[1])))
            else:
                self._violation(link, 'arguments', b'UNSUB ' + line)
        elif operation == INFO:
            link.owner.on_info(line)
        else:
            self._violation(link, 'peer_error', line)
        return 0

    # -- publishing ---------------------------------------------------------------------------------------------

    cdef char *_publish_frame(self, Link link, int operation, char *at, char *argument, char *argument_end,
                              char *payload, char *end) except NULL:
        """PUB <subject> [reply] <size>, HPUB <subject> [reply] <header size> <size>, and the payload behind them."""
        cdef Token tokens[4]
        cdef int k, count = 0, sizes = 2 if operation == HPUB else 1
        cdef Py_ssize_t size, header = 0, length, usual
        cdef Token subject, reply, none
        cdef Message message
        cdef char *rest
        cdef char *frame_end
        none.start = NULL
        none.length = 0
        if operation == HPUB and link.flags & NO_HEADERS:
            self._violation(link, 'headers', argument[:argument_end - argument])
            return end
        if operation == HMSG:
            # No client has a reason to send it. nats-server takes it for an empty message to no subject.
            subject.start = reply.start = argument
            subject.length = reply.length = size = 0
            rest = argument
        else:
            count = split(argument, argument_end, tokens, 4)
            if not sizes + 1 <= count <= sizes + 2:
                self._violation(link, 'arguments', argument[:argument_end - argument])
                return end
            subject = tokens[0]
            reply = tokens[1]
            if count == sizes + 1:
                reply.length = 0
            size = parse_size(tokens[count - 1].start, tokens[count - 1].length)
            if operation == HPUB:
                header = parse_size(tokens[count - 2].start, tokens[count - 2].length)
            if size < 0 or header < 0 or header > size:
                self._violation(link, 'arguments', argument[:argument_end - argument])
                return end
            if size > self.max_payload:
                self._violation(link, 'payload', b'%d vs %d' % (size, self.max_payload))
                return end
            rest = tokens[1].start
        if end - payload > size and payload[size] != c'\r' or end - payload > size + 1 and payload[size + 1] != c'\n':
            self._violation(link, 'parse', at[:min(end - at, 32)])
            return end
        frame_end = payload + size + 2
        if frame_end > end:
            if frame_end - at > self.headroom:
                link.frame_total = frame_end - at
            return at
        if link.flags & (TRACED | PEDANTIC):
            if link.flags & TRACED:
                link.owner.on_trace('in', NAMES[operation], argument[:argument_end - argument])
                link.owner.on_trace('in', b'MSG_PAYLOAD', payload[:size])
            if link.flags & PEDANTIC and operation != HMSG \
                    and not is_literal_subject(subject.start, subject.length):
                self._violation(link, 'publish_subject', subject.start[:subject.length])
        # What follows the subject is copied into every MSG as it stands, if it stands as we would write it.
        length = frame_end - rest
        if operation != HMSG:
            usual = 2
            for k in range(1, count):
                usual += tokens[k].length + (k > 1)
                if k > 1 and (tokens[k].start - 1)[0] != c' ':
                    usual = -1
            if payload - rest != usual or (payload - 2)[0] != c'\r' or (operation == HPUB and header == 0):
                length = self._usual_form(reply, tokens[count - 2] if header else none,
                                          tokens[count - 1], payload, size)
                rest = self.scratch
        message.subject = subject.start
        message.subject_length = <uint32_t> subject.length
        message.reply = reply.start
        message.reply_length = <uint32_t> reply.length
        message.header_length = header
        message.size = size
        message.rest = rest
        message.rest_length = length
        message.payload = payload
        self._publish(link, &message)
        return frame_end

    cdef Py_ssize_t _usual_form(self, Token reply, Token header, Token size,
                                const char *payload, Py_ssize_t payload_length) except -1:
        """Write `[reply ][header size ]<size>\\r\\n<payload>\\r\\n` into the scratch buffer, without the CR LF of `payload`."""
        cdef Py_ssize_t needed = reply.length + header.length + size.length + 6 + payload_length
        cdef void *grown
        cdef char *at
        if needed > self.scratch_capacity:
            grown = PyMem_Realloc(self.scratch, needed)
            if grown == NULL:
                raise MemoryError
            self.scratch = <char *> grown
            self.scratch_capacity = needed
        at = self.scratch
        if reply.length:
            memcpy(at, reply.start, reply.length)
            at[reply.length] = c' '
            at += reply.length + 1
        if header.length:
            memcpy(at, header.start, header.length)
            at[header.length] = c' '
            at += header.length + 1
        memcpy(at, size.start, size.length)
        at += size.length
        at[0] = c'\r'
        at[1] = c'\n'
        memcpy(at + 2, payload, payload_length)
        at += 2 + payload_length
        at[0] = c'\r'
        at[1] = c'\n'
        return at + 2 - self.scratch

    cdef int _publish(self, Link link, Message *message) except -1:
        cdef Route *route
        cdef char first
        link.in_msgs += 1
        link.in_bytes += message.size
        self.in_msgs += 1
        self.in_bytes += message.size
        first = message.subject[0] if message.subject_length else 0
        if first == c'_' and starts_with(message.subject, message.subject_length, b'_GR_.', 5) \
                or first == c'$' and starts_with(message.subject, message.subject_length, b'$NRG.', 5):
            return self._violation(link, 'reserved_subject', message.subject[:message.subject_length])
        if message.reply_length and is_reserved_reply(message.reply, message.reply_length):
            return self._violation(link, 'reserved_reply', message.reply[:message.reply_length])
        if link.flags & VERBOSE:
            self.give(link, b'+OK\r\n', 5, NULL, 0)
        route = link.interest.lookup(message.subject, message.subject_length)
        if route.target_count + route.queue_count == 0 or not self._deliver(link, route, message):
            if message.reply_length and link.flags & NO_RESPONDERS:
                self._answer_no_responders(link, message)
            return 0
        if self.expired:
            self._end_expired()
        if self.owed > OWED_LIMIT or self.owed_apart > APART_SHARE * self.dirty_count:
            self.flush_all()
            if self.fair_total > BUDGET:
                self.overran = True
        if self.met_critical:
            self.met_critical = False
            self.stall(link, message.size)
        if self.overran:
            self.overran = False
            self.stalls += 1
            self.pause(link)
        elif self.out_bytes > self.turn_ends:
            self.pause(link)
        return 0

    cdef int send_message(self, Interest interest, Message *message) except -1:
        """Deliver a message that has no frame yet. Returns whether anybody got it."""
        cdef Route *route = interest.lookup(message.subject, message.subject_length)
        cdef Token reply, header, size
        cdef char header_digits[24]
        cdef char size_digits[24]
        cdef bint delivered
        if route.target_count + route.queue_count == 0:
            return 0
        reply.start = <char *> message.reply
        reply.length = message.reply_length
        header.start = header_digits
        header.length = write_decimal(header_digits, message.header_length) if message.header_length else 0
        size.start = size_digits
        size.length = write_decimal(size_digits, message.size)
        message.rest_length = self._usual_form(reply, header, size, message.payload, message.size)
        message.rest = self.scratch
        message.payload = self.scratch + message.rest_length - 2 - message.size
        delivered = self._deliver(None, route, message)
        if self.expired:
            self._end_expired()
        if self.owed > OWED_LIMIT or self.owed_apart > APART_SHARE * self.dirty_count:
            self.flush_all()
        self.met_critical = self.overran = False
        return delivered

    cdef int send_to(self, Interest interest, const char *destination, uint32_t destination_length,
                     Message *message) except -1:
        """Deliver a stored message, under the subject that it was published to, to the subscribers of `destination`.

        Returns how many got it; `fullest` is the one of them whose outbox is the fullest.
        """
        cdef Route *route = interest.lookup(destination, destination_length)
        cdef uint32_t k, g, count, start, queue
        cdef int receivers = 0
        self.fullest = None
        self.fullest_bytes = -1
        for k in range(route.target_count):
            receivers += self._give_stored(<Subscription> route.targets[k], message)
        g = route.plain_group_count
        for queue in range(route.queue_count):
            count = route.queue_ends[queue] - g
            start = self._random(count)
            for k in range(count):
                if self._give_stored(<Subscription> route.targets[route.groups[g + (start + k) % count].first], message):
                    receivers += 1
                    break
            g = route.queue_ends[queue]
        if self.expired:
            self._end_expired()
        return receivers

    cdef int _give_stored(self, Subscription subscription, Message *message) except -1:
        """Write the frame straight into the receiver's outbox. Returns 1 if it takes it, else 0."""
        cdef Link receiver = <Link> subscription.receiver
        cdef Py_ssize_t header = message.header_length, size = message.size, before
        cdef const char *body = message.payload
        cdef char *at
        if receiver.flags & CLOSED:
            return 0
        if receiver.flags & SINK:
            receiver.take(None, subscription, message)
            return 1
        subscription.delivered += 1
        if subscription.maximum and subscription.delivered >= subscription.maximum:
            if subscription.delivered > subscription.maximum:
                return 0
            self.expired.append(subscription)
        if receiver.flags & NO_HEADERS and header:
            body += header
            size -= header
            header = 0
        if receiver.span_length:
            self.settle_span(receiver)
        before = receiver.backlog_tail - receiver.backlog_head
        # five for HMSG, four spaces, two numbers of at most 20 digits, two line ends
        self.reserve(receiver, 53 + message.subject_length + len(subscription.sid) + message.reply_length + size)
        at = receiver.backlog + receiver.backlog_tail
        if header:
            at[0] = c'H'
            at += 1
        at = put(put(at, b'MSG ', 4), message.subject, message.subject_length)
        at[0] = c' '
        at = put(at + 1, subscription.sid, len(subscription.sid))
        at[0] = c' '
        at += 1
        if message.reply_length:
            at = put(at, message.reply, message.reply_length)
            at[0] = c' '
            at += 1
        if header:
            at += write_decimal(at, header)
            at[0] = c' '
            at += 1
        at += write_decimal(at, size)
        at = put(put(put(at, b'\r\n', 2), body, size), b'\r\n', 2)
        if receiver.flags & TRACED:
            receiver.owner.on_trace('out', b'MSG', message.subject[:message.subject_length])
        self.owed_apart += at - (receiver.backlog + receiver.backlog_tail)
        receiver.backlog_tail = at - receiver.backlog
        receiver.out_msgs += 1
        receiver.out_bytes += size
        self.out_msgs += 1
        self.out_bytes += size
        if not receiver.flags & DIRTY:
            self.mark_dirty(receiver)
        if receiver.flags & WANTS_WRITE:
            self.weigh(receiver, before)
        if receiver.backlog_tail - receiver.backlog_head > self.fullest_bytes:
            self.fullest_bytes = receiver.backlog_tail - receiver.backlog_head
            self.fullest = receiver
        return 1

    cdef bint _deliver(self, Link publisher, Route *route, Message *message) except -1:
        """Hand a message to everybody on its route. Returns whether anybody got it."""
        cdef uint32_t g, k, count, start, queue
        cdef bint delivered = False
        for g in range(route.plain_group_count):
            if self._deliver_group(publisher, route, &route.groups[g], message):
                delivered = True
        g = route.plain_group_count
        for queue in range(route.queue_count):
            # One member of each queue group, from a random one on; the next if that one does not take it.
            count = route.queue_ends[queue] - g
            start = self._random(count)
            for k in range(count):
                if self._deliver_group(publisher, route, &route.groups[g + (start + k) % count], message):
                    delivered = True
                    break
            g = route.queue_ends[queue]
        return delivered

    cdef bint _deliver_group(self, Link publisher, Route *route, Group *group, Message *message) except -1:
        """Write the frame once and give it to every member of the group."""
        cdef const char *prefix = route.text + group.prefix
        cdef Py_ssize_t prefix_length = group.prefix_length
        cdef Py_ssize_t length, start = -1
        cdef uint32_t k
        cdef Link receiver
        cdef Subscription subscription
        cdef bint delivered = False
        # A group of one among many would only be copied from the arena to its backlog: write it there at once.
        cdef bint shared = group.count > 1 or route.group_count == 1
        if message.header_length == 0:
            prefix += 1
            prefix_length -= 1
        length = prefix_length + message.rest_length
        if length > ARENA_SIZE // 2:
            shared = False
        for k in range(group.first, group.first + group.count):
            subscription = <Subscription> route.targets[k]
            receiver = <Link> subscription.receiver
            if receiver.flags & (CLOSED | NO_ECHO | CONGESTED | CRITICAL | SINK):
                if receiver.flags & SINK:
                    receiver.take(publisher, subscription, message)
                    delivered = True
                    continue
                if receiver.flags & CLOSED or (receiver.flags & NO_ECHO and receiver is publisher):
                    continue
                if self.drops and receiver.flags & CRITICAL:
                    continue
                if receiver.flags & CONGESTED:
                    self.overran = True
                if receiver.flags & CRITICAL:
                    self.met_critical = True
            subscription.delivered += 1
            if subscription.maximum and subscription.delivered >= subscription.maximum:
                if subscription.delivered > subscription.maximum:
                    continue
                self.expired.append(subscription)
            delivered = True
            receiver.out_msgs += 1
            self.out_msgs += 1
            if receiver.flags & TRACED:
                self._trace_delivery(receiver, prefix, prefix_length, message)
            if receiver.flags & NO_HEADERS and message.header_length:
                self._give_without_headers(receiver, prefix + 1, prefix_length - 1, message)
                continue
            receiver.out_bytes += message.size
            self.out_bytes += message.size
            if shared:
                if start < 0:
                    start = self.arena_frame(prefix, prefix_length, message.rest, message.rest_length)
                give_span(self, receiver, start, length)
            else:
                self.give(receiver, prefix, prefix_length, message.rest, message.rest_length)
        return delivered

    cdef int _give_without_headers(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                                   Message *message) except -1:
        """For a peer that cannot read headers: the same message with its headers cut off."""
        cdef Py_ssize_t size = message.size - message.header_length
        cdef bytes line = prefix[:prefix_length]
        if message.reply_length:
            line += message.reply[:message.reply_length] + b' '
        line += b'%d\r\n' % size
        receiver.out_bytes += size
        self.out_bytes += size
        return self.give(receiver, line, len(line), message.payload + message.header_length, size + 2)

    cdef int _trace_delivery(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                             Message *message) except -1:
        cdef const char *line_end = <const char *> memchr(message.rest, c'\r', message.rest_length)
        line = prefix[:prefix_length] + message.rest[:line_end - message.rest]
        try:
            receiver.owner.on_trace('out', b'', line)
            receiver.owner.on_trace('out', b'MSG_PAYLOAD', message.payload[:message.size])
        except Exception as error:
            self.report_bug(receiver, error)
        return 0

    cdef int _answer_no_responders(self, Link link, Message *message) except -1:
        """Tell the publisher of a request at once that nobody listens: status 503 on its own reply subject."""
        cdef Route *route = link.interest.lookup(message.reply, message.reply_length)
        cdef Subscription subscription
        cdef bytes subject, headers, line
        cdef uint32_t k
        for k in range(route.target_count):
            subscription = <Subscription> route.targets[k]
            if subscription.receiver == <void *> link:
                subject = message.subject[:message.subject_length]
                headers = b'NATS/1.0 503\r\nNats-Subject: ' + subject + b'\r\n\r\n'
                line = b'HMSG %b %b %d %d\r\n%b\r\n' % (message.reply[:message.reply_length], subscription.sid,
                                                      len(headers), len(headers), headers)
                return self.give(link, line, len(line), NULL, 0)
        return 0

    cdef uint32_t _random(self, uint32_t below) noexcept:
        """A number in [0, below), by xorshift; fairness is all that is asked of it."""
        self.random_state ^= self.random_state << 13
        self.random_state ^= self.random_state >> 7
        self.random_state ^= self.random_state << 17
        return <uint32_t> ((self.random_state >> 32) % below)

    cdef int _end_expired(self) except -1:
        cdef Subscription subscription
        cdef Link receiver
        for subscription in self.expired:
            if subscription.node == NULL:
                continue         # its link has been closed since, and may be gone
            receiver = <Link> subscription.receiver
            receiver.interest.remove(subscription)
            receiver.subscriptions.pop(subscription.sid, None)
        self.expired.clear()
        return 0

    cdef int resume(self, Link link) except -1:
        """Parse what a publisher had already sent when it was paused, and read it again."""
        cdef char *unparsed = link.partial
        cdef Py_ssize_t length = link.partial_length
        link.flags &= ~(<uint32_t> PAUSED)
        self.listen(link)
        if length and not link.frame_total:
            link.partial = NULL
            link.partial_length = 0
            try:
                self._feed(link, unparsed, unparsed + length)
            finally:
                PyMem_Free(unparsed)
        return 0

    # -- the end of a link --------------------------------------------------------------------------------------

    cdef int _violation(self, Link link, object kind, bytes detail) except -1:
        link.owner.on_violation(kind, detail)
        return 0

    cdef int _reap(self) except -1:
        """Really close what was closed in this tick: nothing is walking its subscriptions any more."""
        cdef Link link
        cdef list closing = self.closing
        self.closing = []
        for link in closing:
            if link.flags & DIRTY:
                self.flush_all()
            self.ignore(link)
            link.flags &= ~(<uint32_t> (WANTS_WRITE | PAUSED))
            link.unsubscribe_all()
            epoll_ctl(self.epoll, EPOLL_CTL_DEL, link.fd, NULL)
            close(link.fd)
            del self.links[link.fd]
            link.fd = -1
            self.release(link)
            PyMem_Free(link.partial)
            link.partial = NULL
            link.partial_length = link.frame_total = 0
            if link.waiters is not None:
                self.deferred.extend(link.waiters)
                link.waiters = None
            try:
                link.owner.on_closed(link.close_reason)
            except Exception as error:
                tell_owner(link.owner, error)
        return 0


cdef inline char *put(char *at, const char *text, Py_ssize_t length) noexcept:
    memcpy(at, text, length)
    return at + length


cdef list cut(bytes line):
    """The tokens of a SUB or UNSUB line; a CR or LF that got into it separates too."""
    line = line.replace(b'\r', b' ').replace(b'\n', b' ').replace(b'\t', b' ')
    return [token for token in line.split(b' ') if token]
