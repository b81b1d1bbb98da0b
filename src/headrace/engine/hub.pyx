"""Bytes in to bytes out: reading, parsing, delivering and flushing, for all connections, in ticks.

A tick. The event loop calls `Hub.poll` when any socket is ready. It asks epoll which (one more system call per tick
buys: no Python per event, and no per-connection object in the event loop), and for each readable link
  1. reads as much as fits into the one shared buffer,
  2. parses it to the end,
  3. hands every message to its receivers' outboxes;
then each outbox that got something is written with one system call.

The arena. A frame is written once into the arena, however many receivers get it in the same form (see Group in
interest.pyx), and a receiver notes only which span of the arena is for it. Consecutive frames make one longer span.
An outbox is therefore

    backlog  | bytes the socket did not take so far, owned by the link
    span     | at most one range of the arena, of this tick

and whatever breaks the run (another sid, an answer such as PONG, the end of the tick with a full socket) first
settles the span into the backlog. After a flush no span refers to the arena, so it is simply started again, and a
backlog that was written out is freed. That is why an idle connection holds no buffer at all.

Backpressure. A receiver may have max_pending bytes waiting; past that it is closed, as in nats-server. Long before,
publishers wait, so that memory does not grow:
  - for a receiver with more than SOFT_BACKLOG waiting, at most STALL_SECONDS; one that could not drain in that time
    is `slow` and nobody waits for it again until it did, except above three quarters of max_pending;
  - when all receivers together (each counted to FAIR_SHARE, so that one stuck receiver cannot claim it all) have
    more than BUDGET waiting, for as long as that sum keeps falling.
A waiting publisher is not read; what it had already sent waits in `partial`.

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
from libc.stdio cimport snprintf
from libc.string cimport memchr, memcmp, memcpy, memmove, memset

from headrace.engine.interest cimport Group, Interest, Route, Subscription

import os
import time

cdef extern from "sys/epoll.h" nogil:
    enum: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLL_CLOEXEC
    ctypedef union epoll_data_t:
        void *ptr
    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event *event)
    int epoll_wait(int epfd, epoll_event *events, int maxevents, int timeout)

cdef extern from "sys/timerfd.h" nogil:
    enum: TFD_NONBLOCK, TFD_CLOEXEC
    cdef struct timespec:
        long tv_sec
        long tv_nsec
    cdef struct itimerspec:
        timespec it_interval
        timespec it_value
    int timerfd_create(int clockid, int flags)
    int timerfd_settime(int fd, int flags, const itimerspec *new_value, itimerspec *old_value)

cdef extern from "time.h" nogil:
    enum: CLOCK_MONOTONIC
    int clock_gettime(int clockid, timespec *tp)

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    Py_ssize_t readv(int fd, const iovec *iov, int iovcnt)
    Py_ssize_t writev(int fd, const iovec *iov, int iovcnt)

cdef extern from "unistd.h" nogil:
    Py_ssize_t read(int fd, void *buf, size_t count)
    int close(int fd)

DEF MAX_EVENTS = 256
cdef Py_ssize_t READ_SIZE = 256 * 1024
cdef Py_ssize_t HEADROOM = 64 * 1024         # a frame up to this length is completed in the shared buffer
cdef Py_ssize_t ARENA_SIZE = 1024 * 1024
cdef Py_ssize_t SOFT_BACKLOG = 1024 * 1024
cdef Py_ssize_t FAIR_SHARE = 256 * 1024
cdef long long BUDGET = 32 * 1024 * 1024
cdef long long OWED_LIMIT = 32 * 1024 * 1024   # flush in the middle of a tick past this
cdef double STALL_SECONDS = 0.010            # nats-server's limit for one read of a producer
cdef int ROUNDS = 8                          # ticks before the event loop gets its turn
cdef Py_ssize_t SKIMP = 512                  # a backlog starts with room for a few answers

cdef enum:
    CLOSED = 1
    NO_ECHO = 2
    NO_HEADERS = 4
    VERBOSE = 8
    PEDANTIC = 16
    NO_RESPONDERS = 32
    AWAITING_AUTH = 64
    PONGED = 128                 # the first PING after CONNECT has been answered
    DIRTY = 256                  # stands in the hub's list of links to flush
    WANTS_WRITE = 512            # its socket was full: epoll tells when it is not
    PAUSED = 1024
    SLOW = 2048                  # publishers have waited for it in vain
    CONGESTED = 4096             # counted in Hub.congested
    TRACED = 8192
    CONNECTED = 16384            # CONNECT has been received

cdef enum Operation:
    PUB, HPUB, SUB, UNSUB, CONNECT, PING, PONG, OK, ERR, INFO, HMSG, UNFINISHED, UNKNOWN

cdef const char *NAMES[11]
cdef int NAME_LENGTHS[11]
NAMES[:] = [b'PUB', b'HPUB', b'SUB', b'UNSUB', b'CONNECT', b'PING', b'PONG', b'+OK', b'-ERR', b'INFO', b'HMSG']
NAME_LENGTHS[:] = [3, 4, 3, 5, 7, 4, 4, 3, 4, 4, 4]


# -- small pieces of grammar --------------------------------------------------------------------------------------

cdef inline bint is_space(char byte) noexcept:
    return byte == c' ' or byte == c'\t'


cdef int recognise(const char *at, const char *end) noexcept:
    """The operation that starts here, UNFINISHED if it may still become one, UNKNOWN if it cannot."""
    cdef int candidate, k, available
    cdef int answer = UNKNOWN
    cdef char byte
    for candidate in range(11):
        available = NAME_LENGTHS[candidate]
        if end - at < available:
            available = <int> (end - at)
        for k in range(available):
            byte = at[k]
            if c'a' <= byte <= c'z':
                byte = byte - 32
            if byte != NAMES[candidate][k]:
                break
        else:
            if available == NAME_LENGTHS[candidate]:
                return candidate
            answer = UNFINISHED
    return answer


cdef inline Py_ssize_t parse_size(const char *at, Py_ssize_t length) noexcept:
    """A decimal number of at most nine digits, else -1."""
    cdef Py_ssize_t value = 0, k
    if length == 0 or length > 9:
        return -1
    for k in range(length):
        if not c'0' <= at[k] <= c'9':
            return -1
        value = 10 * value + (at[k] - c'0')
    return value


cdef inline int split(char *at, char *end, Token *tokens, int most) noexcept:
    """Cut at spaces and tabs. Returns the number of tokens, `most` + 1 if there are more."""
    cdef int count = 0
    while True:
        while at < end and is_space(at[0]):
            at += 1
        if at == end:
            return count
        if count == most:
            return most + 1
        tokens[count].start = at
        while at < end and not is_space(at[0]):
            at += 1
        tokens[count].length = at - tokens[count].start
        count += 1


cdef bint is_literal_subject(const char *subject, Py_ssize_t length) noexcept:
    """Whether a pedantic publisher may use it: no empty token, and no token that is a wildcard."""
    cdef Py_ssize_t k, token = 0
    for k in range(length + 1):
        if k == length or subject[k] == c'.':
            if k == token or (k - token == 1 and (subject[token] == c'*' or subject[token] == c'>')):
                return False
            token = k + 1
    return True


cdef inline bint starts_with(const char *text, Py_ssize_t length, const char *prefix, Py_ssize_t wanted) noexcept:
    return length > wanted and memcmp(text, prefix, wanted) == 0


cdef double monotonic() noexcept:
    cdef timespec moment
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return moment.tv_sec + moment.tv_nsec * 1e-9


cdef class Link:
    """See hub.pxd. Made by Hub.attach; the broker's Connection is its owner."""

    def __dealloc__(self):
        PyMem_Free(self.backlog)
        PyMem_Free(self.partial)

    @property
    def closed(self):
        return bool(self.flags & CLOSED)

    @property
    def connected(self):
        """Whether a CONNECT has been accepted."""
        return bool(self.flags & CONNECTED)

    @property
    def pending_bytes(self):
        return self.backlog_tail - self.backlog_head + self.span_length

    @property
    def idle_seconds(self):
        """Seconds since the peer last sent something."""
        return monotonic() - self.active_at

    def configure(self, *, bint verbose, bint pedantic, bint echo, bint headers, bint no_responders):
        """What the peer asked for in CONNECT. It also counts as the proof that CONNECT was received."""
        self.flags &= ~(<uint32_t> (VERBOSE | PEDANTIC | NO_ECHO | NO_HEADERS | NO_RESPONDERS))
        self.flags |= (VERBOSE if verbose else 0) | (PEDANTIC if pedantic else 0) | (0 if echo else NO_ECHO) \
            | (0 if headers else NO_HEADERS) | (NO_RESPONDERS if no_responders else 0) | CONNECTED

    def await_authentication(self, bint awaited):
        """Until this is called with False, any operation but CONNECT is an authorization violation."""
        if awaited:
            self.flags |= AWAITING_AUTH
        else:
            self.flags &= ~(<uint32_t> AWAITING_AUTH)

    def trace(self, bint traced):
        """Have every operation reported to owner.on_trace."""
        if traced:
            self.flags |= TRACED
        else:
            self.flags &= ~(<uint32_t> TRACED)

    def send(self, bytes data not None):
        """Append to the outbox. It leaves at the end of the tick; outside of one, call Hub.flush."""
        if not self.flags & CLOSED:
            self.hub._give(self, data, len(data), NULL, 0)

    def hold(self):
        """Stop reading and parsing, from within a callback, until `release`: the answer takes a while."""
        self.flags |= PAUSED
        self.hub._listen(self)

    def release(self):
        """Go on where `hold` stopped. Call it outside of a poll."""
        if self.flags & PAUSED and not self.flags & CLOSED:
            try:
                self.hub._resume(self)
            except Exception as error:
                self.hub._bug(self, error)
        self.hub.flush()

    def close(self, reason):
        """Write what the socket takes at once, then close it. The owner hears it by on_closed(reason)."""
        self.hub._close(self, reason)

    def subscribe(self, bytes subject not None, bytes queue, bytes sid not None):
        """Add a subscription; a sid that is already in use keeps the old one. Raises InvalidSubject."""
        cdef Subscription subscription
        if self.flags & CLOSED or sid in self.subscriptions:
            return
        subscription = Subscription(subject, queue, sid)
        subscription.receiver = <void *> self
        self.interest.insert(subscription)
        self.subscriptions[sid] = subscription

    def unsubscribe(self, bytes sid not None, long long maximum):
        """End a subscription, now or (maximum > 0) when so many messages have been delivered on it."""
        cdef Subscription subscription = self.subscriptions.get(sid)
        if subscription is None:
            return
        if maximum > subscription.delivered:
            subscription.maximum = maximum
        else:
            self.interest.remove(subscription)
            del self.subscriptions[sid]

    def unsubscribe_all(self):
        cdef Subscription subscription
        for subscription in self.subscriptions.values():
            self.interest.remove(subscription)
        self.subscriptions.clear()


