"""A mapping for a million keys that peers choose, which never grows all at once.

A full dict is rebuilt: with 700,000 keys that takes 37 ms, during which nobody is served. Here the keys have
places, which follow from their hashes, and are kept in a row of dicts, each for a range of places:

    starts    0        2^62       2^63                 a part that has become too large is split in the middle of its
    parts     {...}    {...}      {...}                range; two neighbours that have become small are joined

A walk over all keys goes from place to place, so it meets each of them once, whatever is split or joined meanwhile.
Up to 512 keys there is only one dict, and it keeps their order. Those that never had a key share one that is empty: there
is a map for each connection.
"""

cimport cython
from libc.stdint cimport uint64_t

from bisect import bisect_right

DEF MOST_KEYS = 512                  # in a part; all reach it at about the same time, small ones less so
DEF FEW_KEYS = 128                   # in two neighbours
cdef dict EMPTY = {}


cdef uint64_t place_of(object key) except? 0:
    """Its hash, stirred: within a part the highest bits are alike, and a dict looks at the lowest."""
    return <uint64_t> <Py_ssize_t> hash(key) * <uint64_t> 0x9E3779B97F4A7C15


@cython.no_gc      # what is in it can be part of no circle, and the collector need not walk through it
cdef class WideMap:
    """Keys are bytes. Values must be of types that the collector does not know."""

    def __cinit__(self):
        self.only = EMPTY

    def __len__(self):
        return self.count

    def __contains__(self, key):
        return key in self._part_of(key)

    def __iter__(self):
        for part in [self.only] if self.parts is None else list(self.parts):
            yield from part

    def __getitem__(self, key):
        return self._part_of(key)[key]

    def __setitem__(self, key, value):
        cdef dict part
        cdef Py_ssize_t before
        if self.only is EMPTY:
            self.only = {}
        part = self._part_of(key)
        before = len(part)
        part[key] = value
        self.count += len(part) - before
        if len(part) > MOST_KEYS:
            try:
                self._split(self._number(place_of(key)))
            except MemoryError:
                pass                             # the part stays too large, until the next time

    def __delitem__(self, key):
        cdef dict part = self._part_of(key)
        del part[key]
        self.count -= 1
        if self.parts is not None and len(part) < FEW_KEYS:
            try:
                self._merge(self._number(place_of(key)))
            except MemoryError:
                pass                             # they stay apart, until the next time

    cdef object get(self, object key):
        return self._part_of(key).get(key)

    cdef tuple take_any(self):
        """Take a key and its value out; KeyError if there is none. Putting them back at once needs no memory."""
        while self.parts is not None and not self.parts[len(self.parts) - 1]:
            self.parts.pop()
            self.starts.pop()
            if len(self.parts) == 1:
                self.only = <dict> self.parts[0]
                self.parts = self.starts = None
        taken = (self.only if self.parts is None else <dict> self.parts[len(self.parts) - 1]).popitem()
        self.count -= 1
        return taken

    cdef tuple some_values(self, uint64_t place, Py_ssize_t skipped):
        """(some values from a place on, the place to continue from). Begin at 0; after the last ones it is 0 again.

        The first `skipped` of them are left out.
        """
        cdef Py_ssize_t number
        cdef dict part
        if self.parts is None:
            part, after = self.only, 0
        else:
            number = self._number(place)
            while True:
                part = <dict> self.parts[number]
                number += 1
                after = self.starts[number] if number < len(self.parts) else 0
                if skipped < len(part) or after == 0:
                    break
                skipped -= len(part)
        return [value for key, value in part.items() if place_of(key) >= place][skipped:], after

    cdef Py_ssize_t _number(self, uint64_t place):
        """Of the part to which a place belongs."""
        return 0 if self.parts is None else bisect_right(self.starts, place) - 1

    cdef dict _part_of(self, object key):
        return self.only if self.parts is None else <dict> self.parts[self._number(place_of(key))]

    cdef int _split(self, Py_ssize_t number) except -1:
        """If there is no memory for it, nothing has changed."""
        cdef list parts = [self.only] if self.parts is None else list(self.parts)
        cdef list starts = [0] if self.parts is None else list(self.starts)
        cdef uint64_t start = starts[number]
        cdef uint64_t end = starts[number + 1] if number + 1 < len(starts) else 0      # 0: 2^64
        cdef uint64_t middle = start + (end - start - 1) // 2 + 1
        cdef dict part = <dict> parts[number]
        cdef dict low = {}, high = {}
        for key, value in part.items():
            if place_of(key) < middle:
                low[key] = value
            else:
                high[key] = value
        parts[number] = low
        parts.insert(number + 1, high)
        starts.insert(number + 1, middle)
        self.parts = parts
        self.starts = starts
        self.only = None
        return 0

    cdef int _merge(self, Py_ssize_t number) except -1:
        """Of this part and the one before it (or, of the first one, behind it), if they are small."""
        cdef Py_ssize_t first = number - 1 if number else 0
        cdef dict both
        if len(<dict> self.parts[first]) + len(<dict> self.parts[first + 1]) > FEW_KEYS:
            return 0
        both = {**self.parts[first], **self.parts[first + 1]}
        if len(self.parts) == 2:
            self.only = both
            self.parts = self.starts = None
        else:
            self.parts[first] = both
            del self.parts[first + 1]
            del self.starts[first + 1]
        return 0
