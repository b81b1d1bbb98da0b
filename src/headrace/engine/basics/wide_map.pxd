# A mapping that grows a little at a time. The theory is at the top of wide_map.pyx.

from libc.stdint cimport uint64_t

cdef class WideMap:
    cdef dict only                 # all keys, as long as they are few
    cdef list parts                # of dicts; None as long as the keys are few
    cdef list starts               # the places of the parts: each ends where the next one starts
    cdef Py_ssize_t count

    cdef object get(self, object key)
    cdef tuple take_any(self)
    cdef tuple some_values(self, uint64_t place, Py_ssize_t skipped)
    cdef Py_ssize_t _number(self, uint64_t place)
    cdef dict _part_of(self, object key)
    cdef int _split(self, Py_ssize_t number) except -1
    cdef int _merge(self, Py_ssize_t number) except -1
