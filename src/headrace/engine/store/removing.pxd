# Removing many messages, a part at a time. The theory is at the top of removing.pyx.

from libc.stdint cimport int64_t, uint64_t

from headrace.engine.core.filters cimport Filter
from headrace.engine.store.log cimport Log

cdef uint64_t remove_matching(Log log, uint64_t *seq, uint64_t last, Filter filter, uint64_t most,
                              uint64_t looks) except? 0
cdef int compact_some(Log log, uint64_t first_seq, uint64_t most) except -1
cdef uint64_t end_of_aged(Log log, int64_t oldest, uint64_t *seq, uint64_t most) except? 0
cdef bint enforce_totals(Log log, uint64_t most) except -1
cdef bint enforce_subjects(Log log, uint64_t looks) except -1
