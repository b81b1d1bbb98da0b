# The trie of subscriptions and the routes cached from it. The theory is at the top of interest.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.wide_map cimport WideMap

cdef class Subscription:
    """One SUB of one receiver. The receiver owns it; the trie keeps the receiver, the routes only borrow it."""
    cdef void *receiver            # the Link that gets the messages (borrowed: the trie keeps it while this is in it)
    cdef readonly bytes subject
    cdef readonly bytes queue      # None for a plain subscription
    cdef readonly bytes sid
    cdef readonly long long delivered
    cdef readonly long long maximum    # messages after which it ends by itself; 0: never
    cdef bytes queue_key           # of its queue group in queue_places; not a tuple, which the collector would walk through
    cdef Node *node                # where it hangs in the trie; NULL when it is not in it
    cdef uint32_t position         # in its list there

cdef struct SubscriptionList:
    void **items                   # borrowed Subscriptions
    uint32_t count
    uint32_t capacity

cdef struct QueueGroup:
    void *name                     # the bytes object of a member (all members have an equal one)
    SubscriptionList members

cdef struct Node:
    Node *parent
    Node *any_token                # the child for `*`
    Node *any_tail                 # the child for `>`
    SubscriptionList plain
    QueueGroup *queues
    uint32_t queue_count
    uint32_t queue_capacity
    uint32_t children              # literal children; they live in the trie's one hash table
    uint64_t hash                  # of (parent, token): the place in that table
    uint32_t token_length
    char token[1]                  # and the rest of the token behind it

cdef struct Table:
    Node **places                  # open addressing
    uint64_t mask
    uint64_t used

cdef struct Group:
    # The receivers that get byte for byte the same frame: they share the subject and the sid.
    uint32_t first                 # in targets
    uint32_t count
    uint32_t prefix                # in text: "HMSG <subject> <sid> "; a plain MSG starts one byte later
    uint32_t prefix_length

cdef struct Route:
    uint64_t hash
    size_t size                    # of this block of memory
    uint64_t validated             # the wildcard change up to which this route is known to hold
    uint32_t subject_length
    uint32_t target_count          # members of queue groups not among them
    uint32_t group_count           # the plain ones come first, then one per queue group member
    uint32_t plain_group_count
    uint32_t queue_count
    void **targets                 # borrowed Subscriptions; queue members behind the plain ones
    Group *groups
    uint32_t *queue_ends           # queue k owns groups [queue_ends[k-1], queue_ends[k])
    char *text                     # the subject, then the prefixes

cdef class Interest:
    cdef Node *root
    cdef Table table               # literal children of all nodes
    cdef Table old_table           # the smaller one before it, of which some may not have moved yet
    cdef uint64_t moved            # the places of it that are empty
    cdef uint64_t seed
    cdef Route **routes            # direct-mapped: one place per hash
    cdef size_t route_bytes
    cdef uint64_t hand             # the next place to empty when routes take too much memory
    cdef Route *latest             # the route of the last lookup, which is most often that of the next one, too
    cdef list changed_patterns     # the last wildcard subjects whose interest changed, by change number
    cdef uint64_t wildcard_changes
    cdef readonly uint64_t count
    cdef readonly uint64_t inserts
    cdef readonly uint64_t removes
    cdef readonly uint64_t matches
    cdef readonly uint64_t cache_hits
    cdef readonly dict watched     # literal subject -> what is called when somebody (un)subscribes exactly to it
    cdef dict receivers            # receiver -> how many of its subscriptions are here: it must not be freed before them
    cdef WideMap queue_places      # address of the node + queue name -> which of the node's queue groups it is
    # scratch of the match that is under way
    cdef SubscriptionList found
    cdef list found_queues         # [name, address of the QueueGroup, ...] of this match

    cdef Route *lookup(self, const char *subject, uint32_t length) except NULL
    cdef bint find(self, const char *subject, uint32_t length) except -1
    cdef void _drop(self, uint64_t place) noexcept
    cdef int insert(self, Subscription subscription) except -1
    cdef int remove(self, Subscription subscription) except -1

    cdef Node *_child(self, Node *parent, const char *token, uint32_t length) noexcept
    cdef Node *_add_child(self, Node *parent, const char *token, uint32_t length) except NULL
    cdef int _grow(self) except -1
    cdef void _move_some(self) noexcept
    cdef void _unlink(self, Node *node) noexcept
    cdef Node *_path_to(self, list tokens) except NULL
    cdef int _hang(self, Node *node, Subscription subscription) except -1
    cdef int _keep(self, Subscription subscription) except -1
    cdef object _remaining(self, Subscription subscription)
    cdef int _release(self, Subscription subscription, remaining) except -1
    cdef int _tell(self, bytes subject) except -1
    cdef int _prune(self, Node *node) except -1
    cdef int _match(self, Node *node, const char *at, const char *end) except -1
    cdef int _collect(self, Node *node) except -1
    cdef Route *_build(self, const char *subject, uint32_t length, uint64_t hashed) except NULL
    cdef int _invalidate(self, bytes subject) except -1
    cdef bint _still_holds(self, Route *route) except -1
