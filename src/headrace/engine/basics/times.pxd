# Times as text, as Go writes them: RFC 3339 with nanoseconds, in UTC.

from libc.stdint cimport int64_t
from libc.string cimport memcpy
from libc.time cimport time_t, tm

cdef extern from "time.h" nogil:
    tm *gmtime_r(const time_t *seconds, tm *parts)


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
    cdef int64_t fraction = nanoseconds % 1_000_000_000
    cdef time_t seconds
    cdef tm parts
    if nanoseconds == 0:
        memcpy(at, b"0001-01-01T00:00:00Z", 20)
        return 20
    if fraction < 0:
        fraction += 1_000_000_000
    seconds = <time_t> ((nanoseconds - fraction) // 1_000_000_000)
    gmtime_r(&seconds, &parts)
    at = put_digits(at, 1900 + parts.tm_year, 4)
    at[0] = c'-'
    at = put_digits(at + 1, parts.tm_mon + 1, 2)
    at[0] = c'-'
    at = put_digits(at + 1, parts.tm_mday, 2)
    at[0] = c'T'
    at = put_digits(at + 1, parts.tm_hour, 2)
    at[0] = c':'
    at = put_digits(at + 1, parts.tm_min, 2)
    at[0] = c':'
    at = put_digits(at + 1, parts.tm_sec, 2)
    if fraction:
        at[0] = c'.'
        at = put_digits(at + 1, fraction, 9)
        while (at - 1)[0] == c'0':
            at -= 1
    at[0] = c'Z'
    return at + 1 - start
