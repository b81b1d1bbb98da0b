# Compressing a block of at most 64 KiB, in the LZ4 block format. The theory is at the top of codec.pyx.

from libc.stdint cimport uint16_t, uint32_t

cdef enum:
    LARGEST_INPUT = 65536          # positions are two bytes
    HASH_BITS = 14

cdef struct Finder:
    # Where four bytes were seen before. 160 KiB: whoever compresses allocates it once.
    uint16_t heads[1 << HASH_BITS] # the last position of each hash; 0: none
    uint16_t chain[LARGEST_INPUT]  # the position before it with the same hash

cdef uint32_t compress_block(const char *data, uint32_t length, char *output, uint32_t capacity,
                             Finder *finder) noexcept nogil
cdef uint32_t expand_block(const char *data, uint32_t length, char *output, uint32_t capacity,
                           uint32_t enough) noexcept nogil
