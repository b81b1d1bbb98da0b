# Decimal numbers as text, inlined into whoever reads or writes a protocol line.

from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.string cimport memcpy


cdef extern from * nogil:
    """
    static const char headrace_pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
        "4950515253545556575859606162636465666768697071727374757677787980818283848586878889909192939495969798"
        "99";
    """
    const char headrace_pairs[]


cdef inline uint64_t eight_digits(const char *text, bint *are_digits) noexcept nogil:
    """The number that eight characters are, in three multiplications instead of eight that wait for each other."""
    cdef const unsigned char *at = <const unsigned char *> text
    # The first digit lowest, on any machine; compilers make one load of it.
    cdef uint64_t word = (<uint64_t> at[0] | <uint64_t> at[1] << 8 | <uint64_t> at[2] << 16
                          | <uint64_t> at[3] << 24 | <uint64_t> at[4] << 32 | <uint64_t> at[5] << 40
                          | <uint64_t> at[6] << 48 | <uint64_t> at[7] << 56)
    cdef uint64_t high = <uint64_t> 0xF0F0F0F0F0F0F0F0
    are_digits[0] = (word & high | ((word + <uint64_t> 0x0606060606060606) & high) >> 4) \
        == <uint64_t> 0x3333333333333333
    word = ((word & <uint64_t> 0x0F0F0F0F0F0F0F0F) * 2561) >> 8
    word = ((word & <uint64_t> 0x00FF00FF00FF00FF) * 6553601) >> 16
    return ((word & <uint64_t> 0x0000FFFF0000FFFF) * <uint64_t> 42949672960001) >> 32


cdef inline int64_t parse_decimal(const char *text, Py_ssize_t length, Py_ssize_t most) noexcept nogil:
    """The number that the text is; -1 if it is none, has more than `most` digits (at most 19) or 63 bits."""
    cdef uint64_t number = 0
    cdef unsigned char digit
    cdef Py_ssize_t at = 0
    cdef bint are_digits = True
    if not 0 < length <= most:
        return -1
    while length - at >= 8:
        number = number * 100_000_000 + eight_digits(text + at, &are_digits)
        if not are_digits:
            return -1
        at += 8
    while at < length:
        digit = <unsigned char> (text[at] - c'0')
        if digit > 9:
            return -1
        number = number * 10 + digit
        at += 1
    return <int64_t> number if number <= <uint64_t> INT64_MAX else -1


cdef inline Py_ssize_t count_digits(uint64_t value) noexcept nogil:
    cdef Py_ssize_t count = 1
    while value >= 10_000:
        value //= 10_000
        count += 4
    return count + (value >= 10) + (value >= 100) + (value >= 1000)


cdef inline Py_ssize_t write_decimal(char *at, uint64_t value) noexcept nogil:
    """Write a number, without a terminator; returns its length (at most 20)."""
    cdef Py_ssize_t length = count_digits(value), left = length
    cdef uint64_t rest
    while left >= 2:                     # two digits at a time: divisions wait for each other
        rest = value // 100
        left -= 2
        memcpy(at + left, headrace_pairs + 2 * (value - 100 * rest), 2)
        value = rest
    if left:
        at[0] = <char> (c'0' + value)
    return length
