# Watchers by what they ask for. The theory is at the top of audiences.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.basics.filters cimport Filter
from headrace.engine.basics.pattern_tree cimport PatternTree

@cython.final
cdef class Audience:
    cdef Filter filter
    cdef list watchers             # empty: it has ended
    cdef long long matching        # messages that passed, while some are being counted
    cdef uint64_t search           # the last one that has found it

@cython.final
cdef class Audiences:
    cdef Audience unfiltered       # None: nobody asks for everything
    cdef dict by_patterns          # the others
    cdef list found                # the result of the last search
    cdef uint64_t searches
    cdef PatternTree tree          # of the patterns of all in by_patterns; None: there are few
    cdef dict by_end               # of a pattern in the tree: a list of those that have it
    cdef list kept                 # filters whose texts the tree points to
    cdef Py_ssize_t dead           # audiences that are in the tree, and have ended

    cdef int add(self, object watcher, Filter filter) except -1
    cdef int remove(self, object watcher, Filter filter) except -1
    cdef list matching(self, const char *subject, uint32_t length)
    cdef int _grow_tree(self, Audience audience) except -1
    cdef int _build_tree(self) except -1
