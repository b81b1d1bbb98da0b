"""Watchers by what they ask for: a stream may have thousands of consumers, and a message concerns a few of them.

Watchers with equal filters are one audience, which is asked once. Few audiences are asked one after another whether a
subject passes. The patterns of many are in one tree, which leads from a subject to those who asked for it: with 1,000
filtered consumers, counting 10,000 messages for all of them took a quarter of a second, while everybody else waited.

The tree only grows. An audience that has ended is no longer found, and when most of them have, it is built again.
"""

from libc.stdint cimport uint32_t

cdef Py_ssize_t FEW = 8            # audiences that are asked one by one


cdef class Audiences:
    def __cinit__(self):
        self.by_patterns = {}
        self.found = []

    def enlist(self, watcher, Filter filter not None):
        """Somebody asks for what passes this filter."""
        self.add(watcher, filter)

    def who_asked_for(self, bytes subject not None):
        """Whose filters a subject passes."""
        cdef Audience audience
        cdef list watchers = [] if self.unfiltered is None else list(self.unfiltered.watchers)
        for audience in self.matching(subject, <uint32_t> len(subject)):
            watchers.extend(audience.watchers)
        return watchers

    cdef int add(self, object watcher, Filter filter) except -1:
        cdef Audience audience = self.unfiltered if filter.everything else self.by_patterns.get(filter.patterns)
        if audience is not None:
            audience.watchers.append(watcher)
            return 0
        audience = Audience.__new__(Audience)
        audience.filter = filter
        audience.watchers = [watcher]
        if filter.everything:
            self.unfiltered = audience
            return 0
        self.by_patterns[filter.patterns] = audience
        try:
            if self.tree is not None:
                self._grow_tree(audience)
                self.tree.reserve()
            elif len(self.by_patterns) > FEW:
                self._build_tree()
        except MemoryError:
            self.tree = None       # one by one, then
        return 0

    cdef int remove(self, object watcher, Filter filter) except -1:
        """Those that are not here are ignored."""
        cdef Audience audience = self.unfiltered if filter.everything else self.by_patterns.get(filter.patterns)
        cdef Py_ssize_t k
        if audience is None:
            return 0
        for k in range(len(audience.watchers)):
            if audience.watchers[k] is watcher:
                del audience.watchers[k]
                break
        if audience.watchers:
            return 0
        if filter.everything:
            self.unfiltered = None
            return 0
        del self.by_patterns[filter.patterns]
        self.dead += 1
        if len(self.by_patterns) <= FEW:
            self.tree = self.by_end = self.kept = None
        elif self.tree is not None and self.dead > len(self.by_patterns):
            try:
                self._build_tree()
            except MemoryError:
                self.tree = None
        return 0

    cdef list matching(self, const char *subject, uint32_t length):
        """The audiences that asked for a subject, without the one for everything. The next search reuses the list."""
        cdef Audience audience
        cdef uint32_t k
        cdef list found = self.found
        found.clear()
        if self.tree is None:
            for audience in self.by_patterns.values():
                if audience.filter.accepts(subject, length):
                    found.append(audience)
            return found
        self.searches += 1
        self.tree.match_all(subject, length)
        for k in range(self.tree.found_count):
            for audience in self.by_end[self.tree.found[k]]:
                # two of its patterns may match, and it may have ended
                if audience.search != self.searches and audience.watchers:
                    audience.search = self.searches
                    found.append(audience)
        return found

    cdef int _grow_tree(self, Audience audience) except -1:
        cdef Filter filter = audience.filter
        cdef uint32_t k
        self.kept.append(filter)
        for k in range(filter.count):
            end = self.tree.add(filter.compiled[k].text, filter.compiled[k].length)
            self.by_end.setdefault(end, []).append(audience)
        return 0

    cdef int _build_tree(self) except -1:
        cdef Audience audience
        self.tree = PatternTree()
        self.by_end = {}
        self.kept = []
        self.dead = 0
        for audience in self.by_patterns.values():
            self._grow_tree(audience)
        self.tree.reserve()
        return 0
