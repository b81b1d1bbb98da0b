"""Who wants which subject: the subscriptions of one account, the routes that follow from them, and change listeners.

Interest has a trie (trie.pyx), which finds the subscriptions that match a subject, and a cache of routes (routes.pyx),
which has what was found for the subjects in use.

Nothing here is ever changed while a route is being walked: the hub ends subscriptions after the message in hand.
A receiver is kept alive as long as one of its subscriptions is in the trie.
"""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.mappings cimport Mappings
from headrace.engine.core.permissions cimport DeliveryFilter
from headrace.engine.core.routes cimport ROUTE_SLOTS, Route, RouteCache
from headrace.engine.core.trie cimport Shadow, Shape, Subscription, Trie, has_shape

cdef list NO_QUEUES = []


cdef class Interest:
    """The subscriptions of one account."""

    def __cinit__(self):
        self.trie = Trie()
        self.routes = RouteCache()
        self.receivers = {}
        self.listeners = {}

    # -- changing interest --------------------------------------------------------------------------------------

    cdef int insert(self, Subscription subscription) except -1:
        """Add a subscription. Raises InvalidSubject, and then nothing has changed."""
        self._keep_receiver(subscription)
        try:
            self.trie.insert(subscription)
        finally:
            if subscription.node == NULL:
                self._drop_receiver(subscription, self._others(subscription))
        self.count += 1
        self.inserts += 1
        self.shadows += isinstance(subscription, Shadow)
        self.routes.invalidate(subscription.subject)
        return self._notify(subscription.subject)

    cdef int remove(self, Subscription subscription) except -1:
        """Remove a subscription; does nothing if it is not here.

        If this runs out of memory while the subscription is still in the trie, nothing has changed.
        """
        if subscription.node == NULL:
            return 0
        others = self._others(subscription)
        self.trie.remove(subscription)
        self.count -= 1
        self.removes += 1
        self.shadows -= isinstance(subscription, Shadow)
        self.routes.invalidate(subscription.subject)
        self._drop_receiver(subscription, others)    # after the routes, which have pointers to it
        return self._notify(subscription.subject)

    cdef int _keep_receiver(self, Subscription subscription) except -1:
        """The trie and the routes have pointers to it: dropping a sink that still subscribes must not free it.

        A dict, and not references that only we know of: the receivers refer to us, and Python's garbage collector has
        to see the cycle.
        """
        if subscription.receiver != NULL:
            receiver = <object> subscription.receiver
            self.receivers[receiver] = self.receivers.get(receiver, 0) + 1
        return 0

    cdef object _others(self, Subscription subscription):
        """How many other subscriptions its receiver has here."""
        return self.receivers[<object> subscription.receiver] - 1 if subscription.receiver != NULL else 0

    cdef int _drop_receiver(self, Subscription subscription, others) except -1:
        if subscription.receiver != NULL:
            if others:
                self.receivers[<object> subscription.receiver] = others
            else:
                del self.receivers[<object> subscription.receiver]
        return 0

    # -- following changes --------------------------------------------------------------------------------------

    def follow(self, bytes subject not None, listener):
        """Call `listener()` whenever a subscription to exactly this subject comes or goes. There may be several."""
        self.listeners[subject] = (*self.listeners.get(subject, ()), listener)

    def unfollow(self, bytes subject not None, listener):
        """Raises ValueError if `listener` is not registered for this subject."""
        cdef list others = list(self.listeners.get(subject, ()))
        others.remove(listener)
        if others:
            self.listeners[subject] = tuple(others)
        else:
            del self.listeners[subject]

    cdef int _notify(self, bytes subject) except -1:
        if self.listeners:
            for listener in self.listeners.get(subject, ()):
                listener()
        return 0

    # -- finding receivers --------------------------------------------------------------------------------------

    cdef Route *_look_further(self, const char *subject, uint32_t length) except NULL:
        """The same, if the subject is not that of the last lookup."""
        cdef uint64_t hashed = 0
        cdef uint32_t plain_count
        cdef Route *route
        cdef Shape before_queues
        cdef const Shape *shape = &self.trie.remembered
        if has_shape(&self.routes.sink_shape, subject, length):
            self.routes.hits += 1
            return self.routes.sink_route
        route = self.routes.find(subject, length, &hashed)
        if route != NULL:
            return route
        self.trie.match(subject, length)
        plain_count = self.trie.found.count
        queue_sizes = NO_QUEUES
        if self.trie.found_queues:
            before_queues = self.trie.remembered
            queue_sizes = self.trie.add_queue_members()
            if not self.filters:       # gets from a bucket have such a queue group: row kv-get of the benchmark
                shape = &before_queues
        if self.filters:
            queue_sizes = self._drop_denied(subject, length, &plain_count, queue_sizes)
        delivered = self._delivered_subjects(subject[:length]) if self.shadows else None
        if shape.length == 0 or delivered is not None or not self._found_one_sink():
            shape = NULL
        return self.routes.add(hashed, subject, length, &self.trie.found, plain_count, queue_sizes, delivered, shape)

    cdef bint _found_one_sink(self) noexcept:
        return self.trie.found.count == 1 and (<Subscription> self.trie.found.items[0]).within

    cdef list _delivered_subjects(self, bytes subject):
        """The subject under which each subscription found gets the message; None: the message's own."""
        cdef list delivered = []
        cdef uint32_t k
        for k in range(self.trie.found.count):
            found = <Subscription> self.trie.found.items[k]
            transform = (<Shadow> found).transform if isinstance(found, Shadow) else None
            delivered.append(None if transform is None else transform(subject))
        return delivered

    cdef bint find(self, const char *subject, uint32_t length) except -1:
        """Match a subject that will not be used again, such as that of a reply, bypassing the cache of routes.

        The plain subscriptions are then in `trie.found`. Returns False if there are queue groups or shadows, too, which
        need a route.
        """
        cdef uint32_t k
        self.trie.match(subject, length)
        if self.trie.found_queues:
            return False
        if self.shadows:
            for k in range(self.trie.found.count):
                if isinstance(<Subscription> self.trie.found.items[k], Shadow):
                    return False
        if self.filters:
            self.trie.found.count = self._keep_allowed(0, self.trie.found.count, 0, subject, length)
        return True

    cdef tuple everybody(self, const char *subject, uint32_t length):
        """(plain subscriptions, [members of each queue group]) that match, even if they may not get the message."""
        cdef uint32_t k, first
        cdef list queues = []
        self.trie.match(subject, length)
        first = self.trie.found.count
        sizes = self.trie.add_queue_members() if self.trie.found_queues else NO_QUEUES
        plain = [<Subscription> self.trie.found.items[k] for k in range(first)]
        for size in sizes:
            queues.append([<Subscription> self.trie.found.items[first + k] for k in range(<uint32_t> size)])
            first += <uint32_t> size
        return plain, queues

    cdef list _drop_denied(self, const char *subject, uint32_t length, uint32_t *plain_count, list queue_sizes):
        """Drop the found subscriptions whose permissions do not allow them messages with this subject.

        `plain_count` of them come first, then the members of each queue group; returns how many of those are left.
        """
        cdef uint32_t first = plain_count[0], kept, before
        cdef list left = []
        kept = plain_count[0] = self._keep_allowed(0, first, 0, subject, length)
        for size in queue_sizes:
            before = kept
            kept = self._keep_allowed(first, <uint32_t> size, kept, subject, length)
            first += <uint32_t> size
            if kept > before:
                left.append(kept - before)
        self.trie.found.count = kept
        return left

    cdef uint32_t _keep_allowed(self, uint32_t first, uint32_t count, uint32_t kept, const char *subject,
                                uint32_t length) except? 0xFFFFFFFF:
        """Move those of `count` subscriptions from `first` on that may get the message to `kept`. Returns their end."""
        cdef void **items = self.trie.found.items
        cdef Subscription subscription
        cdef uint32_t k
        for k in range(first, first + count):
            subscription = <Subscription> items[k]
            if subscription.filter is not None:
                self.trie.remembered.length = 0      # which are left depends on the other tokens, too
                if not delivers(subscription, subject, length):
                    continue
            items[kept] = items[k]
            kept += 1
        return kept

    def has(self, bytes subject not None):
        """Whether a message to `subject` would reach anybody."""
        cdef Route *route = self.lookup(subject, <uint32_t> len(subject))
        return route.target_count + route.queue_count > 0

    def is_wanted(self, bytes subject not None):
        """Whether anybody subscribes to `subject`, bypassing the route cache and its counters: for rare subjects."""
        self.trie.match(subject, <uint32_t> len(subject))
        return self.trie.found.count > 0 or bool(self.trie.found_queues)

    # -- other accounts, other subjects ---------------------------------------------------------------------------

    def map_subjects(self, find):
        """Publish to other subjects than clients ask for: see Mappings. None: stop doing so."""
        self.mappings = None if find is None else Mappings(find)

    def own_receivers(self):
        """The receivers of this account itself, without those of shadows."""
        return [receiver for receiver in self.receivers if receiver.interest is self]

    # -- for monitoring and tests ---------------------------------------------------------------------------------

    @property
    def cache_hits(self):
        return self.routes.hits

    @property
    def cached_routes(self):
        cdef uint64_t count = 0
        cdef int k
        for k in range(ROUTE_SLOTS):
            count += self.routes.slots[k] != NULL
        return count

    @property
    def cached_fanout(self):
        """(maximum, sum) of the number of receivers of the cached routes; a queue group counts as one."""
        cdef uint64_t receivers, largest = 0, total = 0
        cdef Route *route
        cdef int k
        for k in range(ROUTE_SLOTS):
            route = self.routes.slots[k]
            if route != NULL:
                receivers = route.target_count + route.queue_count
                total += receivers
                if receivers > largest:
                    largest = receivers
        return largest, total

    @property
    def node_count(self):
        """Literal nodes of the trie: 0 once every subscription is gone."""
        return self.trie.table.used + self.trie.old_table.used

    def add(self, Subscription subscription not None):
        """Insert a subscription that has no receiver; raises InvalidSubject."""
        self.insert(subscription)

    def discard(self, Subscription subscription not None):
        self.remove(subscription)

    def match(self, bytes subject not None):
        """What a publish to `subject` would reach: (plain subscriptions, [members of each queue group])."""
        cdef Route *route = self.lookup(subject, <uint32_t> len(subject))
        cdef uint32_t k, group = route.plain_group_count
        plain = [<Subscription> route.targets[k] for k in range(route.target_count)]
        queues = []
        for k in range(route.queue_count):
            members = []
            while group < route.queue_ends[k]:
                members.append(<Subscription> route.targets[route.groups[group].first])
                group += 1
            queues.append(members)
        return plain, queues


cdef bint delivers(Subscription subscription, const char *subject, uint32_t length) except -1:
    """Whether its receiver may get a message with this subject, judged by the one it would be delivered under."""
    cdef DeliveryFilter filter = subscription.filter
    cdef bytes delivered
    if isinstance(subscription, Shadow) and (<Shadow> subscription).transform is not None:
        delivered = (<Shadow> subscription).transform(subject[:length])
        return filter.delivers(delivered, <uint32_t> len(delivered))
    return filter.delivers(subject, length)
