# Which subjects somebody asked for. The rules are at the top of filters.pyx.

from libc.stdint cimport uint32_t

from headrace.engine.basics.pattern_tree cimport PatternTree

cdef struct Pattern:
    const char *text               # owned by the tuple of patterns
    uint32_t length
    bint literal

cdef class Filter:
    cdef readonly tuple patterns
    cdef readonly bint everything  # no patterns, or one of them is a bare `>`
    cdef readonly bint literal     # every pattern is a subject without wildcards
    cdef Pattern *compiled
    cdef uint32_t count
    cdef PatternTree tree          # of many patterns; None: there are few
    cdef uint32_t effort           # of the last accepts(), in records that could have been read instead

    cdef bint accepts(self, const char *subject, uint32_t length) noexcept


cdef bint has_no_empty_token(const char *subject, uint32_t length) noexcept
cdef bint is_literal(const char *pattern, Py_ssize_t length) noexcept
cdef bint matches_pattern(const char *pattern, Py_ssize_t pattern_length,
                          const char *subject, Py_ssize_t subject_length) noexcept nogil
