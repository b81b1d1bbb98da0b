# What can be asked of a log. The theory is at the top of readings.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.basics.filters cimport Filter
from headrace.engine.store.store cimport Store, Watcher

cdef class Stored:
    cdef readonly uint64_t seq
    cdef readonly int64_t time
    cdef readonly bytes subject
    cdef readonly bytes headers
    cdef readonly bytes payload

cdef int64_t first_time(Store store) except? -1
cdef int add_watcher(Store store, Watcher watcher) except -1
cdef int begin_to_watch(Store store, Watcher watcher) except -1
cdef bint count_ahead(Store store, Watcher watcher, uint64_t looks) except -1
cdef int remove_watcher(Store store, Watcher watcher) except -1
cdef Stored get(Store store, uint64_t seq)
cdef Stored next(Store store, uint64_t seq, Filter filter)
cdef tuple look_for(Store store, uint64_t seq, Filter filter, uint64_t looks)
cdef uint64_t last(Store store, bytes filter_subject) except? 0
cdef uint64_t last_of_subject(Store store, const char *subject, uint32_t length) except? 0
cdef tuple subject_state(Store store, bytes subject)
cdef dict subjects(Store store, Filter filter)
cdef dict last_up_to(Store store, Filter filter, uint64_t up_to)
cdef uint64_t first_up_to(Store store, dict found, Filter filter, uint64_t up_to) except? 0
cdef uint64_t note_last(Store store, dict found, Filter filter, uint64_t seq, uint64_t up_to,
                        uint64_t looks) except? 0
cdef list last_sequences(Store store, Filter filter)
cdef dict count_subjects(Store store, Filter filter, uint32_t start, uint32_t most)
cdef uint64_t seek_time(Store store, int64_t time) except? 0
cdef long long count_from(Store store, uint64_t seq, Filter filter) except -1
cdef list deleted(Store store, uint64_t seq, uint64_t most)
cdef uint64_t seq_from_end(Store store, uint64_t messages) noexcept
