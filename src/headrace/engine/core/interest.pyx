"""Who wants which subject: the subscriptions of one account, the routes that follow from them, and who follows changes.

Interest has a trie (trie.pyx), which finds the subscriptions that match a subject, and a cache of routes (routes.pyx),
which has what was found for the subjects in use.

Nothing here is ever changed while a route is being walked: the hub ends subscriptions after the message in hand.
A receiver is kept alive as long as one of its subscriptions is in the trie.
"""

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp

from headrace.engine.core.routes cimport ROUTE_SLOTS, Route, RouteCache
from headrace.engine.core.trie cimport Subscription, Trie

cdef list NO_QUEUES = []


@cython.final
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
        self.routes.invalidate(subscription.subject)
        return self._notify(subscription.subject)

    cdef int remove(self, Subscription subscription) except -1:
        """Remove a subscription; one that is not here is left alone.

        If this fails while it is still in the trie, for want of memory, nothing has changed.
        """
        if subscription.node == NULL:
            return 0
        others = self._others(subscription)
        self.trie.remove(subscription)
        self.count -= 1
        self.removes += 1
        self.routes.invalidate(subscription.subject)
        self._drop_receiver(subscription, others)    # after the routes, which have pointers to it
        return self._notify(subscription.subject)

    cdef int _keep_receiver(self, Subscription subscription) except -1:
        """The trie and the routes have pointers: whoever drops a sink that still subscribes must not free it.

        A dict, and not references that only we know of: the receivers refer to us, and Python's collector has to see
        the cycle.
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
        """Call `listener()` whenever a subscription to exactly this subject comes or goes. Any number may follow it."""
        self.listeners[subject] = (*self.listeners.get(subject, ()), listener)

    def unfollow(self, bytes subject not None, listener):
        """Raises ValueError if `listener` does not follow this subject."""
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

    cdef Route *lookup(self, const char *subject, uint32_t length) except NULL:
        """The route of a subject. It is valid until interest changes or the next lookup."""
        cdef Route *route = self.routes.latest
        self.matches += 1
        if route != NULL and route.subject_length == length and route.validated == self.routes.wildcard_changes \
                and memcmp(route.text, subject, length) == 0:
            self.routes.hits += 1
            return route
        return self._look_further(subject, length)

    cdef Route *_look_further(self, const char *subject, uint32_t length) except NULL:
        """The same for another subject than that of the last lookup."""
        cdef uint64_t hashed = 0
        cdef uint32_t plain_count
        cdef Route *route = self.routes.find(subject, length, &hashed)
        if route != NULL:
            return route
        self.trie.match(subject, length)
        plain_count = self.trie.found.count
        queue_sizes = self.trie.add_queue_members() if self.trie.found_queues else NO_QUEUES
        return self.routes.add(hashed, subject, length, &self.trie.found, plain_count, queue_sizes)

    cdef bint find(self, const char *subject, uint32_t length) except -1:
        """Match a subject that will not come again, such as that of a reply, past the cache of routes.

        The plain subscriptions are then in `trie.found`. Returns False if there are queue groups, too, which need a route.
        """
        self.trie.match(subject, length)
        return len(self.trie.found_queues) == 0

    def has(self, bytes subject not None):
        """Whether a message to `subject` would reach anybody."""
        cdef Route *route = self.lookup(subject, <uint32_t> len(subject))
        return route.target_count + route.queue_count > 0

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
        """(the largest, the sum) of how many receivers the cached routes have; a queue group is one."""
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
