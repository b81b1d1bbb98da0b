"""Links, their outboxes, and the backpressure between them.

The arena. A frame is written once into the arena, however many receivers get it in the same form (see Group in
interest.pyx), and a receiver notes only which span of the arena is for it. Consecutive frames make one longer span.
An outbox is therefore

    backlog  | bytes the socket did not take so far, owned by the link
    span     | at most one range of the arena, of this tick

and whatever breaks the run (another sid, an answer such as PONG, the end of the tick with a full socket) first
settles the span into the backlog. After a flush no span refers to the arena, so it is simply started again, and a
backlog that was written out is given up. That is why an idle connection holds no buffer at all. The buffers that busy
links give up serve the next ones: a fan-out to 100 receivers that cannot share frames spent 40 % of its time in page
faults of fresh memory. Those that nobody needed for a while are freed.

Backpressure. A receiver may have max_pending bytes waiting; past that it is closed, as in nats-server. Long before,
publishers wait, so that memory does not grow. They are not read
  - while one of their receivers is congested: more than SOFT_BACKLOG (or 75 % of max_pending) waits for it;
  - while all receivers together, each counted to FAIR_SHARE, have more than BUDGET waiting;
  - while the log that they publish to has more waiting for the disk than it may (stream_sink.pyx).
Nobody waits for a receiver that is slow: one that took less than SLOW_BYTES in a window of WINDOW_SECONDS while
publishers waited for it, or, if it is not congested, nothing at all. It counts again when it has caught up. The window
is long because a full socket reports room only when a third of it is free: a steady reader of 12 MB/s was seen to
take nothing for 144 ms. A slow receiver costs the others one window, until it is critical: above 75 % of max_pending
its publishers are stalled for STALL_SECONDS after every STALL_BYTES, which is nats-server's own limit and gives the
receiver a last chance to catch up.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from headrace.engine.core.interest cimport Interest, Subscription
from headrace.engine.core.message cimport Message
from headrace.engine.core.system cimport (CLOCK_MONOTONIC, EPOLL_CLOEXEC, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT,
                                          TFD_CLOEXEC, TFD_NONBLOCK, close, epoll_create1, epoll_ctl, epoll_event,
                                          iovec, itimerspec, monotonic, read, timerfd_create, timerfd_settime, writev)

import os

cdef Py_ssize_t SOFT_BACKLOG = 1024 * 1024
cdef Py_ssize_t FAIR_SHARE = 256 * 1024
cdef double WINDOW_SECONDS = 0.200
cdef Py_ssize_t SLOW_BYTES = 1280 * 1024     # 64 KiB in 10 ms, as below
cdef double STALL_SECONDS = 0.010
cdef Py_ssize_t STALL_BYTES = 64 * 1024
cdef Py_ssize_t PROOF_BYTES = 64 * 1024      # what a full socket has to take for its link to count as alive
cdef Py_ssize_t FIRST_BACKLOG = 512          # room for a few answers
cdef Py_ssize_t POOLED_BACKLOG = 32 * 1024   # the size of the buffers that are kept for the next tick
cdef Py_ssize_t POOL_PLACES = 1024
cdef int MOST_UNSUBSCRIBED = 500             # at once, about half a millisecond


cdef class Link:
    """See outboxes.pxd. Made by Hub.attach; the broker's Connection is its owner."""

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
            self.hub.give(self, data, len(data), NULL, 0)

    def hold(self):
        """Stop reading and parsing, from within a callback, until `release`: the answer takes a while."""
        self.flags |= PAUSED
        self.hub.listen(self)

    def release(self):
        """Go on where `hold` stopped. Call it outside of a poll."""
        if self.hub.polling:
            raise RuntimeError("a link is released outside of a poll")
        if self.flags & PAUSED and not self.flags & CLOSED:
            self.hub.polling = True
            try:
                self.hub.resume(self)
            except Exception as error:
                self.hub.report_bug(self, error)
            finally:
                self.hub.polling = False
        self.hub.flush()

    def close(self, reason):
        """Write what the socket takes at once, then close it. The owner hears it by on_closed(reason)."""
        self.hub.close_link(self, reason)

    def subscribe(self, bytes subject not None, bytes queue, bytes sid not None):
        """Add a subscription; a sid that is already in use keeps the old one. Raises InvalidSubject."""
        cdef Subscription subscription
        if self.flags & CLOSED or sid in self.subscriptions:
            return
        subscription = Subscription(subject, queue, sid)
        subscription.receiver = <void *> self
        self.subscriptions[sid] = subscription       # first: the trie has only a pointer to it
        try:
            self.interest.insert(subscription)
        finally:
            if subscription.node == NULL:
                del self.subscriptions[sid]

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

    def some_subscriptions(self, uint64_t place, Py_ssize_t skipped=0):
        """(some of them from a place on, the place to go on from). Begin at 0; after the last ones it is 0 again.

        The first `skipped` of them are left out. A million of them need not be copied in one piece. What comes and
        goes meanwhile may be among them, or not.
        """
        return self.subscriptions.some_values(place, skipped)

    cdef int take(self, Link publisher, Subscription subscription, Message *message) except -1:
        raise NotImplementedError

    cdef int _unsubscribe_any(self) except -1:
        cdef Subscription subscription
        sid, subscription = self.subscriptions.take_any()
        try:
            self.interest.remove(subscription)
        finally:
            if subscription.node != NULL:
                self.subscriptions[sid] = subscription           # the trie has only a pointer to it
        return 0

    def unsubscribe_all(self):
        while self.subscriptions.count:
            self._unsubscribe_any()

    def unsubscribe_some(self):
        """Of a closed link, which gets nothing any more: the others of very many when everybody has had a turn."""
        cdef int k
        for k in range(MOST_UNSUBSCRIBED):
            if self.subscriptions.count == 0:
                return
            self._unsubscribe_any()
        self.hub.deferred.append(self.unsubscribe_some)    # which also keeps the link, as long as routes lead to it


