# Removing messages, one or many. The theory is at the top of removing.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.basics.filters cimport Filter
from headrace.engine.segments.segment cimport Segment
from headrace.engine.store.store cimport Store
from headrace.engine.segments.windows cimport Window

cdef bint is_incomplete(const Segment *segment) noexcept
cdef bint is_kept(Store store, uint32_t k) noexcept
cdef uint64_t first_kept(Store store, uint64_t seq) noexcept
cdef void begin_with(Store store, uint64_t seq) noexcept
cdef bint remove_message(Store store, Window window, uint64_t seq) except -1
cdef int remove_first(Store store) except -1
cdef uint64_t remove_matching(Store store, uint64_t *seq, uint64_t last, Filter filter, uint64_t most,
                              uint64_t looks) except? 0
cdef int remove_below(Store store, uint64_t first_seq, uint64_t most) except -1
cdef int remove_all(Store store) except -1
cdef uint64_t end_of_aged(Store store, int64_t oldest, uint64_t *seq, uint64_t most) except? 0
