"""CRC-32C of any stretch of a text, at the same small cost for a long stretch as for a short one.

Whoever looks for the next good record behind a damaged one has to check everything that looks like a record. A client
can publish text that is full of such places, each of which claims to reach to the end of the file. Reading each to its
end takes time that grows with the square of the file: hours for 64 MB. So the text is read once, and the checksum of
every stretch follows from two numbers.

A CRC is linear. Let P(k) be the register after the first k bytes, begun with 0, and Z(n, r) what n zero bytes make of a
register r. Then the register that begins with r and reads the bytes from a up to b ends with

    Z(b - a, r ^ P(a)) ^ P(b)

P is kept for every GRAIN bytes (one sixty-fourth of the text's size), and completed from there. Z(n, r) is r * x^(8n)
modulo the polynomial: at most four multiplications with powers from a table.
"""

from libc.errno cimport ENOMEM
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from headrace.engine.segments.record cimport crc32c, prepare_crc32c

prepare_crc32c()

cdef uint32_t POLYNOMIAL = 0x82F63B78u
cdef uint32_t ONE = 0x80000000u     # x^0: the highest power is in the lowest bit
cdef uint32_t[4][256] POWERS        # [j][k]: x^(8 * k * 256^j)


cdef uint32_t multiply(uint32_t one, uint32_t other) noexcept nogil:
    """Two polynomials, modulo POLYNOMIAL."""
    cdef uint32_t product = 0
    while one:
        if one & ONE:
            product ^= other
        one <<= 1
        other = (other >> 1) ^ (POLYNOMIAL & (0 - (other & 1)))
    return product


cdef void _fill_powers() noexcept:
    cdef uint32_t j, k
    cdef uint32_t step = ONE >> 8
    for j in range(4):
        POWERS[j][0] = ONE
        for k in range(1, 256):
            POWERS[j][k] = multiply(POWERS[j][k - 1], step)
        step = multiply(POWERS[j][255], step)


_fill_powers()


cdef uint32_t _after_zeros(uint32_t register, uint64_t count) noexcept nogil:
    """The register after this many zero bytes. (Segments are smaller than 2^32.)"""
    cdef uint32_t j
    for j in range(4):
        if (count >> (8 * j)) & 255:
            register = multiply(register, POWERS[j][(count >> (8 * j)) & 255])
    return register


cdef uint32_t _read_on(uint32_t register, const char *text, size_t length) noexcept nogil:
    return ~crc32c(~register, text, length)


cdef int prepare_checksums(Checksums *checksums, const char *text, uint64_t size) noexcept nogil:
    """Read the text, which has to stay where it is. 0 or ENOMEM."""
    cdef uint64_t k
    checksums.text = text
    checksums.size = size
    checksums.sums = <uint32_t *> malloc((size // GRAIN + 1) * sizeof(uint32_t))
    if checksums.sums == NULL:
        return ENOMEM
    checksums.sums[0] = 0
    for k in range(size // GRAIN):
        checksums.sums[k + 1] = _read_on(checksums.sums[k], text + k * GRAIN, GRAIN)
    return 0


cdef uint32_t _up_to(const Checksums *checksums, uint64_t end) noexcept nogil:
    cdef uint64_t grain = end // GRAIN
    return _read_on(checksums.sums[grain], checksums.text + grain * GRAIN, end - grain * GRAIN)


cdef uint32_t checksum_of(const Checksums *checksums, uint32_t salt, uint64_t first, uint64_t end) noexcept nogil:
    """What crc32c(salt, text + first, end - first) says. The stretch has to be within the text."""
    cdef uint32_t register = ~salt ^ _up_to(checksums, first)
    return ~(_after_zeros(register, end - first) ^ _up_to(checksums, end))


cdef void free_checksums(Checksums *checksums) noexcept nogil:
    free(checksums.sums)
    checksums.sums = NULL
