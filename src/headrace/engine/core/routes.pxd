# Routes, and the cache of them. The theory is at the top of routes.pyx.

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp

from headrace.engine.core.hashing cimport hash_of
from headrace.engine.core.trie cimport SubscriptionList

cdef enum:
    ROUTE_SLOTS = 8192             # a power of two

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
    void **targets                 # borrowed Subscriptions; queue members after the plain ones
    Group *groups
    uint32_t *queue_ends           # queue k owns groups [queue_ends[k-1], queue_ends[k])
    char *text                     # the subject, then the prefixes

cdef class RouteCache:
    cdef Route **slots             # direct-mapped: one slot per hash
    cdef size_t used_bytes
    cdef uint64_t hand             # the next slot to empty when routes use too much memory
    cdef Route *latest             # the route of the last lookup, which is most often that of the next one, too
    cdef list changed_patterns     # the last wildcard subjects whose interest changed, by change number
    cdef uint64_t wildcard_changes
    cdef uint64_t seed
    cdef uint64_t hits

    cdef Route *add(self, uint64_t hashed, const char *subject, uint32_t length, SubscriptionList *found,
                    uint32_t plain_count, list queue_sizes) except NULL
    cdef int invalidate(self, bytes subject) except -1
    cdef void drop(self, uint64_t slot) noexcept
    cdef bint still_holds(self, Route *route) except -1


cdef inline Route *find_route(RouteCache cache, const char *subject, uint32_t length, uint64_t *hashed) except? NULL:
    """The cached route of a subject; NULL: there is none, and `hashed` is the hash of the subject."""
    cdef Route *route = cache.latest
    if route != NULL and route.subject_length == length and route.validated == cache.wildcard_changes \
            and memcmp(route.text, subject, length) == 0:
        cache.hits += 1
        return route
    hashed[0] = hash_of(subject, length, cache.seed)
    route = cache.slots[hashed[0] & (ROUTE_SLOTS - 1)]
    if route == NULL:
        return NULL
    if route.hash == hashed[0] and route.subject_length == length and memcmp(route.text, subject, length) == 0 \
            and (route.validated == cache.wildcard_changes or cache.still_holds(route)):
        cache.hits += 1
        cache.latest = route
        return route
    cache.drop(hashed[0] & (ROUTE_SLOTS - 1))
    return NULL
