# Routes, and the cache of them. The theory is at the top of routes.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.trie cimport Shape, SubscriptionList

cdef enum:
    ROUTE_SLOTS = 8192             # a power of two

cdef struct Group:
    # The receivers that get byte for byte the same frame: they share the subject and the sid.
    uint32_t first                 # in targets
    uint32_t count
    uint32_t prefix                # in text: "HMSG <subject> <sid> "; a plain MSG starts one byte later
    uint32_t prefix_length
    uint32_t placed                # in the arena, if it is the one of
    uint64_t placed_in             # this number

cdef struct Route:
    uint64_t hash
    size_t size                    # of this block of memory
    uint64_t validated             # the wildcard change up to which this route is known to hold
    uint32_t subject_length
    uint32_t target_count          # members of queue groups not among them
    uint32_t group_count           # the plain ones come first, then one per queue group member
    uint32_t plain_group_count
    uint32_t queue_count
    bint has_one_receiver          # a connection, with one subscription or several: its frames follow each other
    bint has_shadows               # some of the targets are in the name of other accounts
    void **targets                 # borrowed Subscriptions; queue members after the plain ones
    Group *groups
    uint32_t *queue_ends           # queue k owns groups [queue_ends[k-1], queue_ends[k])
    char *text                     # the subject, then the prefixes

cdef class RouteCache:
    # what every message needs comes first
    cdef Route *latest             # the route of the last lookup, which is usually that of the next one, too
    cdef uint64_t wildcard_changes
    cdef uint64_t hits
    cdef uint64_t seed
    cdef Route **slots             # direct-mapped: one slot per hash
    cdef uint32_t *seen            # for each slot, a part of the hash of the last subject that was not in it
    cdef Route *passing            # the route of a subject that was not seen before: a block that is reused
    cdef size_t passing_capacity
    cdef size_t used_bytes
    cdef uint64_t hand             # the next slot to empty when routes use too much memory
    cdef Route *sink_route         # to a single sink, for all subjects of this shape
    cdef Shape sink_shape
    cdef list changed_patterns     # the last wildcard subjects whose interest changed, by change number

    cdef Route *find(self, const char *subject, uint32_t length, uint64_t *hashed) except? NULL
    cdef Route *add(self, uint64_t hashed, const char *subject, uint32_t length, SubscriptionList *found,
                    uint32_t plain_count, list queue_sizes, list delivered, const Shape *shape) except NULL
    cdef int invalidate(self, bytes subject) except -1
    cdef bint _was_seen(self, uint64_t hashed) noexcept
    cdef Route *_block(self, size_t size, bint lasting) except NULL
    cdef void _keep_for_shape(self, Route *route, const Shape *shape) noexcept
    cdef void _drop(self, uint64_t slot) noexcept
    cdef bint _still_holds(self, Route *route) except -1
