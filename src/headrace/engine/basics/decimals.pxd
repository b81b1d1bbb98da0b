# Decimal numbers as text, inlined into whoever reads or writes a protocol line.

from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    static const char HEADRACE_PAIRS[201] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    """
    const char *PAIRS "HEADRACE_PAIRS"


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
    cdef Py_ssize_t place = 20
    cdef uint32_t pair
    # Two digits at a time: divisions are what takes long, and times have 19 digits.
    while value >= 100:
        pair = <uint32_t> (value % 100)
        value //= 100
        place -= 2
        memcpy(digits + place, PAIRS + 2 * pair, 2)
    if value >= 10:
        place -= 2
        memcpy(digits + place, PAIRS + 2 * value, 2)
    else:
        place -= 1
        digits[place] = <char> (c'0' + value)
    memcpy(at, digits + place, 20 - place)
    return 20 - place
