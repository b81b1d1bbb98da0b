# Very many patterns, held against a subject at once. The theory is at the top of pattern_tree.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t

cdef struct Node:
    uint32_t any_token             # where `*` leads to; 0: nowhere
    bint ends                      # a pattern ends here
    bint full_wildcard             # one continues with `>`

cdef struct Edge:
    const char *token              # owned by whoever owns the patterns; NULL: this slot is free
    uint32_t length
    uint32_t parent
    uint32_t child

cdef struct Branch:
    uint32_t node
    uint32_t at                    # where its token begins in the subject

@cython.final
cdef class PatternTree:
    cdef Node *nodes
    cdef uint32_t node_count
    cdef uint32_t node_capacity
    cdef Edge *edges
    cdef uint32_t edge_count
    cdef uint32_t mask
    cdef Branch *branches          # that are still to be followed; one for each level is enough
    cdef uint32_t depth
    cdef uint64_t seed
    cdef uint32_t steps            # that the last search took
    cdef uint32_t *found           # ends of the patterns that match_all() has found
    cdef uint32_t found_count

    cdef long long add(self, const char *pattern, uint32_t length) except -1
    cdef int reserve(self) except -1
    cdef bint matches(self, const char *subject, uint32_t length) noexcept
    cdef void match_all(self, const char *subject, uint32_t length) noexcept
    cdef bint _search(self, const char *subject, uint32_t length, bint all) noexcept
    cdef Edge *_slot(self, uint32_t parent, const char *token, uint32_t length) noexcept
    cdef uint32_t _new_node(self) except 0
    cdef int _grow_edges(self) except -1
