"""Filters: which subjects a reader of a stream asked for.

A filter is a handful of patterns, and a subject passes if one of them matches; no pattern at all lets everything pass.
`*` matches one token and `>` one or more at the end, each only as a whole token, exactly as in a subscription.
A message is held against its filter in the delivery loop, so the patterns are unpacked once, and the two commonest
cases, everything and plain subjects, need no walk along the tokens. A client may send thousands of patterns, too: more
than a few become a tree (pattern_tree.pyx).
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport uint32_t
from libc.string cimport memchr, memcmp

cdef uint32_t FEW = 8              # patterns that are compared one by one
cdef uint32_t STEPS_PER_READ = 16  # of the tree: they take about as long as to read a record


cdef class Filter:
    def __cinit__(self, tuple patterns not None):
        cdef Py_ssize_t k
        cdef bytes pattern
        self.patterns = patterns
        self.count = <uint32_t> len(patterns)
        self.everything = self.count == 0
        self.literal = self.count != 0
        if self.count == 0:
            return
        self.compiled = <Pattern *> PyMem_Malloc(self.count * sizeof(Pattern))
        if self.compiled == NULL:
            raise MemoryError
        for k in range(self.count):
            pattern = patterns[k]
            if pattern is None:
                raise TypeError("a pattern is bytes")
            self.compiled[k].text = pattern
            self.compiled[k].length = <uint32_t> len(pattern)
            self.compiled[k].literal = is_literal(pattern, len(pattern))
            self.literal = self.literal and self.compiled[k].literal
            self.everything = self.everything or pattern == b'>'
        if self.count > FEW and not self.everything:
            self.tree = PatternTree()
            for k in range(self.count):
                self.tree.add(self.compiled[k].text, self.compiled[k].length)

    def __dealloc__(self):
        PyMem_Free(self.compiled)

    def __repr__(self):
        return f"Filter({self.patterns!r})"

    cdef bint accepts(self, const char *subject, uint32_t length) noexcept:
        cdef uint32_t k
        cdef Pattern *pattern
        cdef bint accepted
        if self.everything:
            return True
        if self.tree is not None:
            accepted = self.tree.matches(subject, length)
            self.effort = self.tree.steps // STEPS_PER_READ
            return accepted
        for k in range(self.count):
            pattern = &self.compiled[k]
            if pattern.literal:
                if pattern.length == length and memcmp(pattern.text, subject, length) == 0:
                    return True
            elif matches_pattern(pattern.text, pattern.length, subject, length):
                return True
        return False

    def matches(self, bytes subject not None):
        """Whether messages on this literal subject pass."""
        return self.accepts(subject, <uint32_t> len(subject))


cdef bint is_literal(const char *pattern, Py_ssize_t length) noexcept:
    """Whether no token of it is a wildcard. A `*` inside a longer token is literal text."""
    cdef Py_ssize_t k
    for k in range(length):
        if (pattern[k] == c'*' or pattern[k] == c'>') and (k == 0 or pattern[k - 1] == c'.') \
                and (k + 1 == length or pattern[k + 1] == c'.'):
            return False
    return True


cdef bint matches_pattern(const char *pattern, Py_ssize_t pattern_length,
                          const char *subject, Py_ssize_t subject_length) noexcept nogil:
    cdef const char *p = pattern
    cdef const char *p_end = pattern + pattern_length
    cdef const char *s = subject
    cdef const char *s_end = subject + subject_length
    cdef const char *p_token
    cdef const char *s_token
    while True:
        p_token = <const char *> memchr(p, c'.', p_end - p)
        if p_token == NULL:
            p_token = p_end
        s_token = <const char *> memchr(s, c'.', s_end - s)
        if s_token == NULL:
            s_token = s_end
        if p_token - p == 1 and p[0] == c'>':
            return True
        if not (p_token - p == 1 and p[0] == c'*'):
            if p_token - p != s_token - s or memcmp(p, s, p_token - p) != 0:
                return False
        if p_token == p_end or s_token == s_end:
            return p_token == p_end and s_token == s_end
        p = p_token + 1
        s = s_token + 1


cdef bint has_no_empty_token(const char *subject, uint32_t length) noexcept:
    """A subject with an empty token reaches nobody, and no rule matches it."""
    cdef uint32_t k
    if length == 0 or subject[0] == c'.' or subject[length - 1] == c'.':
        return False
    for k in range(1, length):
        if subject[k] == c'.' and subject[k - 1] == c'.':
            return False
    return True
