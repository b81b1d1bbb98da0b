# Keeping the files small. The theory is at the top of chores.pyx.

from headrace.engine.store.committer cimport Job
from headrace.engine.store.log cimport Log
from headrace.engine.store.segments cimport Segment

cdef bint plan_chore(Log log) except -1
cdef int finish_chore(Log log, Job *job) except -1
cdef int compact_memory(Log log) except -1
cdef bint may_pass(int error) noexcept
cdef bint wait_for_sync(Log log, Segment *segment) except -1
