# The queries on a log. The theory is at the top of readings.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.basics.filters cimport Filter
from headrace.engine.store.store cimport Store

cdef class Stored:
    cdef readonly uint64_t seq
    cdef readonly int64_t time
    cdef readonly bytes subject
    cdef readonly bytes headers
    cdef readonly bytes payload

cdef int64_t first_time(Store store) except? -1
cdef Stored get(Store store, uint64_t seq)
cdef Stored next(Store store, uint64_t seq, Filter filter)
cdef tuple look_for(Store store, uint64_t seq, Filter filter, uint64_t looks)
cdef uint64_t last(Store store, bytes filter_subject) except? 0
cdef bint last_of_subject(Store store, const char *subject, uint32_t length, uint64_t *looks, uint64_t *seq) except -1
cdef bint settle(Store store, bytes subject, uint64_t looks) except -1
cdef uint32_t places(Store store, Filter filter) noexcept
cdef tuple look_for_last(Store store, Filter filter, uint32_t place, uint64_t latest, uint64_t looks)
cdef tuple subject_state(Store store, bytes subject)
cdef dict subjects(Store store, Filter filter)
cdef dict last_up_to(Store store, Filter filter, uint64_t up_to)
cdef tuple first_up_to(Store store, dict found, Filter filter, uint64_t up_to, uint32_t place, uint64_t looks)
cdef uint64_t note_last(Store store, dict found, Filter filter, uint64_t seq, uint64_t up_to,
                        uint64_t looks) except? 0
cdef tuple last_sequences(Store store, Filter filter, uint64_t up_to, uint32_t place, uint64_t looks)
cdef dict count_subjects(Store store, Filter filter, uint32_t start, uint32_t most)
cdef uint64_t seek_time(Store store, int64_t time) except? 0
cdef list deleted(Store store, uint64_t seq, uint64_t most)
cdef uint64_t seq_from_end(Store store, uint64_t messages) noexcept
cdef str check_reading(Store store, bint opened)
