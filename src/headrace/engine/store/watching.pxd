# How many messages a reader has ahead of it. The theory is at the top of watching.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.basics.filters cimport Filter
from headrace.engine.store.store cimport Store, Watcher

cdef int add_watcher(Store store, Watcher watcher) except -1
cdef int begin_to_watch(Store store, Watcher watcher) except -1
cdef bint count_ahead(Store store, Watcher watcher, uint64_t looks) except -1
cdef int remove_watcher(Store store, Watcher watcher) except -1
cdef long long count_from(Store store, uint64_t seq, Filter filter) except -1
cdef int note_committed(Store store, uint64_t last) except -1
