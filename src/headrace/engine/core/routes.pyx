"""Where the messages of a subject go: routes, cached until interest that matches their subject changes.

A route has the subscriptions that match a subject, laid out so that the delivery loop only copies. Subscribers that
would get byte for byte the same frame (same subject, same sid) form a group, whose frame is written once for all of
them. Routes are cached in a direct-mapped table: one slot per hash, and the newest replaces the one before. Its size
bounds the memory that a peer can make us use by publishing to ever new subjects. (Routes to many receivers are long:
past CACHE_BYTES together, slots are emptied in turn.)

A subject gets into the table the second time it is used. Many never are: replies are sent to subjects that are made for
them. Their routes are written into one block of memory, each over the previous one, and replace nothing.

Acknowledgements of a consumer's messages, and most subjects of a stream, are used once and have one receiver, a sink,
to which no frame is written. One route then serves all subjects of the same shape (trie.pxd), which saves a fifth of
the server's work in row stream-pull of the benchmark. Likewise for gets from a bucket, whose sink is the only member of
a queue group: two fifths of the server's work in row kv-get.

A route is dropped exactly when interest that matches it changes:
  - a change to a literal subject affects one slot of the table;
  - a change to a wildcard subject is only noted in a journal. A route compares the notes made since it was last used
    with its own subject and, if none matches, is valid again. One that was not used for a whole journal is rebuilt.
So SUB and UNSUB cost the same however many routes are cached; scanning the table, which is what nats-server does for
wildcards, would make a wildcard SUB cost 30 us with a full table.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.basics.copying cimport BLOCK
from headrace.engine.basics.filters cimport matches_pattern
from headrace.engine.basics.hashing cimport hash_of
from headrace.engine.core.trie cimport Shape, Subscription, SubscriptionList

import os

cdef size_t CACHE_BYTES = 16 * 1024 * 1024   # of all cached routes together
cdef size_t PASSING_BYTES = 16 * 1024        # the longest that is not cached the first time its subject is used
cdef uint64_t JOURNAL = 64                   # wildcard changes that a cached route can catch up with


@cython.final
cdef class RouteCache:
    def __cinit__(self):
        self.seed = int.from_bytes(os.urandom(8), 'little')
        self.slots = <Route **> PyMem_Calloc(ROUTE_SLOTS, sizeof(Route *))
        self.seen = <uint32_t *> PyMem_Calloc(ROUTE_SLOTS, sizeof(uint32_t))
        if self.slots == NULL or self.seen == NULL:
            raise MemoryError
        self.changed_patterns = [None] * <Py_ssize_t> JOURNAL

    def __dealloc__(self):
        cdef int k
        if self.slots != NULL:
            for k in range(ROUTE_SLOTS):
                PyMem_Free(self.slots[k])
        PyMem_Free(self.slots)
        PyMem_Free(self.seen)
        PyMem_Free(self.passing)
        PyMem_Free(self.sink_route)

    cdef Route *find(self, const char *subject, uint32_t length, uint64_t *hashed) except? NULL:
        """The cached route of a subject; NULL: there is none. `hashed` is the hash of the subject."""
        cdef Route *route
        hashed[0] = hash_of(subject, length, self.seed)
        route = self.slots[hashed[0] & (ROUTE_SLOTS - 1)]
        if route == NULL or route.hash != hashed[0] or route.subject_length != length \
                or memcmp(route.text, subject, length) != 0:
            return NULL
        if route.validated == self.wildcard_changes or self._still_holds(route):
            self.hits += 1
            self.latest = route
            return route
        self._drop(hashed[0] & (ROUTE_SLOTS - 1))
        return NULL

    cdef Route *add(self, uint64_t hashed, const char *subject, uint32_t length, SubscriptionList *found,
                    uint32_t plain_count, list queue_sizes, list delivered, const Shape *shape) except NULL:
        """Make a route to these subscriptions, the plain ones first. Valid until interest changes or the next call.

        `delivered` has the subjects of those that get it under another one; None: nobody does. `shape` describes the
        subjects that the route is good for; NULL: only this one.
        """
        cdef size_t size = size_of_route(length, found, <uint32_t> len(queue_sizes), delivered)
        cdef bint lasting = self._was_seen(hashed) or size > PASSING_BYTES
        cdef bint own = lasting or shape != NULL
        cdef Route *route = self._block(size, own)
        fill_route(route, size, subject, length, found, plain_count, <uint32_t> len(queue_sizes))
        route.hash = hashed
        route.validated = self.wildcard_changes
        route.has_shadows = delivered is not None
        try:
            write_groups(route, found.count, delivered)
            write_queue_ends(route, queue_sizes)
        except BaseException:
            if own:
                PyMem_Free(route)
            raise
        if lasting:
            self._drop(hashed & (ROUTE_SLOTS - 1))
            self.used_bytes += size
            while self.used_bytes > CACHE_BYTES and self.used_bytes > size:
                self._drop(self.hand)
                self.hand = (self.hand + 1) & (ROUTE_SLOTS - 1)
            self.slots[hashed & (ROUTE_SLOTS - 1)] = route
        elif own:
            self._keep_for_shape(route, shape)
        self.latest = route
        return route

    cdef void _keep_for_shape(self, Route *route, const Shape *shape) noexcept:
        if self.latest == self.sink_route:
            self.latest = NULL
        PyMem_Free(self.sink_route)
        self.sink_route = route
        self.sink_shape = shape[0]

    cdef bint _was_seen(self, uint64_t hashed) noexcept:
        """Whether this subject was the last one not found in its slot. From now on it is."""
        cdef uint32_t *seen = &self.seen[hashed & (ROUTE_SLOTS - 1)]
        cdef uint32_t part = <uint32_t> (hashed >> 32) | 1
        if seen[0] == part:
            return True
        seen[0] = part
        return False

    cdef Route *_block(self, size_t size, bint lasting) except NULL:
        """Memory for a route: a block of its own, or the shared one until the next call."""
        cdef Route *block
        if not lasting:
            if self.latest == self.passing:
                self.latest = NULL     # it is about to be overwritten
            if size <= self.passing_capacity:
                return self.passing
        block = <Route *> PyMem_Malloc(size)
        if block == NULL:
            raise MemoryError
        if not lasting:
            PyMem_Free(self.passing)
            self.passing = block
            self.passing_capacity = size
        return block

    cdef void _drop(self, uint64_t slot) noexcept:
        if self.slots[slot] == NULL:
            return
        if self.latest == self.slots[slot]:
            self.latest = NULL
        self.used_bytes -= self.slots[slot].size
        PyMem_Free(self.slots[slot])
        self.slots[slot] = NULL

    cdef int invalidate(self, bytes subject) except -1:
        """Interest in a subject has changed."""
        cdef uint64_t hashed
        cdef Route *route
        if b'*' in subject or b'>' in subject:
            self.changed_patterns[self.wildcard_changes % JOURNAL] = subject
            self.wildcard_changes += 1
            # A `*` or `>` inside a longer token is literal text, so drop that exact route too.
        self.sink_shape.length = 0
        if self.latest == self.passing or self.latest == self.sink_route:
            self.latest = NULL       # its subject may be this one
        hashed = hash_of(subject, len(subject), self.seed)
        route = self.slots[hashed & (ROUTE_SLOTS - 1)]
        if route != NULL and route.hash == hashed:
            self._drop(hashed & (ROUTE_SLOTS - 1))
        return 0

    cdef bint _still_holds(self, Route *route) except -1:
        """Compare the wildcard changes since the route was last used with its subject."""
        cdef uint64_t change = route.validated
        cdef bytes pattern
        if self.wildcard_changes - change > JOURNAL:
            return False
        while change < self.wildcard_changes:
            pattern = <bytes> self.changed_patterns[change % JOURNAL]
            if matches_pattern(pattern, len(pattern), route.text, route.subject_length):
                return False
            change += 1
        route.validated = change
        return True


# -- the layout: one block of memory ----------------------------------------------------------------------------------

cdef size_t size_of_route(uint32_t length, SubscriptionList *found, uint32_t queue_count, list delivered) except 0:
    cdef size_t text_length = length
    cdef uint32_t k
    for k in range(found.count):
        text_length += 7 + length + len((<Subscription> found.items[k]).sid)
        if delivered is not None and delivered[k] is not None:
            text_length += len(<bytes> delivered[k])
    if found.count > 1:
        text_length += BLOCK       # the heads of several frames are copied in blocks: see Deliveries._send_to_one
    return sizeof(Route) + found.count * (sizeof(void *) + sizeof(Group)) + queue_count * sizeof(uint32_t) + text_length


cdef void fill_route(Route *route, size_t size, const char *subject, uint32_t length, SubscriptionList *found,
                     uint32_t plain_count, uint32_t queue_count) noexcept:
    """Its targets and its subject; groups and prefixes are still to be written."""
    memset(route, 0, sizeof(Route))
    route.size = size
    route.subject_length = length
    route.target_count = plain_count
    route.queue_count = queue_count
    route.targets = <void **> (route + 1)
    route.groups = <Group *> (route.targets + found.count)
    route.queue_ends = <uint32_t *> (route.groups + found.count)
    route.text = <char *> (route.queue_ends + queue_count)
    memcpy(route.text, subject, length)
    if found.count:
        memcpy(route.targets, found.items, found.count * sizeof(void *))


cdef int write_groups(Route *route, uint32_t count, list delivered) except -1:
    """Neighbours with the same sid form a group, except in a queue group, of which one member gets the message.

    So do those that get it under the same other subject.
    """
    cdef char *text = route.text + route.subject_length
    cdef uint32_t k, group = 0
    cdef Subscription subscription
    cdef bytes previous = None, previous_subject = None, subject = None
    for k in range(count):
        subscription = <Subscription> route.targets[k]
        if delivered is not None:
            subject = <bytes> delivered[k]
        if k < route.target_count and previous is not None and previous == subscription.sid \
                and previous_subject == subject:
            route.groups[group - 1].count += 1
            continue
        previous = subscription.sid
        previous_subject = subject
        route.groups[group].first = k
        route.groups[group].count = 1
        route.groups[group].placed_in = 0
        route.groups[group].prefix = <uint32_t> (text - route.text)
        if subject is None:
            text = write_prefix(text, route.text, route.subject_length, subscription.sid)
        else:
            text = write_prefix(text, subject, <uint32_t> len(subject), subscription.sid)
        route.groups[group].prefix_length = <uint32_t> (text - route.text) - route.groups[group].prefix
        group += 1
        if k < route.target_count:
            route.plain_group_count = group
    route.group_count = group
    route.has_one_receiver = have_one_receiver(route, count)
    assert <size_t> (text - <char *> route) <= route.size
    return 0


cdef bint have_one_receiver(Route *route, uint32_t count) noexcept:
    cdef uint32_t k
    for k in range(1, count):
        if (<Subscription> route.targets[k]).receiver != (<Subscription> route.targets[0]).receiver:
            return False
    return count > 0


cdef int write_queue_ends(Route *route, list queue_sizes) except -1:
    cdef uint32_t queue, group = route.plain_group_count
    for queue in range(route.queue_count):
        group += <uint32_t> queue_sizes[queue]
        route.queue_ends[queue] = group
    assert group == route.group_count
    return 0


cdef char *write_prefix(char *at, const char *subject, uint32_t length, bytes sid) noexcept:
    memcpy(at, b'HMSG ', 5)
    memcpy(at + 5, subject, length)
    at[5 + length] = c' '
    memcpy(at + 6 + length, <const char *> sid, len(sid))
    at[6 + length + len(sid)] = c' '
    return at + 7 + length + len(sid)