@cython.final
cdef class Hub:
    """All links of a server. Poll it whenever `fileno()` is readable; call `flush` after sending outside of a poll.

    The owner of a link decides. It is called, always from within `poll`, with
      on_connect(json), on_subscribe(subject, queue or None, sid), on_unsubscribe(sid, maximum or -1), on_info(json),
      on_pong(), on_first_ping() (the PONG is already in the outbox), on_early_operation() (before authentication),
      on_violation(kind, detail), on_trace(direction, operation, argument), on_bug(exception),
      on_closed(reason) once the socket is closed.
    """

    def __cinit__(self, *, long long max_payload, long long max_pending, Py_ssize_t max_control_line):
        self.epoll = self.timer = -1
        self.max_payload = max_payload
        self.max_pending = max_pending
        self.paused = []
        self.expired = []
        self.closing = []
        self.links = {}
        self.random_state = int.from_bytes(os.urandom(8), 'little') | 1
        self.arena = <char *> PyMem_Malloc(ARENA_SIZE)
        self.dirty_capacity = 64
        self.dirty = <void **> PyMem_Malloc(self.dirty_capacity * sizeof(void *))
        if self.arena == NULL or self.dirty == NULL:
            raise MemoryError
        self.max_control_line = max_control_line
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        self.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self.epoll < 0 or self.timer < 0:
            raise OSError(errno, os.strerror(errno))
        cdef epoll_event event
        event.events = EPOLLIN
        event.data.ptr = NULL
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, self.timer, &event) < 0:
            raise OSError(errno, os.strerror(errno))
        self.now = monotonic()

    def __dealloc__(self):
        if self.timer >= 0:
            close(self.timer)
        if self.epoll >= 0:
            close(self.epoll)
        PyMem_Free(self.buffer)
        PyMem_Free(self.arena)
        PyMem_Free(self.scratch)
        PyMem_Free(self.dirty)

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
            raise OSError(errno, os.strerror(errno))
        self.links[fd] = link
        return link

    # -- ticks --------------------------------------------------------------------------------------------------

    def poll(self):
        """Handle whatever is ready. Returns soon, so that the event loop can serve others."""
        cdef epoll_event events[MAX_EVENTS]
        cdef int count, k, rounds
        cdef Link link
        cdef uint64_t expirations
        self.polling = True
        try:
            for rounds in range(ROUNDS):
                count = epoll_wait(self.epoll, events, MAX_EVENTS, 0)
                if count <= 0:
                    break
                self.now = monotonic()
                for k in range(count):
                    if events[k].data.ptr == NULL:
                        read(self.timer, &expirations, sizeof(expirations))
                        continue
                    link = <Link> events[k].data.ptr
                    if link.flags & CLOSED:
                        continue
                    try:
                        if events[k].events & EPOLLOUT:
                            self._flush_link(link)
                        if events[k].events & (EPOLLIN | EPOLLERR | EPOLLHUP):
                            self._readable(link)
                    except Exception as error:
                        self._bug(link, error)
                self._end_tick()
        finally:
            self.polling = False

    def flush(self):
        """Write what was sent outside of a poll, and close what was closed there. Within a poll it does nothing."""
        if not self.polling:
            self._end_tick()

    def expire_writes(self, double deadline):
        """Close the links whose socket has taken nothing for `deadline` seconds although something waits."""
        cdef Link link
        cdef double now = monotonic()
        for link in self.links.values():
            if link.flags & WANTS_WRITE and now - link.written_at > deadline:
                self._close(link, 'Slow Consumer (Write Deadline)')
        self._end_tick()

    def close(self):
        """Close every link and the hub's own descriptors."""
        cdef Link link
        for link in self.links.values():
            self._close(link, 'Server Shutdown')
        self._end_tick()
        close(self.timer)
        close(self.epoll)
        self.timer = self.epoll = -1

    cdef int _end_tick(self) except -1:
        self._flush()
        self._ease()
        while self.closing:
            self._reap()
            self._flush()
        return 0

    cdef int _bug(self, Link link, object error) except -1:
        """A mistake of ours in one connection must not reach the others: tell the owner, close the link."""
        try:
            link.owner.on_bug(error)
        finally:
            self._close(link, 'Internal Error')
        return 0

    # -- reading ------------------------------------------------------------------------------------------------

    cdef int _readable(self, Link link) except -1:
        cdef char *start
        cdef Py_ssize_t count
        if link.flags & PAUSED:
            # Only an error or a hang-up is reported for a link that is not listened to: no use in waiting on.
            return self._resume(link)
        if link.in_msgs and self.fair_total > BUDGET:
            return self._pause(link)
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
        return self._close(link, 'Client Closed' if count == 0 else 'Read Error')

    cdef int _feed(self, Link link, char *start, char *end) except -1:
        """Parse what has arrived and keep what is not complete."""
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
        if argument == end:
            return shorten_spaces(at, end, NAME_LENGTHS[operation])
        # The first byte of the argument is never taken for the end of the line: so nats-server reads it.
        newline = <char *> memchr(argument + 1, c'\n', end - argument - 1)
        if newline == NULL:
            if end - argument > self.control_line_limit + 1:
                self._violation(link, 'control_line', argument[:128])
                return end
            return at
        argument_end = newline
        if newline - 1 > argument and (newline - 1)[0] == c'\r':
            argument_end -= 1
        elif memchr(argument + 1, c'\r', newline - argument - 1) != NULL:
            argument_end -= 1
        if argument_end - argument > self.control_line_limit:
            self._violation(link, 'control_line', argument[:128])
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
            self._give(link, b'PONG\r\n', 6, NULL, 0)
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
            if payload - rest != usual or (payload - 2)[0] != c'\r' or (operation == HPUB and header == 0):
                length = self._usual_form(reply, tokens[count - 2] if header else none,
                                          tokens[count - 1], payload, size + 2)
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
        """Write `[reply ][header size ]<size>\\r\\n<payload>\\r\\n` into the scratch buffer."""
        cdef Py_ssize_t needed = reply.length + header.length + size.length + 4 + payload_length
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
        return at + 2 + payload_length - self.scratch

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
            self._give(link, b'+OK\r\n', 5, NULL, 0)
        route = link.interest.lookup(message.subject, message.subject_length)
        if route.target_count + route.queue_count == 0 or not self._deliver(link, route, message):
            if message.reply_length and link.flags & NO_RESPONDERS:
                self._answer_no_responders(link, message)
            return 0
        if self.expired:
            self._end_expired()
        if self.owed > OWED_LIMIT:
            self._flush()
            if self.fair_total > BUDGET:
                self.overran = True
        if self.overran:
            self.overran = False
            self._pause(link)
        return 0

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
            if receiver.flags & (CLOSED | NO_ECHO) \
                    and (receiver.flags & CLOSED or receiver is publisher):
                continue
            subscription.delivered += 1
            if subscription.maximum and subscription.delivered >= subscription.maximum:
                if subscription.delivered > subscription.maximum:
                    continue
                self.expired.append(subscription)
            delivered = True
            receiver.out_msgs += 1
            self.out_msgs += 1
            if receiver.flags & TRACED:
                receiver.owner.on_trace('out', b'MSG', prefix[:prefix_length])
            if receiver.flags & NO_HEADERS and message.header_length:
                self._give_without_headers(receiver, prefix + 1, prefix_length - 1, message)
                continue
            receiver.out_bytes += message.size
            self.out_bytes += message.size
            if shared:
                if start < 0:
                    start = self._arena_frame(prefix, prefix_length, message.rest, message.rest_length)
                self._give_span(receiver, start, length)
            else:
                self._give(receiver, prefix, prefix_length, message.rest, message.rest_length)
            if receiver.flags & CONGESTED:
                self.overran = True
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
        return self._give(receiver, line, len(line), message.payload + message.header_length, size + 2)

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
                return self._give(link, line, len(line), NULL, 0)
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
            receiver = <Link> subscription.receiver
            receiver.interest.remove(subscription)
            receiver.subscriptions.pop(subscription.sid, None)
        self.expired.clear()
        return 0

    # -- outboxes -----------------------------------------------------------------------------------------------

    cdef Py_ssize_t _arena_frame(self, const char *prefix, Py_ssize_t prefix_length,
                                 const char *rest, Py_ssize_t rest_length) except -1:
        cdef Py_ssize_t start
        if self.arena_used + prefix_length + rest_length > ARENA_SIZE:
            self._flush()
        start = self.arena_used
        memcpy(self.arena + start, prefix, prefix_length)
        memcpy(self.arena + start + prefix_length, rest, rest_length)
        self.arena_used = start + prefix_length + rest_length
        return start

    cdef inline int _give_span(self, Link receiver, Py_ssize_t start, Py_ssize_t length) except -1:
        if receiver.span_length:
            if receiver.span_start + receiver.span_length == start:
                receiver.span_length += length
                self.owed += length
                return 0
            self._settle_span(receiver)
        receiver.span_start = start
        receiver.span_length = length
        self.owed += length
        if not receiver.flags & DIRTY:
            self._mark_dirty(receiver)
        return 0

    cdef int _give(self, Link receiver, const char *first, Py_ssize_t first_length,
                   const char *second, Py_ssize_t second_length) except -1:
        """Append bytes that only this link gets."""
        cdef Py_ssize_t before
        if receiver.span_length:
            self._settle_span(receiver)
        before = receiver.backlog_tail - receiver.backlog_head
        self._reserve(receiver, first_length + second_length)
        memcpy(receiver.backlog + receiver.backlog_tail, first, first_length)
        receiver.backlog_tail += first_length
        if second_length:
            memcpy(receiver.backlog + receiver.backlog_tail, second, second_length)
            receiver.backlog_tail += second_length
        self.owed += first_length + second_length
        if not receiver.flags & DIRTY:
            self._mark_dirty(receiver)
        if receiver.flags & WANTS_WRITE:
            self._weigh(receiver, before)
        return 0

    cdef int _settle_span(self, Link receiver) except -1:
        """Copy the span to the backlog, behind what is there."""
        cdef Py_ssize_t before = receiver.backlog_tail - receiver.backlog_head
        self._reserve(receiver, receiver.span_length)
        memcpy(receiver.backlog + receiver.backlog_tail, self.arena + receiver.span_start, receiver.span_length)
        receiver.backlog_tail += receiver.span_length
        receiver.span_length = 0
        if receiver.flags & WANTS_WRITE:
            self._weigh(receiver, before)
        return 0

    cdef int _reserve(self, Link receiver, Py_ssize_t length) except -1:
        """Make room for `length` more bytes at the end of the backlog."""
        cdef Py_ssize_t used = receiver.backlog_tail - receiver.backlog_head
        cdef Py_ssize_t capacity
        cdef void *grown
        if receiver.backlog_tail + length <= receiver.backlog_capacity:
            return 0
        if receiver.backlog_head:
            memmove(receiver.backlog, receiver.backlog + receiver.backlog_head, used)
            receiver.backlog_head = 0
            receiver.backlog_tail = used
        if used + length > receiver.backlog_capacity:
            capacity = max(used + length, min(2 * receiver.backlog_capacity, used + length + FAIR_SHARE), SKIMP)
            grown = PyMem_Realloc(receiver.backlog, capacity)
            if grown == NULL:
                raise MemoryError
            receiver.backlog = <char *> grown
            receiver.backlog_capacity = capacity
        return 0

    cdef int _mark_dirty(self, Link link) except -1:
        cdef void *grown
        if self.dirty_count == self.dirty_capacity:
            grown = PyMem_Realloc(self.dirty, 2 * self.dirty_capacity * sizeof(void *))
            if grown == NULL:
                raise MemoryError
            self.dirty = <void **> grown
            self.dirty_capacity *= 2
        self.dirty[self.dirty_count] = <void *> link
        self.dirty_count += 1
        link.flags |= DIRTY
        return 0

    cdef int _flush(self) except -1:
        """Write every outbox that got something, then start the arena again."""
        cdef Py_ssize_t k
        cdef Link link
        for k in range(self.dirty_count):
            link = <Link> self.dirty[k]
            link.flags &= ~(<uint32_t> DIRTY)
            if link.flags & WANTS_WRITE:
                # Its socket was full a moment ago, and epoll will tell when it is not.
                if link.span_length:
                    self._settle_span(link)
            else:
                self._flush_link(link)
        self.dirty_count = 0
        self.arena_used = 0
        self.owed = 0
        return 0

    cdef int _flush_link(self, Link link) except -1:
        """Write as much as the socket takes; what it does not take becomes the backlog."""
        cdef iovec parts[2]
        cdef int count = 0
        cdef Py_ssize_t waiting = link.backlog_tail - link.backlog_head
        cdef Py_ssize_t before = waiting if link.flags & WANTS_WRITE else 0
        cdef Py_ssize_t written
        if link.fd < 0:
            link.span_length = 0
            return 0
        if waiting:
            parts[count].iov_base = link.backlog + link.backlog_head
            parts[count].iov_len = waiting
            count += 1
        if link.span_length:
            parts[count].iov_base = self.arena + link.span_start
            parts[count].iov_len = link.span_length
            count += 1
        if count == 0:
            return 0
        written = writev(link.fd, parts, count)
        if written < 0:
            if errno != EAGAIN and errno != EINTR:
                link.span_length = 0
                return self._close(link, 'Write Error')
            written = 0
        else:
            link.written_at = self.now
        if written < waiting:
            link.backlog_head += written
        else:
            written -= waiting
            link.backlog_head = link.backlog_tail = 0
            link.span_start += written
            link.span_length -= written
        if link.span_length == 0 and link.backlog_head == link.backlog_tail:
            PyMem_Free(link.backlog)
            link.backlog = NULL
            link.backlog_head = link.backlog_tail = link.backlog_capacity = 0
            if link.flags & WANTS_WRITE:
                link.flags &= ~(<uint32_t> WANTS_WRITE)
                self._listen(link)
                self._weigh(link, before)
            return 0
        if not link.flags & WANTS_WRITE:
            link.flags |= WANTS_WRITE
            link.written_at = self.now
            self._listen(link)
        if link.span_length:
            self._reserve(link, link.span_length)
            memcpy(link.backlog + link.backlog_tail, self.arena + link.span_start, link.span_length)
            link.backlog_tail += link.span_length
            link.span_length = 0
        return self._weigh(link, before)

    cdef int _listen(self, Link link) except -1:
        """Tell epoll what is awaited of a link."""
        cdef epoll_event event
        event.events = (0 if link.flags & PAUSED else EPOLLIN) | (EPOLLOUT if link.flags & WANTS_WRITE else 0)
        event.data.ptr = <void *> link
        epoll_ctl(self.epoll, EPOLL_CTL_MOD, link.fd, &event)
        return 0

    # -- backpressure -------------------------------------------------------------------------------------------

    cdef int _weigh(self, Link link, Py_ssize_t before) except -1:
        """A backlog that the socket did not take has changed: keep the sums, and judge the receiver."""
        cdef Py_ssize_t waiting = link.backlog_tail - link.backlog_head
        cdef bint congested
        self.fair_total += min(waiting, FAIR_SHARE) - min(before, FAIR_SHARE)
        if waiting > self.max_pending:
            return self._close(link, 'Slow Consumer (Pending Bytes)')
        if waiting < SOFT_BACKLOG // 2:
            link.flags &= ~(<uint32_t> SLOW)
        congested = waiting > SOFT_BACKLOG and (not link.flags & SLOW or waiting > self.max_pending // 4 * 3)
        if congested and not link.flags & CONGESTED:
            link.flags |= CONGESTED
            self.congested += 1
        elif link.flags & CONGESTED and not congested and waiting < max(SOFT_BACKLOG // 2, 1):
            link.flags &= ~(<uint32_t> CONGESTED)
            self.congested -= 1
        return 0

    cdef int _pause(self, Link link) except -1:
        """Stop reading a publisher until its receivers have drained, or the stall limit has passed."""
        if link.flags & (PAUSED | CLOSED):
            return 0
        link.flags |= PAUSED
        self._listen(link)
        if not self.paused:
            self.pause_until = self.now + STALL_SECONDS
            self.lowest_total = self.fair_total
            self._arm_timer(STALL_SECONDS)
        self.paused.append(link)
        self.stalls += 1
        return 0

    cdef int _ease(self) except -1:
        """Let paused publishers go on, if what they waited for has come or was waited for long enough."""
        cdef Link link
        cdef list paused
        cdef bint over_budget = self.fair_total > BUDGET // 2
        if not self.paused:
            return 0
        if self.congested or over_budget:
            if self.now < self.pause_until:
                return 0
            if over_budget and self.fair_total < self.lowest_total:
                self.lowest_total = self.fair_total
                self.pause_until = self.now + STALL_SECONDS
                return self._arm_timer(STALL_SECONDS)
            for link in self.links.values():
                if link.flags & CONGESTED:
                    link.flags |= SLOW
                    if link.backlog_tail - link.backlog_head <= self.max_pending // 4 * 3:
                        link.flags &= ~(<uint32_t> CONGESTED)
                        self.congested -= 1
        paused = self.paused
        self.paused = []
        for link in paused:
            if link.flags & PAUSED:
                try:
                    self._resume(link)
                except Exception as error:
                    self._bug(link, error)
        return self._flush()

    cdef int _resume(self, Link link) except -1:
        """Parse what a publisher had already sent when it was paused, and read it again."""
        cdef char *unparsed = link.partial
        cdef Py_ssize_t length = link.partial_length
        link.flags &= ~(<uint32_t> PAUSED)
        self._listen(link)
        if length and not link.frame_total:
            link.partial = NULL
            link.partial_length = 0
            try:
                self._feed(link, unparsed, unparsed + length)
            finally:
                PyMem_Free(unparsed)
        return 0

    cdef int _arm_timer(self, double seconds) except -1:
        cdef itimerspec moment
        memset(&moment, 0, sizeof(moment))
        moment.it_value.tv_nsec = <long> (seconds * 1e9)
        timerfd_settime(self.timer, 0, &moment, NULL)
        return 0

    # -- the end of a link --------------------------------------------------------------------------------------

    cdef int _violation(self, Link link, object kind, bytes detail) except -1:
        link.owner.on_violation(kind, detail)
        return 0

    cdef int _close(self, Link link, object reason) except -1:
        if link.flags & CLOSED:
            return 0
        link.flags |= CLOSED
        link.close_reason = reason
        self.closing.append(link)
        return 0

    cdef int _reap(self) except -1:
        """Really close what was closed in this tick: nothing is walking its subscriptions any more."""
        cdef Link link
        cdef list closing = self.closing
        cdef Py_ssize_t before
        self.closing = []
        for link in closing:
            if link.flags & DIRTY:
                self._flush()
            before = link.backlog_tail - link.backlog_head if link.flags & WANTS_WRITE else 0
            if link.flags & CONGESTED:
                self.congested -= 1
            self.fair_total -= min(before, FAIR_SHARE)
            link.flags &= ~(<uint32_t> (CONGESTED | WANTS_WRITE | PAUSED))
            link.unsubscribe_all()
            epoll_ctl(self.epoll, EPOLL_CTL_DEL, link.fd, NULL)
            close(link.fd)
            del self.links[link.fd]
            link.fd = -1
            PyMem_Free(link.backlog)
            PyMem_Free(link.partial)
            link.backlog = link.partial = NULL
            link.backlog_head = link.backlog_tail = link.backlog_capacity = 0
            link.partial_length = link.frame_total = 0
            try:
                link.owner.on_closed(link.close_reason)
            except Exception as error:
                link.owner.on_bug(error)
        return 0


cdef char *shorten_spaces(char *at, char *end, int name_length) noexcept:
    """Nothing but spaces has followed the operation so far: one of them is enough to keep."""
    memmove(end - name_length - 1, at, name_length + 1)
    return end - name_length - 1


cdef bint is_reserved_reply(const char *reply, Py_ssize_t length) noexcept:
    return reply[0] == c'_' and (starts_with(reply, length, b'_R_.', 3) and reply[3] == c'.'
                                 or starts_with(reply, length, b'_GR_.', 5)) \
        or reply[0] == c'$' and starts_with(reply, length, b'$JS.ACK.', 8)


cdef list cut(bytes line):
    """The tokens of a SUB or UNSUB line; a CR or LF that got into it separates too."""
    return line.replace(b'\r', b' ').replace(b'\n', b' ').replace(b'\t', b' ').split()
