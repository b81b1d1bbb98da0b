# The index file of a segment. The theory is at the top of index_file.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.segments.contents cimport Contents
from headrace.engine.segments.segment cimport Segment

cdef int index_segment(const char *directory, const Segment *segment, bint *damaged) noexcept nogil
cdef bint read_index(const char *directory, uint64_t number, uint64_t base_seq, uint32_t salt, uint64_t file_size,
                     Contents *contents) noexcept nogil
cdef bint load_places(const char *directory, uint64_t number, Contents *contents, bint subjects) noexcept nogil
