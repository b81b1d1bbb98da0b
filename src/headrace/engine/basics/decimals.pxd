# Decimal numbers as text, inlined into whoever reads or writes a protocol line.

from libc.stdint cimport INT64_MAX, int64_t, uint64_t


cdef inline int64_t parse_decimal(const char *text, Py_ssize_t length, Py_ssize_t most) noexcept nogil:
    """The number that the text is; -1 if it is none, has more than `most` digits (at most 19) or 63 bits."""
    cdef uint64_t number = 0
    cdef unsigned char digit
    cdef Py_ssize_t at
    if not 0 < length <= most:
        return -1
    for at in range(length):
        digit = <unsigned char> (text[at] - c'0')
        if digit > 9:
            return -1
        number = number * 10 + digit
    return <int64_t> number if number <= <uint64_t> INT64_MAX else -1


cdef inline Py_ssize_t write_decimal(char *at, uint64_t value) noexcept nogil:
    """Write a number, without a terminator; returns its length (at most 20)."""
    cdef char digits[20]
    cdef Py_ssize_t length = 0, k
    while True:
        digits[length] = <char> (c'0' + value % 10)
        length += 1
        value //= 10
        if value == 0:
            break
    for k in range(length):
        at[k] = digits[length - 1 - k]
    return length