cdef void tell_owner(object owner, object error) noexcept:
    """Report a bug. If even that fails, Python prints it as an exception that nobody can handle."""
    owner.on_bug(error)


cdef class Outboxes:
    """What every link has to send, and who has to wait for whom. The hub adds reading, parsing and delivering."""

    def __cinit__(self, *, long long max_payload, long long max_pending, Py_ssize_t max_control_line):
        self.epoll = self.timer = -1
        self.max_payload = max_payload
        self.max_pending = max_pending
        self.paused = []
        self.stalled = []
        self.ended_turns = []
        self.deferred = []
        self.links = {}
        self.arena = <char *> PyMem_Malloc(ARENA_SIZE)
        self.dirty_capacity = 64
        self.dirty = <void **> PyMem_Malloc(self.dirty_capacity * sizeof(void *))
        self.pool = <char **> PyMem_Malloc(POOL_PLACES * sizeof(char *))
        if self.arena == NULL or self.dirty == NULL or self.pool == NULL:
            raise MemoryError
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        self.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self.epoll < 0 or self.timer < 0:
            raise OSError(errno, os.strerror(errno))
        self.now = monotonic()

    def __dealloc__(self):
        if self.timer >= 0:
            close(self.timer)
        if self.epoll >= 0:
            close(self.epoll)
        while self.pool_count:
            self.pool_count -= 1
            PyMem_Free(self.pool[self.pool_count])
        PyMem_Free(self.pool)
        PyMem_Free(self.arena)
        PyMem_Free(self.dirty)

    @property
    def max_pending(self):
        return self.pending_limit

    @max_pending.setter
    def max_pending(self, long long limit):
        self.pending_limit = limit
        self._set_soft_backlog()

    @property
    def never_waits(self):
        """Publishers do not wait: what is for a receiver with 75 % of max_pending waiting is dropped."""
        return self.drops

    @never_waits.setter
    def never_waits(self, bint never):
        self.drops = never
        self._set_soft_backlog()

    cdef int _set_soft_backlog(self) except -1:
        cdef long long most = self.pending_limit // 4 * 3
        self.soft_backlog = most if self.drops else min(SOFT_BACKLOG, most)
        self.critical_backlog = most
        return 0

    def defer(self, action):
        """Have `action()` called at the end of the tick. It may publish and subscribe. Outside of a tick, call `flush`."""
        self.deferred.append(action)

    cdef int wait_for(self, Link link, object waiter) except -1:
        """Have `waiter()` called, at the end of a tick, once the link's outbox is empty or the link is closed."""
        if link.waiters is None:
            link.waiters = []
        link.waiters.append(waiter)
        return 0

    cdef int resume(self, Link link) except -1:
        raise NotImplementedError

    cdef int report_bug(self, Link link, object error) except -1:
        """A mistake of ours in one connection must not reach the others: tell the owner, close the link."""
        tell_owner(link.owner, error)
        return self.close_link(link, 'Internal Error')

    cdef int close_link(self, Link link, object reason) except -1:
        """Mark a link as closed. Its socket is closed at the end of the tick, when nobody walks over it any more."""
        if link.flags & CLOSED:
            return 0
        link.flags |= CLOSED
        link.close_reason = reason
        # A chain needs no memory: the end of a link must not fail, least of all where memory is short.
        if self.first_closing == NULL:
            self.first_closing = <void *> link
        else:
            (<Link> self.last_closing).next_closing = <void *> link
        self.last_closing = <void *> link
        return 0

    # -- filling ------------------------------------------------------------------------------------------------

    cdef Py_ssize_t arena_frame(self, const char *prefix, Py_ssize_t prefix_length,
                                 const char *rest, Py_ssize_t rest_length) except -1:
        cdef Py_ssize_t start
        if self.arena_used + prefix_length + rest_length > ARENA_SIZE:
            self.flush_all()
        start = self.arena_used
        memcpy(self.arena + start, prefix, prefix_length)
        memcpy(self.arena + start + prefix_length, rest, rest_length)
        self.arena_used = start + prefix_length + rest_length
        return start

    cdef int give(self, Link receiver, const char *first, Py_ssize_t first_length,
                   const char *second, Py_ssize_t second_length) except -1:
        """Append bytes that only this link gets."""
        cdef Py_ssize_t before
        if receiver.span_length:
            self.settle_span(receiver)
        before = receiver.backlog_tail - receiver.backlog_head
        self.reserve(receiver, first_length + second_length)
        memcpy(receiver.backlog + receiver.backlog_tail, first, first_length)
        receiver.backlog_tail += first_length
        if second_length:
            memcpy(receiver.backlog + receiver.backlog_tail, second, second_length)
            receiver.backlog_tail += second_length
        self.owed_apart += first_length + second_length
        if not receiver.flags & DIRTY:
            self.mark_dirty(receiver)
        if receiver.flags & WANTS_WRITE:
            self.weigh(receiver, before)
        return 0

    cdef int settle_span(self, Link receiver) except -1:
        """Copy the span to the backlog, behind what is there."""
        cdef Py_ssize_t before = receiver.backlog_tail - receiver.backlog_head
        self.reserve(receiver, receiver.span_length)
        memcpy(receiver.backlog + receiver.backlog_tail, self.arena + receiver.span_start, receiver.span_length)
        receiver.backlog_tail += receiver.span_length
        receiver.span_length = 0
        if receiver.flags & WANTS_WRITE:
            self.weigh(receiver, before)
        return 0

    cdef int reserve(self, Link receiver, Py_ssize_t length) except -1:
        """Make room for `length` more bytes at the end of the backlog."""
        cdef Py_ssize_t used = receiver.backlog_tail - receiver.backlog_head
        cdef Py_ssize_t capacity
        cdef void *grown
        if receiver.backlog_tail + length <= receiver.backlog_capacity:
            return 0
        if 2 * receiver.backlog_head >= receiver.backlog_capacity and used + length <= receiver.backlog_capacity:
            memmove(receiver.backlog, receiver.backlog + receiver.backlog_head, used)
            receiver.backlog_head = 0
            receiver.backlog_tail = used
            return 0
        if receiver.backlog_tail + length <= FIRST_BACKLOG:
            capacity = FIRST_BACKLOG
        elif used + length <= POOLED_BACKLOG and receiver.backlog_capacity < POOLED_BACKLOG:
            return self._take_pooled(receiver, used)
        else:
            capacity = receiver.backlog_tail + length
            capacity = max(capacity, min(2 * receiver.backlog_capacity, capacity + FAIR_SHARE))
        grown = PyMem_Realloc(receiver.backlog, capacity)
        if grown == NULL:
            raise MemoryError
        receiver.backlog = <char *> grown
        receiver.backlog_capacity = capacity
        return 0

    cdef int _take_pooled(self, Link receiver, Py_ssize_t used) except -1:
        """Give a link one of the buffers that others have just emptied, while its bytes are still in the cache."""
        cdef char *buffer
        if self.pool_count:
            self.pool_count -= 1
            buffer = self.pool[self.pool_count]
            self.pool_low = min(self.pool_low, self.pool_count)
        else:
            buffer = <char *> PyMem_Malloc(POOLED_BACKLOG)
            if buffer == NULL:
                raise MemoryError
        if used:                   # else it may have no backlog so far, and memcpy() takes no NULL
            memcpy(buffer, receiver.backlog + receiver.backlog_head, used)
        PyMem_Free(receiver.backlog)
        receiver.backlog = buffer
        receiver.backlog_head = 0
        receiver.backlog_tail = used
        receiver.backlog_capacity = POOLED_BACKLOG
        return 0

    cdef int release(self, Link link) except -1:
        """The backlog is empty, or of no use any more: a link keeps no buffer."""
        if link.backlog_capacity == POOLED_BACKLOG and self.pool_count < POOL_PLACES:
            self.pool[self.pool_count] = link.backlog
            self.pool_count += 1
        else:
            PyMem_Free(link.backlog)
        link.backlog = NULL
        link.backlog_head = link.backlog_tail = link.backlog_capacity = 0
        return 0

    cdef int trim_pool(self) except -1:
        """Free the buffers that nobody has needed since the last call."""
        while self.pool_low > 0:
            self.pool_low -= 1
            self.pool_count -= 1
            PyMem_Free(self.pool[self.pool_count])
        self.pool_low = self.pool_count
        return 0

    cdef int mark_dirty(self, Link link) except -1:
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

    # -- emptying -----------------------------------------------------------------------------------------------

    cdef int flush_all(self) except -1:
        """Write every outbox that got something, then start the arena again."""
        cdef Link link
        while self.dirty_flushed < self.dirty_count:
            link = <Link> self.dirty[self.dirty_flushed]
            self.dirty_flushed += 1          # whatever happens now, nobody meets this pointer again
            link.flags &= ~(<uint32_t> DIRTY)
            try:
                if link.flags & WANTS_WRITE:
                    # Its socket was full a moment ago, and epoll will tell when it is not.
                    if link.span_length:
                        self.settle_span(link)
                else:
                    self.flush_link(link)
            except MemoryError as error:
                link.span_length = 0         # it will not get what was in it: nothing may follow
                self.report_bug(link, error)
        self.dirty_count = self.dirty_flushed = 0
        self.arena_used = 0
        self.owed = self.owed_apart = 0
        return 0

    cdef int flush_link(self, Link link) except -1:
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
                return self.close_link(link, 'Write Error')
            written = 0
        else:
            link.drained += written
            link.unproven += written
            if link.unproven >= PROOF_BYTES:
                link.unproven = 0
                link.written_at = self.now
        if written < waiting:
            link.backlog_head += written
        else:
            written -= waiting
            link.backlog_head = link.backlog_tail = 0
            link.span_start += written
            link.span_length -= written
        if link.span_length == 0 and link.backlog_head == link.backlog_tail:
            self.release(link)
            if link.waiters is not None:
                self.deferred.extend(link.waiters)
                link.waiters = None
            if link.flags & WANTS_WRITE:
                self.weigh(link, before)
                link.flags &= ~(<uint32_t> WANTS_WRITE)
                self.listen(link)
            return 0
        if not link.flags & WANTS_WRITE:
            link.flags |= WANTS_WRITE
            link.written_at = self.now
            link.blocked_in = self.window
            self.listen(link)
        if link.span_length:
            self.reserve(link, link.span_length)
            memcpy(link.backlog + link.backlog_tail, self.arena + link.span_start, link.span_length)
            link.backlog_tail += link.span_length
            link.span_length = 0
        return self.weigh(link, before)

    cdef int listen(self, Link link) except -1:
        """Tell epoll what is awaited of a link."""
        cdef epoll_event event
        event.events = (0 if link.flags & PAUSED else EPOLLIN) | (EPOLLOUT if link.flags & WANTS_WRITE else 0)
        event.data.ptr = <void *> link
        epoll_ctl(self.epoll, EPOLL_CTL_MOD, link.fd, &event)
        return 0

    # -- backpressure -------------------------------------------------------------------------------------------

    cdef int weigh(self, Link link, Py_ssize_t before) except -1:
        """The bytes that wait for a full socket have changed: keep the sums, and judge the receiver."""
        cdef Py_ssize_t waiting = link.backlog_tail - link.backlog_head
        if waiting > self.pending_limit:
            self.close_link(link, 'Slow Consumer (Pending Bytes)')
        if waiting > self.critical_backlog:
            link.flags |= CRITICAL
        else:
            link.flags &= ~(<uint32_t> CRITICAL)
        if link.flags & SLOW:
            if waiting >= self.soft_backlog // 2:
                return 0
            link.flags &= ~(<uint32_t> SLOW)
            before = 0
        self.fair_total += min(waiting, FAIR_SHARE) - min(before, FAIR_SHARE)
        if waiting > self.soft_backlog:
            if not link.flags & CONGESTED:
                link.flags |= CONGESTED
                self.congested += 1
        elif waiting < self.soft_backlog // 2:
            self.clear_congestion(link)
        return 0

    cdef int clear_congestion(self, Link link) except -1:
        if link.flags & CONGESTED:
            link.flags &= ~(<uint32_t> CONGESTED)
            self.congested -= 1
        return 0

    cdef int ignore(self, Link link) except -1:
        """Leave a receiver out of everything that publishers wait for."""
        if link.flags & WANTS_WRITE and not link.flags & SLOW:
            self.fair_total -= min(link.backlog_tail - link.backlog_head, FAIR_SHARE)
        self.clear_congestion(link)
        link.flags |= SLOW
        return 0

    cdef int pause(self, Link link) except -1:
        """Stop reading a publisher until its receivers have drained."""
        if link.flags & (PAUSED | CLOSED) or self.drops:
            return 0
        link.flags |= PAUSED
        self.listen(link)
        if not self.paused:
            self.start_window()
        self.paused.append(link)
        return 0

    cdef int stall(self, Link link, Py_ssize_t published) except -1:
        """A publisher met a critical receiver: let it go on for STALL_BYTES, then wait for STALL_SECONDS."""
        link.allowance -= published
        if link.allowance > 0 or link.flags & (PAUSED | CLOSED) or self.drops:
            return 0
        link.allowance = STALL_BYTES
        link.flags |= PAUSED
        self.listen(link)
        if not self.stalled:
            self.stall_ends = self.now + STALL_SECONDS
            self.arm_timer()
        self.stalled.append(link)
        self.stalls += 1
        return 0

    cdef int end_turn(self, Link link) except -1:
        """It has had enough of this tick for itself: let others have a turn before what it has sent is read on."""
        if link.flags & (PAUSED | CLOSED):
            return 0
        self.ended_turns.append(link)
        link.flags |= PAUSED
        self.listen(link)
        return self.arm_timer()

    cdef int start_window(self) except -1:
        self.window += 1
        self.window_ends = self.now + WINDOW_SECONDS
        return self.arm_timer()

    cdef int judge_receivers(self) except -1:
        """At the end of a window: whoever did not drain in it is not waited for any more."""
        cdef Link link
        for link in self.links.values():
            if link.flags & WANTS_WRITE and not link.flags & SLOW and link.blocked_in < self.window:
                self.flush_link(link)
                if link.drained < (SLOW_BYTES if link.flags & CONGESTED else 1):
                    self.ignore(link)
            link.drained = 0
        return 0

    cdef int ease(self) except -1:
        """Let publishers go on if what they waited for has come."""
        cdef list waiting
        if self.stalled and self.now >= self.stall_ends:
            waiting = self.stalled
            self.stalled = []
            self.paused = self.resume_all(waiting) + self.paused
        if self.ended_turns and self.now < self.tick_ends:
            waiting = self.ended_turns
            self.ended_turns = []
            self.ended_turns = self.resume_all(waiting) + self.ended_turns
        if self.ended_turns:
            self.arm_timer()
        if not self.paused:
            return 0
        if self.now >= self.window_ends:
            self.judge_receivers()
            self.start_window()
        if self.congested or self.full_logs or self.fair_total > BUDGET // 2:
            return 0
        waiting = self.paused
        self.paused = []
        self.paused = self.resume_all(waiting) + self.paused
        if self.paused:
            self.arm_timer()
        return 0

    cdef list resume_all(self, list waiting):
        """In turn, as far as the time of this tick goes. Returns the others, which are first in the next one."""
        cdef Link link
        cdef list rest = []
        cdef Py_ssize_t place
        for place in range(len(waiting)):
            link = <Link> waiting[place]
            if link.flags & PAUSED:
                try:
                    self.resume(link)
                except Exception as error:
                    self.report_bug(link, error)
                if monotonic() > self.tick_ends:
                    rest = waiting[place + 1:]
                    break
        self.flush_all()
        return rest

    cdef int arm_timer(self) except -1:
        """Have epoll wake us when the next wait is over; at once if publishers wait for nothing but their turn."""
        cdef itimerspec moment
        cdef double seconds = WINDOW_SECONDS
        memset(&moment, 0, sizeof(moment))
        if self.ended_turns \
                or self.paused and not self.congested and not self.full_logs and self.fair_total <= BUDGET // 2:
            seconds = 0
        elif self.paused:
            seconds = min(seconds, self.window_ends - self.now)
        if self.stalled:
            seconds = min(seconds, self.stall_ends - self.now)
        moment.it_value.tv_nsec = max(<long> (seconds * 1e9), 1)
        timerfd_settime(self.timer, 0, &moment, NULL)
        return 0

    cdef int wake_soon(self) except -1:
        """Have epoll wake us at once. The wait for which the timer may have been armed is taken up again after that."""
        cdef itimerspec moment
        memset(&moment, 0, sizeof(moment))
        moment.it_value.tv_nsec = 1
        timerfd_settime(self.timer, 0, &moment, NULL)
        self.woken_early = True
        return 0
