"""Very many patterns, held against a subject at once: whether one of them matches, or which of them do.

    a.b   a.*.c   a.>   *.d               root ─ a ─ b·              · a pattern ends here
                                            │    ├ * ─ c·
                                            │    └ >
                                            └ * ─ d·

A tree of tokens. A subject is followed down from the root; where a node has both the token and a `*`, one of them is
followed first and the other is noted. So the time depends on the subject, not on the number of patterns, unless they are
crafted: with patterns that differ in where their wildcards are, it may take as many steps as there are nodes. It says how
many it took, and whoever works in slices deducts them.

The edges of all nodes are in one open-addressing table, with the node as a part of the key. Equal patterns have the same
end: twice the number of the node where they end, plus one if they continue with `>` there.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcmp, memset

from headrace.engine.basics.hashing cimport hash_of

import os

cdef uint32_t FIRST_EDGES = 64


cdef class PatternTree:
    def __cinit__(self):
        self.seed = int.from_bytes(os.urandom(8), 'little')
        self.mask = FIRST_EDGES - 1
        self.edges = <Edge *> calloc(FIRST_EDGES, sizeof(Edge))
        self.branches = <Branch *> calloc(1, sizeof(Branch))
        self.nodes = <Node *> calloc(1, sizeof(Node))
        if self.edges == NULL or self.branches == NULL or self.nodes == NULL:
            raise MemoryError
        self.node_count = self.node_capacity = 1     # the root

    def __dealloc__(self):
        free(self.nodes)
        free(self.edges)
        free(self.branches)
        free(self.found)

    cdef long long add(self, const char *pattern, uint32_t length) except -1:
        """The pattern's end. The text has to stay where it is as long as the tree is used."""
        cdef const char *token = pattern
        cdef const char *end = pattern + length
        cdef const char *token_end
        cdef uint32_t node = 0, child, level = 0
        cdef Edge *edge
        cdef void *grown
        while True:
            token_end = <const char *> memchr(token, c'.', end - token)
            if token_end == NULL:
                token_end = end
            if token_end - token == 1 and token[0] == c'>':
                self.nodes[node].full_wildcard = True
                return 2 * <long long> node + 1
            if token_end - token == 1 and token[0] == c'*':
                child = self.nodes[node].any_token
                if child == 0:
                    child = self._new_node()
                    self.nodes[node].any_token = child
            else:
                if 2 * (<uint64_t> self.edge_count + 1) > <uint64_t> self.mask + 1:
                    self._grow_edges()
                edge = self._slot(node, token, <uint32_t> (token_end - token))
                if edge.token == NULL:
                    edge.child = self._new_node()
                    edge.parent = node
                    edge.length = <uint32_t> (token_end - token)
                    edge.token = token
                    self.edge_count += 1
                child = edge.child
            node = child
            level += 1
            if level > self.depth:
                grown = realloc(self.branches, (<size_t> 2 * level + 1) * sizeof(Branch))
                if grown == NULL:
                    raise MemoryError
                self.branches = <Branch *> grown
                self.depth = 2 * level
            if token_end == end:
                self.nodes[node].ends = True
                return 2 * <long long> node
            token = token_end + 1

    cdef int reserve(self) except -1:
        """Make room for what match_all() may find. To be called when patterns were added."""
        cdef void *grown = realloc(self.found, 2 * <size_t> self.node_count * sizeof(uint32_t))
        if grown == NULL:
            raise MemoryError
        self.found = <uint32_t *> grown
        return 0

    cdef bint matches(self, const char *subject, uint32_t length) noexcept:
        return self._search(subject, length, False)

    cdef void match_all(self, const char *subject, uint32_t length) noexcept:
        """Leave the ends of all patterns that match in `found`, each once."""
        self.found_count = 0
        self._search(subject, length, True)

    cdef bint _search(self, const char *subject, uint32_t length, bint all) noexcept:
        """Whether one matches. With `all` the search does not end with the first."""
        cdef uint32_t waiting = 0, node = 0, at = 0, end, child, any_token
        cdef const char *dot
        self.steps = 0
        while True:
            self.steps += 1
            if self.nodes[node].full_wildcard:
                if not all:
                    return True
                self.found[self.found_count] = 2 * node + 1
                self.found_count += 1
            dot = <const char *> memchr(subject + at, c'.', length - at)
            end = <uint32_t> (dot - subject) if dot != NULL else length
            child = self._slot(node, subject + at, end - at).child
            any_token = self.nodes[node].any_token
            if dot == NULL:
                if child and self.nodes[child].ends or any_token and self.nodes[any_token].ends:
                    if not all:
                        return True
                    if child and self.nodes[child].ends:
                        self.found[self.found_count] = 2 * child
                        self.found_count += 1
                    if any_token and self.nodes[any_token].ends:
                        self.found[self.found_count] = 2 * any_token
                        self.found_count += 1
            elif child or any_token:
                if child and any_token:
                    self.branches[waiting].node = any_token
                    self.branches[waiting].at = end + 1
                    waiting += 1
                node = child if child else any_token
                at = end + 1
                continue
            if waiting == 0:
                return False
            waiting -= 1
            node = self.branches[waiting].node
            at = self.branches[waiting].at

    cdef Edge *_slot(self, uint32_t parent, const char *token, uint32_t length) noexcept:
        """Where an edge is, or would be: then its token is NULL, and its child 0."""
        cdef uint32_t k = <uint32_t> hash_of(token, length, self.seed + parent) & self.mask
        cdef Edge *edge = &self.edges[k]
        while edge.token != NULL and not (edge.parent == parent and edge.length == length
                                          and memcmp(edge.token, token, length) == 0):
            k = (k + 1) & self.mask
            edge = &self.edges[k]
        return edge

    cdef uint32_t _new_node(self) except 0:
        cdef uint32_t capacity = 2 * self.node_capacity + 16
        cdef void *grown
        if self.node_count == self.node_capacity:
            grown = realloc(self.nodes, <size_t> capacity * sizeof(Node))
            if grown == NULL:
                raise MemoryError
            self.nodes = <Node *> grown
            self.node_capacity = capacity
        memset(&self.nodes[self.node_count], 0, sizeof(Node))
        self.node_count += 1
        return self.node_count - 1

    cdef int _grow_edges(self) except -1:
        cdef uint64_t old_size = <uint64_t> self.mask + 1, k
        cdef Edge *old = self.edges
        cdef Edge *grown = <Edge *> calloc(2 * old_size, sizeof(Edge))
        if grown == NULL:
            raise MemoryError
        self.edges = grown
        self.mask = <uint32_t> (2 * old_size - 1)
        for k in range(old_size):
            if old[k].token != NULL:
                self._slot(old[k].parent, old[k].token, old[k].length)[0] = old[k]
        free(old)
        return 0
