# The subscriptions of one account. The theory is at the top of interest.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp

from headrace.engine.core.mappings cimport Mappings
from headrace.engine.core.routes cimport Route, RouteCache
from headrace.engine.core.trie cimport Subscription, Trie

@cython.final
cdef class Interest:
    # what every message needs comes first: it fits into one or two cache lines
    cdef RouteCache routes
    cdef readonly Mappings mappings    # of published subjects; None: there are none
    cdef readonly uint64_t matches
    cdef Trie trie
    cdef readonly uint64_t count
    cdef readonly uint64_t inserts
    cdef readonly uint64_t removes
    cdef dict listeners            # literal subject -> tuple of what is called when somebody (un)subscribes exactly to it
    cdef bint filters              # there are, or were, receivers that may not get everything that they subscribe to
    cdef public object imports     # imports(subject): where else to subscribe as well; None: nowhere
    cdef public bint traces_parents    # a traceparent asks for a trace: the account has a destination for it
    cdef uint64_t shadows          # how many of the subscriptions belong to other accounts
    cdef dict receivers            # receiver -> how many of its subscriptions are here: until 0, it must not be freed

    cdef bint find(self, const char *subject, uint32_t length) except -1
    cdef Route *_look_further(self, const char *subject, uint32_t length) except NULL
    cdef bint _found_one_sink(self) noexcept
    cdef list _drop_denied(self, const char *subject, uint32_t length, uint32_t *plain_count, list queue_sizes)
    cdef uint32_t _keep_allowed(self, uint32_t first, uint32_t count, uint32_t kept, const char *subject,
                                uint32_t length) except? 0xFFFFFFFF
    cdef tuple everybody(self, const char *subject, uint32_t length)
    cdef int insert(self, Subscription subscription) except -1
    cdef int remove(self, Subscription subscription) except -1

    cdef list _delivered_subjects(self, bytes subject)
    cdef int _keep_receiver(self, Subscription subscription) except -1
    cdef object _others(self, Subscription subscription)
    cdef int _drop_receiver(self, Subscription subscription, others) except -1
    cdef int _notify(self, bytes subject) except -1

    cdef inline Route *lookup(self, const char *subject, uint32_t length) except NULL:
        """The route of a subject. It is valid until interest changes or the next lookup."""
        cdef Route *route = self.routes.latest
        self.matches += 1
        if route != NULL and route.subject_length == length and route.validated == self.routes.wildcard_changes \
                and memcmp(route.text, subject, length) == 0:
            self.routes.hits += 1
            return route
        return self._look_further(subject, length)
