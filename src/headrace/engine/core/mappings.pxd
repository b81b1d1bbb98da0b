# Subjects whose messages are published to other subjects. The theory is at the top of mappings.pyx.

from libc.stdint cimport uint64_t

cdef class Mappings:
    cdef object find
    cdef dict known                # subject -> None, or a tuple of (percent up to here, bytes or transform)
    cdef uint64_t random_state

    cdef bytes map(self, bytes subject)
    cdef object _destination(self, tuple choices)
