# The subscriptions of one account. The theory is at the top of interest.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.routes cimport Route, RouteCache
from headrace.engine.core.trie cimport Subscription, Trie

cdef class Interest:
    cdef Trie trie
    cdef RouteCache routes
    cdef readonly uint64_t count
    cdef readonly uint64_t inserts
    cdef readonly uint64_t removes
    cdef readonly uint64_t matches
    cdef dict listeners            # literal subject -> tuple of what is called when somebody (un)subscribes exactly to it
    cdef dict receivers            # receiver -> how many of its subscriptions are here: it must not be freed before them

    cdef Route *lookup(self, const char *subject, uint32_t length) except NULL
    cdef bint find(self, const char *subject, uint32_t length) except -1
    cdef Route *_look_further(self, const char *subject, uint32_t length) except NULL
    cdef int insert(self, Subscription subscription) except -1
    cdef int remove(self, Subscription subscription) except -1

    cdef int _keep_receiver(self, Subscription subscription) except -1
    cdef object _others(self, Subscription subscription)
    cdef int _drop_receiver(self, Subscription subscription, others) except -1
    cdef int _notify(self, bytes subject) except -1
