# Segments without their dead messages. The theory is at the top of compaction.pyx.

from headrace.engine.store.committer cimport Job

cdef int rewrite_segment(Job *job) noexcept nogil
