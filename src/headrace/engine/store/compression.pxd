# Writing compressed segments. The theory is at the top of compression.pyx.

from headrace.engine.store.committer cimport Job

cdef int compress_segment(Job *job) noexcept nogil
cdef int erase_packed(Job *job) noexcept nogil
