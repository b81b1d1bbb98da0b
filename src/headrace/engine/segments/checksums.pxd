# CRC-32C of any stretch of a text at the same small cost. The theory is at the top of checksums.pyx.

from libc.stdint cimport uint32_t, uint64_t

cdef struct Checksums:
    const char *text               # belongs to somebody else
    uint64_t size
    uint32_t *sums                 # of the text up to every GRAIN bytes; NULL: not prepared

cdef int prepare_checksums(Checksums *checksums, const char *text, uint64_t size) noexcept nogil
cdef uint32_t checksum_of(const Checksums *checksums, uint32_t salt, uint64_t first, uint64_t end) noexcept nogil
cdef void free_checksums(Checksums *checksums) noexcept nogil

cdef enum:
    GRAIN = 256
