"""Subjects whose messages are published to other subjects: the mappings of an account.

Where the messages of a subject go is looked up once and cached: `find(subject)` returns None if they stay, or a tuple
of choices (percent up to here, subject). One is drawn at random for each message; if no choice applies, the message is
lost. A transform that is not the same each time is called each time.
"""

cimport cython
from libc.stdint cimport uint64_t

import os

cdef Py_ssize_t MOST_KNOWN = 16384       # then all are forgotten: peers choose the subjects


@cython.final
cdef class Mappings:
    def __cinit__(self, find not None):
        self.find = find
        self.known = {}
        self.random_state = int.from_bytes(os.urandom(8), 'little') | 1

    cdef bytes map(self, bytes subject):
        """The subject to publish to; empty: the message is lost."""
        cdef object choices
        if subject in self.known:
            choices = self.known[subject]
        else:
            if len(self.known) >= MOST_KNOWN:
                self.known.clear()
            choices = self.known[subject] = self.find(subject)
        if choices is None:
            return subject
        destination = self._destination(choices)
        return <bytes> destination if isinstance(destination, bytes) else destination(subject)

    def apply(self, bytes subject not None):
        return self.map(subject)

    cdef object _destination(self, tuple choices):
        cdef uint64_t drawn
        if len(choices) == 1 and choices[0][0] >= 100:
            return choices[0][1]
        self.random_state ^= self.random_state << 13
        self.random_state ^= self.random_state >> 7
        self.random_state ^= self.random_state << 17
        drawn = (self.random_state >> 32) % 100
        for percent, destination in choices:
            if drawn < percent:
                return destination
        return b''
