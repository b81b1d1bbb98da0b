# Compressed segments: their format, and how they are read. The theory is at the top of packing.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.segments.segment cimport SEGMENT_HEAD, Packing, Segment, SegmentHead

cdef enum:
    BLOCK = 32768                  # bytes of the plain segment in a block; the last one has what is left

cdef struct Stretch:
    # A stretch of a plain segment in memory.
    char *data
    size_t capacity
    size_t size
    uint64_t start

cdef inline uint32_t block_count_of(uint64_t plain_size) noexcept nogil:
    return <uint32_t> ((plain_size - SEGMENT_HEAD + BLOCK - 1) // BLOCK)


cdef inline uint32_t block_size(uint64_t plain_size, uint32_t block) noexcept nogil:
    """Of the plain bytes in a block."""
    cdef uint64_t rest = plain_size - SEGMENT_HEAD - <uint64_t> block * BLOCK
    return BLOCK if rest > BLOCK else <uint32_t> rest


cdef inline size_t table_size(uint32_t block_count) noexcept nogil:
    return 4 * <size_t> block_count + 4


cdef Packing *new_packing(uint64_t plain_size) noexcept nogil
cdef int read_packing(int fd, const SegmentHead *head, uint64_t file_size, Packing **packing) noexcept nogil
cdef int read_form(Segment *segment) noexcept nogil
cdef int read_block(int fd, const Packing *packing, uint32_t block, uint32_t enough, char *output, char *scratch,
                    uint32_t *made, bint *damaged) noexcept nogil
cdef int load_blocks(int fd, const Packing *packing, uint64_t offset, size_t wanted, bint whole,
                     Stretch *stretch) noexcept nogil
