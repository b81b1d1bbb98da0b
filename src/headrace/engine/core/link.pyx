"""One connection as the engine sees it. The broker's ClientConnection is its owner, and decides."""

from cpython.mem cimport PyMem_Free
from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.interest cimport Interest
from headrace.engine.core.message cimport Message
from headrace.engine.core.permissions cimport PermissionSet, Responses
from headrace.engine.basics.system cimport monotonic
from headrace.engine.core.transport cimport Transport
from headrace.engine.core.trie cimport Shadow, Subscription

NO_LIMIT = 0x7fffffffffffffff                # for max_payload
cdef int MOST_UNSUBSCRIBED = 500             # at once, about half a millisecond


cdef class Link:
    """See link.pxd. Created by Hub.attach."""

    def __cinit__(self, *_):
        self.max_payload = NO_LIMIT
        self.imports = True

    def __dealloc__(self):
        PyMem_Free(self.backlog)
        PyMem_Free(self.pieces)
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
        return backlog_length(self) + self.span_length + self.pieces_length

    @property
    def awaited_responses(self):
        """To how many reply subjects it may publish because it was asked to."""
        return 0 if self.responses is None else len(self.responses)

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
        """Until `join`, any operation but CONNECT is an authorization violation, as it is for a new link."""
        self.flags |= AWAITING_AUTH

    def restrict(self, PermissionSet permissions):
        """What the peer may do from now on; None: everything. Its subscriptions stay, but may get less."""
        cdef Subscription subscription
        cdef bint is_new = permissions is not self.permissions
        self.permissions = permissions
        self.responses = None
        self.flags &= ~(<uint32_t> (RESTRICTED | RESPONDS))
        if permissions is not None:
            if permissions.limits_publishing:
                self.flags |= RESTRICTED
            if permissions.max_responses:
                self.responses = Responses(permissions)
                self.flags |= RESPONDS
        for sid in self.subscriptions if is_new else ():
            subscription = self.subscriptions[sid]
            self._filter(subscription)
            self.interest.routes.invalidate(subscription.subject)
        if is_new and self.shadows is not None:
            self.renew_shadows()

    def configure(self, *, bint verbose, bint pedantic, bint echo, bint headers, bint no_responders):
        """What the peer asked for in CONNECT. Calling this also records that CONNECT was received."""
        self.flags &= ~(<uint32_t> (VERBOSE | PEDANTIC | NO_ECHO | NO_HEADERS | NO_RESPONDERS))
        self.flags |= (VERBOSE if verbose else 0) | (PEDANTIC if pedantic else 0) | (0 if echo else NO_ECHO) \
            | (0 if headers else NO_HEADERS) | (NO_RESPONDERS if no_responders else 0) | CONNECTED

    def trace(self, bint traced):
        """Report every operation to owner.on_trace."""
        if traced:
            self.flags |= TRACED
        else:
            self.flags &= ~(<uint32_t> TRACED)

    def send(self, bytes data not None):
        """Append to the outbox. It leaves at the end of the tick; outside of one, call Hub.flush."""
        if not self.flags & CLOSED:
            self.hub.send(self, data)

    def hold(self):
        """Stop reading and parsing, from within a callback, until `resume`: for an answer that takes a while."""
        self.hub.hold(self)

    def resume(self):
        """Continue where `hold` stopped. Call it outside of a poll."""
        self.hub.resume_held(self)

    def await_greeting(self, bint writable=False):
        """For a greeting link: call on_greeting when it is readable, or only when it is writable."""
        self.hub.await_greeting(self, writable)

    def end_greeting(self, Transport transport=None):
        """From now on the parser gets what arrives. If a transport is given, input and output go through it."""
        self.hub.end_greeting(self, transport)

    def limit_message(self, long long size):
        """Tell its transport, which may assemble messages, how long they may be."""
        if self.transport is not None:
            self.transport.limit_message(size)

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
        subscription.within = self.flags & SINK != 0
        if self.permissions is not None:
            self._filter(subscription)
        self.subscriptions[sid] = subscription       # first: the trie has only a pointer to it
        try:
            self.interest.insert(subscription)
        finally:
            if subscription.node == NULL:
                del self.subscriptions[sid]
        if self.interest.imports is not None and self.imports:
            self._add_shadows(subscription)

    cdef int _filter(self, Subscription subscription) except -1:
        """Restrict it to what the peer may get."""
        subscription.filter = None if self.permissions is None \
            else self.permissions.filter_of(subscription.subject, subscription.queue)
        if subscription.filter is not None:
            self.interest.filters = True
        return 0

    def unsubscribe(self, bytes sid not None, long long maximum):
        """End a subscription, now or (maximum > 0) once this many messages have been delivered on it."""
        cdef Subscription subscription = self.subscriptions.get(sid)
        if subscription is None:
            return
        if maximum > subscription.delivered:
            subscription.maximum = maximum
        else:
            self.end(subscription)
            del self.subscriptions[sid]

    def some_subscriptions(self, uint64_t place, Py_ssize_t skipped=0):
        """(some of them from a place on, the place to continue from). Begin at 0; after the last ones it is 0 again.

        The first `skipped` of them are left out. A million of them need not be copied at once. Those that come or
        go in the meantime may or may not be included.
        """
        return self.subscriptions.some_values(place, skipped)

    def unsubscribe_all(self):
        while self.subscriptions.count:
            self._unsubscribe_any()

    def unsubscribe_some(self):
        """For a closed link with very many subscriptions: end some now and the rest after others have had a turn."""
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
            self.end(subscription)
        finally:
            if subscription.node != NULL:
                self.subscriptions[sid] = subscription           # the trie has only a pointer to it
        return 0

    cdef int end(self, Subscription subscription) except -1:
        """Take a subscription out of its interest, and its shadows out of theirs.

        If this runs out of memory while the subscription is still in the trie, it can be called again.
        """
        if self.shadows is not None:
            self._end_shadows(subscription.sid)
        return self.interest.remove(subscription)

    # -- what its account imports ---------------------------------------------------------------------------------

    cdef int _add_shadows(self, Subscription subscription) except -1:
        cdef Interest interest
        cdef Shadow shadow
        cdef list shadows = []
        for interest, subject, transform, allows_trace in self.interest.imports(subscription.subject):
            shadow = Shadow(subject, subscription.queue, subscription.sid)
            shadow.receiver = <void *> self
            shadow.interest = interest
            shadow.transform = transform
            shadow.allows_trace = allows_trace
            shadow.filter = subscription.filter
            if shadow.filter is not None:
                interest.filters = True
            if self.shadows is None:
                self.shadows = {}
            self.shadows[subscription.sid] = shadows
            shadows.append(shadow)                  # first: the trie has only a pointer to it
            try:
                interest.insert(shadow)
            finally:
                if shadow.node == NULL:
                    shadows.remove(shadow)
        return 0

    cdef int _end_shadows(self, bytes sid) except -1:
        cdef list shadows = self.shadows.get(sid)
        cdef Shadow shadow
        if shadows is None:
            return 0
        while shadows:
            shadow = shadows[len(shadows) - 1]
            (<Interest> shadow.interest).remove(shadow)
            shadows.pop()
        del self.shadows[sid]
        if not self.shadows:
            self.shadows = None
        return 0

    def renew_shadows(self):
        """What the account imports has changed."""
        cdef Subscription subscription
        cdef uint64_t place = 0
        if self.shadows is not None:
            for sid in list(self.shadows):
                self._end_shadows(sid)
        if self.interest is None or self.interest.imports is None or not self.imports or self.flags & CLOSED:
            return
        while True:
            some, place = self.subscriptions.some_values(place, 0)
            for subscription in some:
                self._add_shadows(subscription)
            if place == 0:
                return

    # -- for the other parts of the engine ------------------------------------------------------------------------

    cdef int receive(self, Link publisher, Subscription subscription, Message *message) except -1:
        """A message for a sink."""
        raise NotImplementedError

    cdef bint receive_traced(self, Link publisher, Subscription subscription, Message *message, object trace) except -1:
        """A traced message for a sink. Returns whether the sink got it.

        Most sinks are parts of the server. Traces do not show those, and they get trace-only messages, too.
        """
        self.receive(publisher, subscription, message)
        return True

    cdef int when_drained(self, object waiter) except -1:
        """Call `waiter()` at the end of a tick, once the outbox is empty or the link is closed."""
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
        """The same outside of a poll; ends with a flush."""
        raise NotImplementedError

    cdef int await_greeting(self, Link link, bint writable) except -1:
        """Set which event its owner is called for."""
        raise NotImplementedError

    cdef int end_greeting(self, Link link, Transport transport) except -1:
        """Hand it to the parser."""
        raise NotImplementedError

    cdef int close_link(self, Link link, object reason) except -1:
        """Close it at the end of the tick."""
        raise NotImplementedError

    cdef int at_end_of_tick(self, object action) except -1:
        """Call `action()` then."""
        raise NotImplementedError
