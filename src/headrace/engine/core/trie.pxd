# Subscriptions, and the trie that finds those that match a subject. The theory is at the top of trie.pyx.

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from headrace.engine.core.permissions cimport DeliveryFilter
from headrace.engine.basics.wide_map cimport WideMap

cdef enum:
    LONGEST_PREFIX = 128           # of a shape; those of inboxes have about 30 bytes

cdef struct Shape:
    # Subjects with the same matches: they begin with this prefix, and have as many tokens after it.
    char prefix[LONGEST_PREFIX]
    uint32_t length                # of the prefix; 0: there are none
    uint32_t dots                  # between the tokens after it

cdef class Subscription:
    """One SUB of one receiver. The receiver owns it; Interest keeps the receiver, and routes only borrow it."""
    cdef void *receiver            # the Link that gets the messages (borrowed: Interest keeps it while this is in the trie)
    cdef readonly bytes subject
    cdef readonly bytes queue      # None for a plain subscription
    cdef readonly bytes sid
    cdef readonly long long delivered
    cdef readonly long long maximum    # messages after which it ends by itself; 0: never
    cdef DeliveryFilter filter     # which of its messages its receiver may get; None: all
    cdef bint within               # its receiver is a sink, which needs no frame
    cdef bytes queue_key           # of its queue group in queue_slots; not a tuple, which the collector would traverse
    cdef Node *node                # that it is attached to; NULL when it is not in a trie
    cdef uint32_t position         # in the node's list

cdef class Shadow(Subscription):
    """In an account that exports a stream: what somebody in an account that imports it has subscribed to.

    It has its own count, and ends with the subscription that it belongs to, which has the same sid.
    """
    cdef readonly object interest  # the Interest that it is in
    cdef object transform          # from the published subject to the one that is delivered; None: the same
    cdef bint allows_trace         # the account that imports the stream shows in traces who gets its messages

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
    uint32_t children              # literal children; they are in the trie's one hash table
    uint64_t hash                  # of (parent, token): the slot in that table
    uint32_t token_length
    char token[1]                  # and the rest of the token after it

cdef struct Table:
    Node **slots                   # open addressing
    uint64_t mask
    uint64_t used

cdef class Trie:
    cdef Node *root
    cdef Table table               # literal children of all nodes
    cdef Table old_table           # the smaller one before it, from which some nodes may not have moved yet
    cdef uint64_t moved            # slots of the old table that are known to be empty
    cdef uint64_t seed
    cdef WideMap queue_slots       # address of the node + queue name -> which of the node's queue groups it is
    # the result of the latest match
    cdef SubscriptionList found    # plain subscriptions
    cdef list found_queues         # (name, address of the QueueGroup) of each queue group
    cdef Shape remembered          # of the subjects that it holds for
    cdef const char *decided       # in the current match: no literal could match the tokens from here on

    cdef int insert(self, Subscription subscription) except -1
    cdef int remove(self, Subscription subscription) except -1
    cdef int match(self, const char *subject, uint32_t length) except -1
    cdef list add_queue_members(self)

    cdef Node *_path_to(self, list tokens) except NULL
    cdef int _attach(self, Node *node, Subscription subscription) except -1
    cdef int _detach_from_queue(self, Node *node, Subscription subscription) except -1
    cdef int _prune(self, Node *node) except -1
    cdef Node *_child(self, Node *parent, const char *token, uint32_t length) noexcept
    cdef Node *_add_child(self, Node *parent, const char *token, uint32_t length) except NULL
    cdef int _grow(self) except -1
    cdef void _move_some(self) noexcept
    cdef void _unlink(self, Node *node) noexcept
    cdef void _remember(self, const char *subject, uint32_t length) noexcept
    cdef int _match(self, Node *node, const char *at, const char *end) except -1
    cdef int _collect(self, Node *node) except -1


cdef inline bint has_shape(const Shape *shape, const char *subject, uint32_t length) noexcept:
    """Whether a subject is one of these."""
    cdef const char *at = subject + shape.length
    cdef const char *end = subject + length
    cdef const char *dot
    cdef uint32_t dots = shape.dots
    if shape.length == 0 or shape.length >= length or memcmp(subject, shape.prefix, shape.length) != 0:
        return False
    while True:
        dot = <const char *> memchr(at, c'.', end - at)
        if dot == NULL:
            return dots == 0 and at < end
        if dot == at or dots == 0:
            return False
        dots -= 1
        at = dot + 1
