# Overwriting the texts of deleted messages. The theory is at the top of erasing.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.store.committer cimport Job
from headrace.engine.store.log cimport Log
from headrace.engine.store.segments cimport Segment

cdef int plan_erasure(Log log, uint64_t seq) except -1
cdef int start_erasing(Log log) except -1
cdef int finish_erasing(Log log, Job *job) except -1
cdef int follow_rewrite(Log log, const Segment *old, Segment *fresh) except -1
cdef void forget_erasures(Log log, uint64_t after) noexcept
