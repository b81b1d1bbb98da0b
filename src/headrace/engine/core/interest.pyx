"""Who wants which subject: a trie of subscriptions, and routes cached from it.

The trie. A subject is a path of tokens, so a node stands for a prefix:

    root ── orders ──┬── eu          node.plain:  subscriptions to  orders.eu
                     ├── *   ── paid                              orders.*.paid
                     └── >                                        orders.>

Children for `*` and `>` hang on the node itself. Literal children of *all* nodes live in one open-addressing hash
table under the key (parent, token): a node costs its token and a few pointers, and a million different subjects
make one big table instead of a million small ones. The hash is seeded, so that nobody can choose collisions.
A table that is full is replaced by a larger one, to which the nodes move a few at a time: moving a million of them at
once would take 50 ms.

Routes. Matching a subject gives a Route: the subscriptions that match, laid out so that the delivery loop only
copies. Subscribers that would get byte for byte the same frame (same subject, same sid) form a group, whose frame is
written once for all of them. Routes are kept in a direct-mapped table: one place per hash, the newest wins. It needs
no eviction policy, and its size bounds the memory that a peer can make us spend by publishing to ever new subjects.
(Routes to many receivers are long: past ROUTE_BYTES together, places are emptied in turn.)

A route is dropped exactly when interest that matches it changes:
  - a change of a literal subject concerns one place of the table;
  - a change of a wildcard subject is only noted in a journal. A route compares the notes made since it was last used
    with its own subject and, if none matches, is good again. One that slept through a whole journal is rebuilt.
So SUB and UNSUB cost the same however many routes are cached; scanning the table, which is what nats-server does for
wildcards, would make a wildcard SUB cost 30 us with a full table.

Nothing here is ever changed while a route is being walked: the hub ends subscriptions after the message in hand.
A receiver is kept alive as long as one of its subscriptions is in the trie.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from headrace.engine.core.filters cimport matches_pattern
from headrace.engine.core.hashing cimport hash_of
from headrace.engine.core.wide_map cimport WideMap

import os

cdef uint64_t ROUTE_PLACES = 8192          # a power of two
cdef size_t ROUTE_BYTES = 16 * 1024 * 1024   # of all cached routes together
cdef uint64_t JOURNAL = 64                   # wildcard changes that a cached route can catch up with
cdef uint64_t FIRST_TABLE = 64
cdef int PLACES_MOVED = 8                    # of the old table, with every node that is added


class InvalidSubject(ValueError):
    """The subject has an empty token, or a `>` that is not its last token."""


@cython.no_gc      # it can be part of no circle, and the collector would walk through a million of them
cdef class Subscription:
    def __cinit__(self, bytes subject not None, bytes queue, bytes sid not None):
        self.receiver = NULL
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.delivered = 0
        self.maximum = 0
        self.node = NULL

    @property
    def owner(self):
        """Who decides for its receiver; None if it is not in a trie (any more), or nobody does."""
        return None if self.node == NULL or self.receiver == NULL else (<object> self.receiver).owner


cdef int append(SubscriptionList *subscriptions, void *item) except -1:
    cdef uint32_t capacity
    cdef void *grown
    if subscriptions.count == subscriptions.capacity:
        capacity = 2 * subscriptions.capacity if subscriptions.capacity else 1
        grown = PyMem_Realloc(subscriptions.items, capacity * sizeof(void *))
        if grown == NULL:
            raise MemoryError
        subscriptions.items = <void **> grown
        subscriptions.capacity = capacity
    subscriptions.items[subscriptions.count] = item
    subscriptions.count += 1
    return 0


cdef int attach(SubscriptionList *subscriptions, Subscription subscription) except -1:
    subscription.position = subscriptions.count
    return append(subscriptions, <void *> subscription)


cdef int detach(SubscriptionList *subscriptions, Subscription subscription) except -1:
    """Take a subscription out of its list; the last one takes its place, as order means nothing here."""
    cdef Subscription last
    assert subscriptions.items[subscription.position] == <void *> subscription
    subscriptions.count -= 1
    last = <Subscription> subscriptions.items[subscriptions.count]
    subscriptions.items[subscription.position] = <void *> last
    last.position = subscription.position
    if subscriptions.count == 0:
        PyMem_Free(subscriptions.items)
        subscriptions.items = NULL
        subscriptions.capacity = 0
    return 0


cdef Node *new_node(Node *parent, const char *token, uint32_t length) except NULL:
    cdef Node *node = <Node *> PyMem_Malloc(sizeof(Node) + length)
    if node == NULL:
        raise MemoryError
    memset(node, 0, sizeof(Node))
    node.parent = parent
    node.token_length = length
    memcpy(node.token, token, length)
    return node


cdef void free_node(Node *node) noexcept:
    cdef uint32_t k
    PyMem_Free(node.plain.items)
    for k in range(node.queue_count):
        PyMem_Free(node.queues[k].members.items)
    PyMem_Free(node.queues)
    PyMem_Free(node)


cdef Node *find_node(Table *table, uint64_t hashed, Node *parent, const char *token, uint32_t length) noexcept:
    cdef uint64_t place = hashed & table.mask
    cdef Node *node = table.places[place]
    while node != NULL:
        if node.hash == hashed and node.parent == parent and node.token_length == length \
                and memcmp(node.token, token, length) == 0:
            return node
        place = (place + 1) & table.mask
        node = table.places[place]
    return NULL


cdef bint has_node(Table *table, Node *node) noexcept:
    cdef uint64_t place = node.hash & table.mask
    while table.places[place] != NULL:
        if table.places[place] == node:
            return True
        place = (place + 1) & table.mask
    return False


cdef void put_node(Table *table, Node *node) noexcept:
    cdef uint64_t place = node.hash & table.mask
    while table.places[place] != NULL:
        place = (place + 1) & table.mask
    table.places[place] = node
    table.used += 1


cdef void take_node(Table *table, Node *node) noexcept:
    """Delete from the table by moving later entries of the run back, so that no tombstones pile up."""
    cdef uint64_t hole = node.hash & table.mask
    cdef uint64_t place, home
    while table.places[hole] != node:
        hole = (hole + 1) & table.mask
    place = hole
    while True:
        place = (place + 1) & table.mask
        if table.places[place] == NULL:
            break
        home = table.places[place].hash & table.mask
        # An entry may move to the hole unless its home lies between the hole and where it stands.
        if ((place - home) & table.mask) >= ((place - hole) & table.mask):
            table.places[hole] = table.places[place]
            hole = place
    table.places[hole] = NULL
    table.used -= 1


cdef void free_table(Table *table) noexcept:
    cdef uint64_t k
    if table.places != NULL:
        for k in range(table.mask + 1):
            if table.places[k] != NULL:
                free_wildcards(table.places[k])
                free_node(table.places[k])
        PyMem_Free(table.places)


cdef bint has_wildcard(bytes subject):
    return b'*' in subject or b'>' in subject


cdef class Interest:
    """The subscriptions of one account, and the routes that follow from them."""

    def __cinit__(self):
        self.seed = int.from_bytes(os.urandom(8), 'little')
        self.table.mask = FIRST_TABLE - 1
        self.table.places = <Node **> PyMem_Calloc(FIRST_TABLE, sizeof(Node *))
        self.routes = <Route **> PyMem_Malloc(ROUTE_PLACES * sizeof(Route *))
        if self.table.places == NULL or self.routes == NULL:
            raise MemoryError
        memset(self.routes, 0, ROUTE_PLACES * sizeof(Route *))
        self.root = new_node(NULL, b'', 0)
        self.changed_patterns = [None] * <Py_ssize_t> JOURNAL
        self.found_queues = []
        self.queue_places = WideMap()
        self.receivers = {}
        self.watched = {}

    def __dealloc__(self):
        cdef uint64_t k
        free_table(&self.table)
        free_table(&self.old_table)
        if self.root != NULL:
            free_wildcards(self.root)
            free_node(self.root)
        if self.routes != NULL:
            for k in range(ROUTE_PLACES):
                PyMem_Free(self.routes[k])
        PyMem_Free(self.routes)
        PyMem_Free(self.found.items)

    # -- changing interest --------------------------------------------------------------------------------------

    cdef int insert(self, Subscription subscription) except -1:
        """Hang a subscription into the trie. Raises InvalidSubject, and then nothing has changed."""
        cdef bytes subject = subscription.subject
        cdef list tokens = subject.split(b'.')
        if b'' in tokens or b'>' in tokens[:len(tokens) - 1]:
            raise InvalidSubject(subject.decode(errors='replace'))
        self._hang(self._path_to(tokens), subscription)
        self.count += 1
        self.inserts += 1
        self._invalidate(subject)
        self._tell(subject)
        return 0

    cdef Node *_path_to(self, list tokens) except NULL:
        """The node of these tokens, which is made if it is not there."""
        cdef bytes token
        cdef Node *node = self.root
        cdef Node *child
        try:
            for token in tokens:
                if token == b'*':
                    if node.any_token == NULL:
                        node.any_token = new_node(node, token, 1)
                    node = node.any_token
                elif token == b'>':
                    if node.any_tail == NULL:
                        node.any_tail = new_node(node, token, 1)
                    node = node.any_tail
                else:
                    child = self._child(node, token, <uint32_t> len(token))
                    if child == NULL:
                        child = self._add_child(node, token, <uint32_t> len(token))
                    node = child
        except MemoryError:
            self._prune(node)
            raise
        return node

    cdef int _hang(self, Node *node, Subscription subscription) except -1:
        """Into the list of the node. All that can fail comes before the step that puts the pointer there."""
        cdef bint is_kept = False
        try:
            self._keep(subscription)
            is_kept = True
            if subscription.queue is None:
                attach(&node.plain, subscription)
            else:
                subscription.queue_key = (<char *> &node)[:sizeof(node)] + subscription.queue
                place = self.queue_places.get(subscription.queue_key)
                if place is None:
                    place = self.queue_places[subscription.queue_key] = node.queue_count
                if place == node.queue_count:
                    add_queue(node, subscription)
                else:
                    attach(&node.queues[<uint32_t> place].members, subscription)
        except MemoryError:
            if subscription.queue_key is not None and self.queue_places.get(subscription.queue_key) == node.queue_count:
                del self.queue_places[subscription.queue_key]
            if is_kept:
                self._release(subscription, self._remaining(subscription))
            self._prune(node)
            raise
        subscription.node = node
        return 0

    cdef int remove(self, Subscription subscription) except -1:
        """Take a subscription out of the trie; one that is not in it is left alone.

        If this fails while it is still in the trie, for want of memory, nothing has changed.
        """
        cdef Node *node = subscription.node
        cdef QueueGroup *group
        cdef uint32_t k
        if node == NULL:
            return 0
        remaining = self._remaining(subscription)
        if subscription.queue is None:
            detach(&node.plain, subscription)
        else:
            place = self.queue_places[subscription.queue_key]
            k = <uint32_t> place
            group = &node.queues[k]
            detach(&group.members, subscription)
            if group.members.count:
                # The name is borrowed from a member, and this one is leaving.
                group.name = <void *> (<Subscription> group.members.items[0]).queue
            else:
                del self.queue_places[subscription.queue_key]
                node.queue_count -= 1
                if k < node.queue_count:
                    node.queues[k] = node.queues[node.queue_count]
                    self.queue_places[(<Subscription> node.queues[k].members.items[0]).queue_key] = place
        subscription.node = NULL
        self.count -= 1
        self.removes += 1
        self._invalidate(subscription.subject)
        self._prune(node)
        self._release(subscription, remaining)
        self._tell(subscription.subject)
        return 0

    cdef int _keep(self, Subscription subscription) except -1:
        """The trie and the routes have pointers: whoever drops a sink that still subscribes must not free it.

        A dict, and not references that only we know of: the receivers refer to us, and Python's collector has to see
        the circle.
        """
        if subscription.receiver != NULL:
            receiver = <object> subscription.receiver
            self.receivers[receiver] = self.receivers.get(receiver, 0) + 1
        return 0

    cdef object _remaining(self, Subscription subscription):
        """How many subscriptions its receiver has here beside this one."""
        return self.receivers[<object> subscription.receiver] - 1 if subscription.receiver != NULL else 0

    cdef int _release(self, Subscription subscription, remaining) except -1:
        if subscription.receiver != NULL:
            if remaining:
                self.receivers[<object> subscription.receiver] = remaining
            else:
                del self.receivers[<object> subscription.receiver]
        return 0

    cdef int _tell(self, bytes subject) except -1:
        if self.watched:
            action = self.watched.get(subject)
            if action is not None:
                action()
        return 0

    cdef int _prune(self, Node *node) except -1:
        """Remove a node that holds nothing any more, and its parents likewise."""
        cdef Node *parent
        while node.parent != NULL and node.plain.count == 0 and node.queue_count == 0 \
                and node.children == 0 and node.any_token == NULL and node.any_tail == NULL:
            parent = node.parent
            if parent.any_token == node:
                parent.any_token = NULL
            elif parent.any_tail == node:
                parent.any_tail = NULL
            else:
                self._unlink(node)
                parent.children -= 1
            free_node(node)
            node = parent
        return 0

    # -- the table of literal children --------------------------------------------------------------------------

    cdef Node *_child(self, Node *parent, const char *token, uint32_t length) noexcept:
        cdef uint64_t hashed = hash_of(token, length, self.seed ^ <uint64_t> parent)
        cdef Node *node = find_node(&self.table, hashed, parent, token, length)
        if node == NULL and self.old_table.used:
            node = find_node(&self.old_table, hashed, parent, token, length)
        return node

    cdef Node *_add_child(self, Node *parent, const char *token, uint32_t length) except NULL:
        cdef Node *node
        if self.old_table.used:
            self._move_some()
        elif 2 * (self.table.used + 1) > self.table.mask + 1:
            self._grow()
        node = new_node(parent, token, length)
        node.hash = hash_of(token, length, self.seed ^ <uint64_t> parent)
        put_node(&self.table, node)
        parent.children += 1
        return node

    cdef int _grow(self) except -1:
        """Nodes are added to a table of twice the size from now on; the others follow, before that is full."""
        cdef uint64_t size = 2 * (self.table.mask + 1)
        cdef Node **places = <Node **> PyMem_Calloc(size, sizeof(Node *))
        if places == NULL:
            raise MemoryError
        PyMem_Free(self.old_table.places)
        self.old_table = self.table
        self.moved = 0
        self.table.places = places
        self.table.mask = size - 1
        self.table.used = 0
        return 0

    cdef void _move_some(self) noexcept:
        cdef Node *node
        cdef int k
        for k in range(PLACES_MOVED):
            # Taking a node out may bring another one here, which moves, too.
            while self.old_table.places[self.moved] != NULL:
                node = self.old_table.places[self.moved]
                take_node(&self.old_table, node)
                put_node(&self.table, node)
            self.moved += 1
            if self.old_table.used == 0:
                PyMem_Free(self.old_table.places)
                self.old_table.places = NULL
                return

    cdef void _unlink(self, Node *node) noexcept:
        if self.old_table.used and has_node(&self.old_table, node):
            take_node(&self.old_table, node)
        else:
            take_node(&self.table, node)

    # -- routes -------------------------------------------------------------------------------------------------

    cdef Route *lookup(self, const char *subject, uint32_t length) except NULL:
        """The route of a subject. It is valid until interest changes or the next lookup."""
        cdef uint64_t hashed, place
        cdef Route *route = self.latest
        self.matches += 1
        if route != NULL and route.subject_length == length and route.validated == self.wildcard_changes \
                and memcmp(route.text, subject, length) == 0:
            self.cache_hits += 1
            return route
        hashed = hash_of(subject, length, self.seed)
        place = hashed & (ROUTE_PLACES - 1)
        route = self.routes[place]
        if route != NULL:
            if route.hash == hashed and route.subject_length == length \
                    and memcmp(route.text, subject, length) == 0:
                if route.validated == self.wildcard_changes or self._still_holds(route):
                    self.cache_hits += 1
                    self.latest = route
                    return route
            self._drop(place)
        route = self._build(subject, length, hashed)
        self.route_bytes += route.size
        while self.route_bytes > ROUTE_BYTES and self.route_bytes > route.size:
            self._drop(self.hand)
            self.hand = (self.hand + 1) & (ROUTE_PLACES - 1)
        self.routes[place] = self.latest = route
        return route

    cdef bint find(self, const char *subject, uint32_t length) except -1:
        """Match a subject that will not come again, such as that of a reply, past the cache of routes.

        The plain subscriptions are then in `found`. Returns False if there are queue groups, too, which need a route.
        """
        self.found.count = 0
        self.found_queues.clear()
        if is_literal_path(subject, length):
            self._match(self.root, subject, subject + length)
        return len(self.found_queues) == 0

    cdef void _drop(self, uint64_t place) noexcept:
        if self.routes[place] == NULL:
            return
        if self.latest == self.routes[place]:
            self.latest = NULL
        self.route_bytes -= self.routes[place].size
        PyMem_Free(self.routes[place])
        self.routes[place] = NULL

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

    cdef int _invalidate(self, bytes subject) except -1:
        cdef uint64_t hashed
        cdef Route *route
        if has_wildcard(subject):
            self.changed_patterns[self.wildcard_changes % JOURNAL] = subject
            self.wildcard_changes += 1
            # A `*` or `>` inside a longer token is literal text, so go on and drop that exact route too.
        hashed = hash_of(subject, len(subject), self.seed)
        route = self.routes[hashed & (ROUTE_PLACES - 1)]
        if route != NULL and route.hash == hashed:
            self._drop(hashed & (ROUTE_PLACES - 1))
        return 0

    cdef int _match(self, Node *node, const char *at, const char *end) except -1:
        """Collect what matches the tokens from `at` on, below `node`. `>` first, then `*`, then the literal."""
        cdef const char *dot
        cdef Node *child
        while True:
            if node.any_tail != NULL:
                self._collect(node.any_tail)
            dot = <const char *> memchr(at, c'.', end - at)
            child = self._child(node, at, <uint32_t> ((dot if dot != NULL else end) - at))
            if dot == NULL:
                if node.any_token != NULL:
                    self._collect(node.any_token)
                if child != NULL:
                    self._collect(child)
                return 0
            if node.any_token != NULL:
                self._match(node.any_token, dot + 1, end)
            if child == NULL:
                return 0
            node = child
            at = dot + 1

    cdef int _collect(self, Node *node) except -1:
        cdef uint32_t k
        for k in range(node.plain.count):
            append(&self.found, node.plain.items[k])
        for k in range(node.queue_count):
            self.found_queues.append((<bytes> node.queues[k].name, <size_t> &node.queues[k]))
        return 0

    cdef Route *_build(self, const char *subject, uint32_t length, uint64_t hashed) except NULL:
        """Match a subject and lay the result out as one block of memory."""
        cdef list queues
        cdef SubscriptionList *members
        cdef Subscription subscription
        cdef uint32_t plain_count, k, group, member_count = 0, queue
        cdef size_t text_length = length, size
        cdef Route *route
        cdef char *text
        cdef bytes previous = None
        self.found.count = 0
        self.found_queues.clear()
        if is_literal_path(subject, length):
            self._match(self.root, subject, subject + length)
        plain_count = self.found.count
        queues = merge_queues(self.found_queues) if self.found_queues else []
        for same_name in queues:
            for address in same_name:
                members = &(<QueueGroup *> <size_t> address).members
                for k in range(members.count):
                    append(&self.found, members.items[k])
        member_count = self.found.count - plain_count
        for k in range(self.found.count):
            text_length += 7 + length + len((<Subscription> self.found.items[k]).sid)

        size = sizeof(Route) + self.found.count * (sizeof(void *) + sizeof(Group)) \
            + len(queues) * sizeof(uint32_t) + text_length
        route = <Route *> PyMem_Malloc(size)
        if route == NULL:
            raise MemoryError
        memset(route, 0, sizeof(Route))
        route.hash = hashed
        route.size = size
        route.validated = self.wildcard_changes
        route.subject_length = length
        route.target_count = plain_count
        route.queue_count = <uint32_t> len(queues)
        route.targets = <void **> (route + 1)
        route.groups = <Group *> (route.targets + self.found.count)
        route.queue_ends = <uint32_t *> (route.groups + self.found.count)
        route.text = <char *> (route.queue_ends + route.queue_count)
        memcpy(route.text, subject, length)
        text = route.text + length
        if self.found.count:
            memcpy(route.targets, self.found.items, self.found.count * sizeof(void *))

        group = 0
        for k in range(self.found.count):
            subscription = <Subscription> route.targets[k]
            if k < plain_count and previous is not None and previous == subscription.sid:
                route.groups[group - 1].count += 1
                continue
            previous = subscription.sid
            route.groups[group].first = k
            route.groups[group].count = 1
            route.groups[group].prefix = <uint32_t> (text - route.text)
            text = write_prefix(text, subject, length, subscription.sid)
            route.groups[group].prefix_length = <uint32_t> (text - route.text) - route.groups[group].prefix
            group += 1
            if k < plain_count:
                route.plain_group_count = group
        route.group_count = group
        group = route.plain_group_count
        for queue in range(route.queue_count):
            for address in queues[queue]:
                group += (<QueueGroup *> <size_t> address).members.count
            route.queue_ends[queue] = group
        assert group == route.group_count
        assert <size_t> (text - <char *> route) <= size
        return route

    def has(self, bytes subject not None):
        """Whether a message to `subject` would reach anybody."""
        cdef Route *route = self.lookup(subject, <uint32_t> len(subject))
        return route.target_count + route.queue_count > 0

    # -- for monitoring and tests ---------------------------------------------------------------------------------

    @property
    def cached_routes(self):
        cdef uint64_t k, count = 0
        for k in range(ROUTE_PLACES):
            count += self.routes[k] != NULL
        return count

    @property
    def cached_fanout(self):
        """(the largest, the sum) of how many receivers the cached routes have; a queue group is one."""
        cdef uint64_t k, receivers, largest = 0, total = 0
        for k in range(ROUTE_PLACES):
            if self.routes[k] != NULL:
                receivers = self.routes[k].target_count + self.routes[k].queue_count
                total += receivers
                if receivers > largest:
                    largest = receivers
        return largest, total

    @property
    def node_count(self):
        """Literal nodes of the trie: 0 once every subscription is gone."""
        return self.table.used + self.old_table.used

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


cdef int add_queue(Node *node, Subscription subscription) except -1:
    cdef void *grown
    cdef QueueGroup *group
    if node.queue_count == node.queue_capacity:
        grown = PyMem_Realloc(node.queues, (2 * node.queue_capacity + 1) * sizeof(QueueGroup))
        if grown == NULL:
            raise MemoryError
        node.queues = <QueueGroup *> grown
        node.queue_capacity = 2 * node.queue_capacity + 1
    group = &node.queues[node.queue_count]
    memset(group, 0, sizeof(QueueGroup))
    group.name = <void *> subscription.queue
    attach(&group.members, subscription)
    node.queue_count += 1
    return 0


cdef list merge_queues(list found):
    """Queue groups of one name that were found under different patterns are one group."""
    cdef dict by_name = {}
    for name, address in found:
        by_name.setdefault(name, []).append(address)
    return list(by_name.values())


cdef bint is_literal_path(const char *subject, uint32_t length) noexcept:
    """Whether no token is empty: a subject with an empty token reaches nobody."""
    cdef uint32_t k
    if length == 0 or subject[0] == c'.' or subject[length - 1] == c'.':
        return False
    for k in range(1, length):
        if subject[k] == c'.' and subject[k - 1] == c'.':
            return False
    return True


cdef char *write_prefix(char *at, const char *subject, uint32_t length, bytes sid) noexcept:
    memcpy(at, b'HMSG ', 5)
    memcpy(at + 5, subject, length)
    at[5 + length] = c' '
    memcpy(at + 6 + length, <const char *> sid, len(sid))
    at[6 + length + len(sid)] = c' '
    return at + 7 + length + len(sid)


cdef void free_wildcards(Node *node) noexcept:
    """Free the `*` and `>` children of a node; the literal ones are in the table."""
    if node.any_token != NULL:
        free_wildcards(node.any_token)
        free_node(node.any_token)
    if node.any_tail != NULL:
        free_wildcards(node.any_tail)
        free_node(node.any_tail)
