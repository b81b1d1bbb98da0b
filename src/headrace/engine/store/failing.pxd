# What a log does when a group cannot be written. The theory is at the top of failing.pyx.

from headrace.engine.store.committer cimport Job
from headrace.engine.store.log cimport Log

cdef int fail(Log log, int error, bint final) except -1
cdef int roll_back(Log log) except -1
cdef void read_again(Log log) noexcept
cdef int finish_rollback(Log log) except -1
