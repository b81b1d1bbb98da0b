# The first and the last message of a subject. The theory is at the top of resolving.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.store.store cimport Store
from headrace.engine.store.subject_index cimport Entry

cdef int resolve_first(Store store, Entry *entry) except -1
cdef bint resolve_last(Store store, Entry *entry, uint64_t *looks) except -1
