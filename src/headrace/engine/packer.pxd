# Writing compressed segments. The theory is at the top of packer.pyx.

from headrace.engine.committer cimport Buffer, Job

cdef int compress_segment(Job *job) noexcept nogil
cdef int erase_packed(const char *directory, Buffer *buffer, unsigned int which) noexcept nogil
