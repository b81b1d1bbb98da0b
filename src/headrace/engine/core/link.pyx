"""One connection as the engine sees it. The broker's Connection is its owner, and decides."""

from cpython.mem cimport PyMem_Free
from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.interest cimport Interest
from headrace.engine.core.message cimport Message
from headrace.engine.core.system cimport monotonic
from headrace.engine.core.trie cimport Subscription

cdef int MOST_UNSUBSCRIBED = 500             # at once, about half a millisecond


cdef class Link:
    """See link.pxd. Created by Hub.attach."""

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
        return backlog_length(self) + self.span_length

    @property
    def idle_seconds(self):
        """Seconds since the peer last sent something."""
        return monotonic() - self.active_at

    # -- what its owner decides ---------------------------------------------------------------------------------

    def join(self, Interest interest not None):
        """Publish and subscribe here from now on: the peer is known. Subscriptions elsewhere end."""
        if self.interest is not interest:
            self.unsubscribe_all()
            self.interest = interest
        self.flags &= ~(<uint32_t> AWAITING_AUTH)

    def await_authentication(self):
        """Until `join`, any operation but CONNECT is an authorization violation. So it is for a new link."""
        self.flags |= AWAITING_AUTH

    def configure(self, *, bint verbose, bint pedantic, bint echo, bint headers, bint no_responders):
        """What the peer asked for in CONNECT. It also counts as the proof that CONNECT was received."""
        self.flags &= ~(<uint32_t> (VERBOSE | PEDANTIC | NO_ECHO | NO_HEADERS | NO_RESPONDERS))
        self.flags |= (VERBOSE if verbose else 0) | (PEDANTIC if pedantic else 0) | (0 if echo else NO_ECHO) \
            | (0 if headers else NO_HEADERS) | (NO_RESPONDERS if no_responders else 0) | CONNECTED

    def trace(self, bint traced):
        """Have every operation reported to owner.on_trace."""
        if traced:
            self.flags |= TRACED
        else:
            self.flags &= ~(<uint32_t> TRACED)

    def send(self, bytes data not None):
        """Append to the outbox. It leaves at the end of the tick; outside of one, call Hub.flush."""
        if not self.flags & CLOSED:
            self.hub.send(self, data)

    def hold(self):
        """Stop reading and parsing, from within a callback, until `resume`: the answer takes a while."""
        self.hub.hold(self)

    def resume(self):
        """Continue where `hold` stopped. Call it outside of a poll."""
        self.hub.resume_held(self)

    def close(self, reason):
        """Write what the socket accepts at once, then close it. The owner's on_closed(reason) is called after that."""
        self.hub.close_link(self, reason)

    # -- subscriptions --------------------------------------------------------------------------------------------

    def subscribe(self, bytes subject not None, bytes queue, bytes sid not None):
        """Add a subscription; a sid that is already in use keeps the old one. Raises InvalidSubject."""
        cdef Subscription subscription
        if self.interest is None:
            raise RuntimeError("a link subscribes after it has joined an interest")
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
        """End a subscription, now or (maximum > 0) once this many messages have been delivered on it."""
        cdef Subscription subscription = self.subscriptions.get(sid)
        if subscription is None:
            return
        if maximum > subscription.delivered:
            subscription.maximum = maximum
        else:
            self.interest.remove(subscription)
            del self.subscriptions[sid]

    def some_subscriptions(self, uint64_t place, Py_ssize_t skipped=0):
        """(some of them from a place on, the place to continue from). Begin at 0; after the last ones it is 0 again.

        The first `skipped` of them are left out. A million of them need not be copied in one piece. What comes and
        goes meanwhile may be among them, or not.
        """
        return self.subscriptions.some_values(place, skipped)

    def unsubscribe_all(self):
        while self.subscriptions.count:
            self._unsubscribe_any()

    def unsubscribe_some(self):
        """Of a closed link, which gets nothing any more: the rest of very many when everybody has had a turn."""
        cdef int k
        for k in range(MOST_UNSUBSCRIBED):
            if self.subscriptions.count == 0:
                return
            self._unsubscribe_any()
        self.hub.at_end_of_tick(self.unsubscribe_some)     # which also keeps the link, as long as routes lead to it

    cdef int _unsubscribe_any(self) except -1:
        cdef Subscription subscription
        sid, subscription = self.subscriptions.take_any()
        try:
            self.interest.remove(subscription)
        finally:
            if subscription.node != NULL:
                self.subscriptions[sid] = subscription           # the trie has only a pointer to it
        return 0

    # -- for the other parts of the engine ------------------------------------------------------------------------

    cdef int receive(self, Link publisher, Subscription subscription, Message *message) except -1:
        """A message for a sink."""
        raise NotImplementedError

    cdef int when_drained(self, object waiter) except -1:
        """Have `waiter()` called, at the end of a tick, once the outbox is empty or the link is closed."""
        if self.waiters is None:
            self.waiters = []
        self.waiters.append(waiter)
        return 0


cdef class LinkHost:
    cdef int send(self, Link link, bytes data) except -1:
        """Append to its outbox."""
        raise NotImplementedError

    cdef int hold(self, Link link) except -1:
        """Stop reading it."""
        raise NotImplementedError

    cdef int resume(self, Link link) except -1:
        """Parse what it had already sent when it was paused, and read it again."""
        raise NotImplementedError

    cdef int resume_held(self, Link link) except -1:
        """The same outside of a poll, which ends with a flush."""
        raise NotImplementedError

    cdef int close_link(self, Link link, object reason) except -1:
        """Close it at the end of the tick."""
        raise NotImplementedError

    cdef int at_end_of_tick(self, object action) except -1:
        """Call `action()` then."""
        raise NotImplementedError
