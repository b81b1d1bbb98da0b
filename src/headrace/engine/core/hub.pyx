"""Bytes in to bytes out: reading, parsing, delivering and flushing, for all connections, in ticks.

A tick. The event loop calls `Hub.poll` when any socket is ready. It asks epoll which (one more system call per tick
buys: no Python per event, and no per-connection object in the event loop), and for each readable link
  1. reads as much as fits into the one shared buffer,
  2. parses it to the end,
  3. hands every message to its receivers' outboxes;
then each outbox that got something is written with one system call (outboxes.pyx, which also has the backpressure).
A publisher that has to wait is not read; what it had already sent waits in its `partial`.

Pace. A poll gives the event loop its turn after POLL_SECONDS, and a link's turn ends after TURN_BYTES of deliveries:
with a wide fan-out one buffer of a publisher makes work for many milliseconds, and so does one that is full of SUB:
there the turn ends with the time of the poll. A poll that finds nothing more to do may
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

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.grammar cimport (CONNECT, HMSG, HPUB, INFO, NAME_LENGTHS, NAMES, OK, PING, PONG, PUB, SUB,
                                           UNFINISHED, UNKNOWN, UNSUB, Token, is_literal_subject, is_reserved_reply,
                                           is_space, parse_size, recognise, shorten_spaces, split, starts_with)
from headrace.engine.core.interest cimport Group, Interest, Route, Subscription
from headrace.engine.core.message cimport Message
from headrace.engine.core.outboxes cimport (AWAITING_AUTH, BUDGET, CLOSED, CONNECTED, DIRTY, NO_HEADERS,
                                            NO_RESPONDERS, PAUSED, PEDANTIC, PONGED, SOURCE, TRACED, VERBOSE,
                                            WANTS_WRITE, Link, tell_owner)
from headrace.engine.core.pace cimport Pace
from headrace.engine.core.system cimport (EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, close,
                                          epoll_ctl, epoll_event, epoll_wait, iovec, monotonic, read, readv)
from headrace.engine.core.wide_map cimport WideMap

import os

DEF MAX_EVENTS = 256
cdef Py_ssize_t READ_SIZE = 256 * 1024
cdef Py_ssize_t HEADROOM = 64 * 1024         # a frame up to this length is completed in the shared buffer
cdef long long TURN_BYTES = 8 * 1024 * 1024    # what one link may have delivered before others get their turn
cdef double POLL_SECONDS = 0.003             # after which the event loop gets its turn
cdef uint64_t LINES_AT_A_TIME = 64           # SUB and the like, between two looks at the clock


@cython.final
cdef class Hub(Deliveries):
    """All links of a server. Poll it whenever `fileno()` is readable; call `flush` after sending outside of a poll.

    The owner of a link decides. It is called, always from within `poll`, with
      on_connect(json), on_subscribe(subject, queue or None, sid), on_unsubscribe(sid, maximum or -1), on_info(json),
      on_pong(), on_first_ping() (the PONG is already in the outbox), on_early_operation() (before authentication),
      on_violation(kind, detail), on_trace(direction, operation, argument), on_bug(exception),
      on_closed(reason) once the socket is closed.
    """

    def __cinit__(self, *, long long max_payload, long long max_pending, Py_ssize_t max_control_line):
        cdef epoll_event event
        self.sources = {}
        self.pace = Pace()
        self.max_control_line = max_control_line
        event.events = EPOLLIN
        event.data.ptr = NULL
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, self.timer, &event) < 0:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        PyMem_Free(self.buffer)

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
        link.subscriptions = WideMap()
        link.active_at = link.written_at = monotonic()
        self.links[fd] = link          # first: epoll has only a pointer to it
        event.events = EPOLLIN
        event.data.ptr = <void *> link
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, fd, &event) < 0:
            error = OSError(errno, os.strerror(errno))
            del self.links[fd]
            close(fd)
            raise error
        return link

    def add_source(self, int fd, action):
        """Call `action()` in a poll whenever the descriptor is readable. It stays its owner's."""
        cdef Link link = Link.__new__(Link)
        cdef epoll_event event
        link.fd = fd
        link.flags = SOURCE
        link.hub = self
        link.owner = action
        self.sources[fd] = link        # first: epoll has only a pointer to it
        event.events = EPOLLIN
        event.data.ptr = <void *> link
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, fd, &event) < 0:
            error = OSError(errno, os.strerror(errno))
            del self.sources[fd]
            raise error

    def remove_source(self, int fd):
        epoll_ctl(self.epoll, EPOLL_CTL_DEL, fd, NULL)
        del self.sources[fd]

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
                        if link.flags & SOURCE:
                            self._report(error)
                        else:
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
        while self.first_closing != NULL or self.deferred:
            self._reap()
            self._run_deferred()
            self.flush_all()
            if self.deferred and monotonic() > self.tick_ends:
                return self.wake_soon()
        if self.woken_early:
            self.woken_early = False
            if self.paused or self.stalled or self.ended_turns:
                self.arm_timer()
        return 0

    cdef int _run_deferred(self) except -1:
        cdef list actions = self.deferred
        cdef Py_ssize_t place = 0
        if actions:
            self.deferred = []
            try:
                while place < len(actions):
                    action = actions[place]
                    place += 1
                    try:
                        action()
                    except Exception as error:
                        self._report(error)
            finally:
                if place < len(actions):         # the report has failed: the others are not forgotten for that
                    self.deferred[:0] = actions[place:]
        return 0

    cdef int _report(self, object error) except -1:
        """A bug that is no connection's: there is none to close, and a source is needed as much as before."""
        if self.on_bug is None:
            raise error
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
        self.lines += 1
        if self.lines % LINES_AT_A_TIME == 0 and monotonic() > self.tick_ends:
            self.end_turn(link)
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
        if self.owes_much():
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
        while self.first_closing != NULL:
            link = <Link> self.first_closing
            if link.flags & DIRTY:
                self.flush_all()
            try:
                link.unsubscribe_some()
            except MemoryError:
                self.wake_soon()         # it stays in the chain, for a tick that has more luck
                raise
            self.first_closing = link.next_closing
            self.ignore(link)
            link.flags &= ~(<uint32_t> (WANTS_WRITE | PAUSED))
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


cdef list cut(bytes line):
    """The tokens of a SUB or UNSUB line; a CR or LF that got into it separates too."""
    line = line.replace(b'\r', b' ').replace(b'\n', b' ').replace(b'\t', b' ')
    return [token for token in line.split(b' ') if token]
