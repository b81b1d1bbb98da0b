# What can be asked of a log. The theory is at the top of readings.pyx.

from libc.stdint cimport int64_t, uint64_t

from headrace.engine.core.filters cimport Filter
from headrace.engine.store.store cimport Store

cdef class Readings(Store):
    cdef uint64_t first_time_seq   # the message whose time first_time_value is
    cdef int64_t first_time_value

    cdef bint must_read(self, uint64_t seq, Filter filter) except -1
