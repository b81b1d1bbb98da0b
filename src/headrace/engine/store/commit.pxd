# How a group gets to the disk. The theory is at the top of commit.pyx.

from headrace.engine.store.committer cimport Job

cdef void commit_group(Job *job) noexcept nogil
cdef int sync_timed(Job *job, int fd) noexcept nogil
