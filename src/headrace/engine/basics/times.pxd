# Times as text, as Go writes them: RFC 3339 with nanoseconds, in UTC.

from libc.stdint cimport int64_t
from libc.string cimport memcpy


cdef inline char *put_digits(char *at, int64_t number, int digits) noexcept nogil:
    cdef int place
    for place in range(digits - 1, -1, -1):
        at[place] = <char> (c'0' + number % 10)
        number //= 10
    return at + digits


cdef inline Py_ssize_t write_time(char *start, int64_t nanoseconds) noexcept nogil:
    """Write a time since 1970, without a terminator; returns its length. 0 is Go's zero time.

    Trailing zeros of the fraction are left out. 64 bits hold the years 1677 to 2262.
    """
    cdef char *at = start
    cdef int64_t fraction, second, day, era, year, month
    if nanoseconds == 0:
        memcpy(at, b"0001-01-01T00:00:00Z", 20)
        return 20
    second = nanoseconds // 1_000_000_000
    fraction = nanoseconds - second * 1_000_000_000
    if fraction < 0:               # in C, a quotient below zero is rounded up
        fraction += 1_000_000_000
        second -= 1
    day = second // 86_400
    second -= day * 86_400
    if second < 0:
        second += 86_400
        day -= 1
    # A year that begins with March has its leap day at the end, and then its months follow one rule.
    day += 719_468                                     # since March 1, 0000
    era = day // 146_097
    day -= era * 146_097
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day = day - (153 * month + 2) // 5 + 1
    year += 400 * era + (month >= 10)
    month = month + 3 if month < 10 else month - 9
    at = put_digits(at, year, 4)
    at[0] = c'-'
    at = put_digits(at + 1, month, 2)
    at[0] = c'-'
    at = put_digits(at + 1, day, 2)
    at[0] = c'T'
    at = put_digits(at + 1, second // 3600, 2)
    at[0] = c':'
    at = put_digits(at + 1, second // 60 % 60, 2)
    at[0] = c':'
    at = put_digits(at + 1, second % 60, 2)
    if fraction:
        at[0] = c'.'
        at = put_digits(at + 1, fraction, 9)
        while (at - 1)[0] == c'0':
            at -= 1
    at[0] = c'Z'
    return at + 1 - start
