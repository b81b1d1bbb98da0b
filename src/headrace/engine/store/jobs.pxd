# What the committer's threads do. The theory is at the top of jobs.pyx.

from headrace.engine.store.committer cimport Job

cdef void perform(Job *job) noexcept nogil
