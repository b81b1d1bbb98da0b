# The tokens of JSON, inlined into `json_decoder`. Every function returns False if it is not sure, and never reads at
# or after `end`. What is refused here is not wrong: Spark decides about it.

from libc.float cimport DBL_MIN
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport strtod
from libc.string cimport memcpy

cdef extern from *:
    """
    typedef __int128 headrace_int128;
    static const double DOUBLE_TENS[] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
        1e19, 1e20, 1e21, 1e22};
    static const uint64_t WHOLE_TENS[] = {
        1ULL, 10ULL, 100ULL, 1000ULL, 10000ULL, 100000ULL, 1000000ULL, 10000000ULL, 100000000ULL, 1000000000ULL,
        10000000000ULL, 100000000000ULL, 1000000000000ULL, 10000000000000ULL, 100000000000000ULL,
        1000000000000000ULL, 10000000000000000ULL, 100000000000000000ULL, 1000000000000000000ULL};
    static const short DAYS_BEFORE_MONTH[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    """
    ctypedef long long int128 "headrace_int128"     # the compiler knows its real width
    const double DOUBLE_TENS[]
    const uint64_t WHOLE_TENS[]
    const short DAYS_BEFORE_MONTH[]

cdef enum:
    LONGEST_TEXT = 1 << 20           # Spark's parser has limits of its own, all of them higher
    LONGEST_NUMBER = 60
    UNSIGNED_DIGITS = 19             # this many always fit into 64 bits
    SIGNED_DIGITS = 18
    DOUBLE_TEN = 22                  # 10**22 is the last power of ten that is a DOUBLE, 10**10 that is a FLOAT
    FLOAT_TEN = 10
    DAYS_TO_1970 = 719162            # since 0001-01-01


cdef struct Scan:
    const unsigned char *at
    const unsigned char *end

cdef struct Span:                    # a string without its quotes, as it was written
    const unsigned char *at
    Py_ssize_t length
    bint escaped

cdef struct Number:
    const unsigned char *at          # of the text
    Py_ssize_t length
    bint negative
    bint is_long                     # more digits than `digits` holds
    bint has_exponent
    uint64_t digits                  # all of them, without the point
    int count
    int fraction                     # how many are after the point
    int exponent


cdef inline void skip_space(Scan *scan) noexcept nogil:
    while scan.at < scan.end and (scan.at[0] == c' ' or scan.at[0] == c'\n' or scan.at[0] == c'\r'
                                  or scan.at[0] == c'\t'):
        scan.at += 1


cdef inline bint take(Scan *scan, unsigned char byte) noexcept nogil:
    if scan.at < scan.end and scan.at[0] == byte:
        scan.at += 1
        return True
    return False


cdef inline bint take_word(Scan *scan, const char *word, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t k
    if scan.end - scan.at < length:
        return False
    for k in range(length):
        if scan.at[k] != <unsigned char>word[k]:
            return False
    scan.at += length
    return True


cdef inline bint is_digit(unsigned char byte) noexcept nogil:
    return <unsigned char>(byte - c'0') <= 9


cdef inline bint is_utf8(const unsigned char *at, Py_ssize_t length) noexcept nogil:
    """Table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF."""
    cdef const unsigned char *end = at + length
    cdef uint64_t word
    cdef unsigned char byte, low, high
    cdef int more
    while at < end:
        if end - at >= 8:
            memcpy(&word, at, 8)
            if word & <uint64_t>0x8080808080808080 == 0:
                at += 8
                continue
        byte = at[0]
        at += 1
        if byte < 0x80:
            continue
        if byte < 0xC2 or byte > 0xF4:
            return False
        more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        low = 0xA0 if byte == 0xE0 else 0x90 if byte == 0xF0 else 0x80
        high = 0x9F if byte == 0xED else 0x8F if byte == 0xF4 else 0xBF
        if end - at < more:
            return False
        while more > 0:
            if at[0] < low or at[0] > high:
                return False
            low, high = 0x80, 0xBF
            at += 1
            more -= 1
    return True


# -- strings

cdef inline int hexadecimal(unsigned char byte) noexcept nogil:
    if is_digit(byte):
        return byte - c'0'
    byte |= 0x20
    return byte - c'a' + 10 if c'a' <= byte <= c'f' else -1


cdef inline int code_unit(const unsigned char *at) noexcept nogil:
    """The four digits after \\u; -1 if they are not digits, or are half a surrogate pair."""
    cdef int unit = 0
    cdef int k, digit
    for k in range(4):
        digit = hexadecimal(at[k])
        if digit < 0:
            return -1
        unit = unit << 4 | digit
    return -1 if 0xD800 <= unit <= 0xDFFF else unit


cdef inline unsigned char unescaped(unsigned char byte) noexcept nogil:
    """What a backslash and this letter mean; 0 if nothing."""
    if byte == c'"' or byte == c'\\' or byte == c'/':
        return byte
    if byte == c'n':
        return c'\n'
    if byte == c't':
        return c'\t'
    if byte == c'r':
        return c'\r'
    if byte == c'b':
        return 8
    return 12 if byte == c'f' else 0


cdef inline bint scan_text(Scan *scan, Span *text) noexcept nogil:
    cdef const unsigned char *at = scan.at
    cdef const unsigned char *end = scan.end
    if at >= end or at[0] != c'"':
        return False
    at += 1
    text.at = at
    text.escaped = False
    while at < end and at[0] != c'"':
        if at[0] < 0x20:
            return False
        if at[0] == c'\\':
            text.escaped = True
            if end - at < 2:
                return False
            if at[1] == c'u':
                if end - at < 6 or code_unit(at + 2) < 0:
                    return False
                at += 6
            elif unescaped(at[1]):
                at += 2
            else:
                return False
        else:
            at += 1
    if at >= end:
        return False
    text.length = at - text.at
    scan.at = at + 1
    return text.length <= LONGEST_TEXT


cdef inline Py_ssize_t write_unescaped(unsigned char *out, Span *text) noexcept nogil:
    """Returns how many bytes it wrote: never more than the text has."""
    cdef const unsigned char *at = text.at
    cdef const unsigned char *end = text.at + text.length
    cdef unsigned char *start = out
    cdef int unit
    while at < end:
        if at[0] != c'\\':
            out[0] = at[0]
            at += 1
        elif at[1] != c'u':
            out[0] = unescaped(at[1])
            at += 2
        else:
            unit = code_unit(at + 2)
            at += 6
            if unit >= 0x800:
                out[0] = <unsigned char>(0xE0 | unit >> 12)
                out[1] = <unsigned char>(0x80 | unit >> 6 & 0x3F)
                out += 2
                unit = 0x80 | unit & 0x3F
            elif unit >= 0x80:
                out[0] = <unsigned char>(0xC0 | unit >> 6)
                out += 1
                unit = 0x80 | unit & 0x3F
            out[0] = <unsigned char>unit
        out += 1
    return out - start


# -- numbers

cdef inline void scan_digits(Scan *scan, Number *number) noexcept nogil:
    while scan.at < scan.end and is_digit(scan.at[0]):
        if number.count >= UNSIGNED_DIGITS:
            number.is_long = True
        else:
            number.digits = number.digits * 10 + (scan.at[0] - c'0')
            number.count += 1
        scan.at += 1


cdef inline bint scan_exponent(Scan *scan, Number *number) noexcept nogil:
    cdef const unsigned char *first
    cdef bint negative
    number.has_exponent = True
    negative = take(scan, c'-')
    if not negative:
        take(scan, c'+')
    first = scan.at
    while scan.at < scan.end and is_digit(scan.at[0]):
        if scan.at - first >= 3:
            return False
        number.exponent = number.exponent * 10 + (scan.at[0] - c'0')
        scan.at += 1
    if negative:
        number.exponent = -number.exponent
    return scan.at > first


cdef inline bint scan_number(Scan *scan, Number *number) noexcept nogil:
    """JSON's grammar: no plus, no zero in front of other digits, digits on both sides of a point."""
    cdef const unsigned char *first
    number.at = scan.at
    number.is_long = number.has_exponent = False
    number.digits = 0
    number.count = number.fraction = number.exponent = 0
    number.negative = take(scan, c'-')
    first = scan.at
    scan_digits(scan, number)
    if scan.at == first or (first[0] == c'0' and scan.at - first > 1):
        return False
    if take(scan, c'.'):
        first = scan.at
        scan_digits(scan, number)
        number.fraction = <int>(scan.at - first)
        if number.fraction == 0:
            return False
    if scan.at < scan.end and (scan.at[0] == c'e' or scan.at[0] == c'E'):
        scan.at += 1
        if not scan_exponent(scan, number):
            return False
    number.length = scan.at - number.at
    return number.length <= LONGEST_NUMBER


cdef inline bint as_integer(Number *number, int bits, int64_t *value) noexcept nogil:
    cdef uint64_t limit = (<uint64_t>1 << (bits - 1)) - 1
    if number.is_long or number.has_exponent or number.fraction:
        return False
    if number.digits > limit + number.negative:
        return False
    value[0] = <int64_t>(0 - number.digits if number.negative else number.digits)
    return True


cdef inline bint as_decimal(Number *number, int precision, int scale, int128 *value) noexcept nogil:
    """No digit is rounded away: digits * 10**(scale - fraction) must be below 10**precision."""
    cdef int missing = scale - number.fraction
    cdef int room = precision - missing
    cdef int128 scaled
    if number.is_long or number.has_exponent or number.count > SIGNED_DIGITS or missing < 0:
        return False
    if room <= SIGNED_DIGITS and number.digits >= WHOLE_TENS[room]:
        return False
    scaled = <int128>number.digits
    while missing > 0:
        scaled = scaled * <int128>WHOLE_TENS[min(missing, SIGNED_DIGITS)]
        missing -= SIGNED_DIGITS
    value[0] = -scaled if number.negative else scaled
    return True


cdef inline bint as_double(Number *number, double *value) noexcept nogil:
    """The nearest one. Two exact doubles have a correctly rounded product and quotient; the rest is left to strtod."""
    cdef int exponent = number.exponent - number.fraction
    cdef char text[LONGEST_NUMBER + 1]
    cdef char *end
    if not number.is_long and number.digits <= <uint64_t>1 << 53 and -DOUBLE_TEN <= exponent <= DOUBLE_TEN:
        if exponent < 0:
            value[0] = <double>number.digits / DOUBLE_TENS[-exponent]
        else:
            value[0] = <double>number.digits * DOUBLE_TENS[exponent]
        if number.digits == 0:
            return not number.negative           # -0 is 0, and -0.0 is not
        if number.negative:
            value[0] = -value[0]
        return True
    memcpy(text, number.at, number.length)
    text[number.length] = 0
    value[0] = strtod(text, &end)
    if end != text + number.length:              # a locale with another point than JSON's
        return False
    return DBL_MIN <= fabs(value[0]) < INFINITY


cdef inline bint as_float(Number *number, double *value) noexcept nogil:
    """Only if rounding to a DOUBLE first makes no difference: both operands of the division are FLOATs."""
    cdef int exponent = number.exponent - number.fraction
    if number.is_long or number.digits > 1 << 24 or exponent < -FLOAT_TEN or exponent > FLOAT_TEN:
        return False
    return as_double(number, value)


# -- dates and times

cdef inline int two_digits(const unsigned char *at) noexcept nogil:
    """Far below zero if they are not digits."""
    if not is_digit(at[0]) or not is_digit(at[1]):
        return -100_000
    return (at[0] - c'0') * 10 + (at[1] - c'0')


cdef inline int scan_day(const unsigned char *at, int64_t *days) noexcept nogil:
    """The year of ten bytes such as 2026-11-17, from 1 to 9999; 0 if there is no such day."""
    cdef int year = two_digits(at) * 100 + two_digits(at + 2)
    cdef int month = two_digits(at + 5)
    cdef int day = two_digits(at + 8)
    cdef bint leap
    if at[4] != c'-' or at[7] != c'-' or year < 1 or month < 1 or month > 12 or day < 1:
        return 0
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > DAYS_BEFORE_MONTH[month] - DAYS_BEFORE_MONTH[month - 1] + (leap and month == 2):
        return 0
    days[0] = (365 * (year - 1) + (year - 1) // 4 - (year - 1) // 100 + (year - 1) // 400
               + DAYS_BEFORE_MONTH[month - 1] + (leap and month > 2) + day - 1 - DAYS_TO_1970)
    return year


cdef inline bint as_date(Span *text, int64_t *days) noexcept nogil:
    return text.length == 10 and not text.escaped and scan_day(text.at, days) > 0


cdef inline bint scan_zone(const unsigned char *at, Py_ssize_t length, int year, int *offset) noexcept nogil:
    """In minutes. Java's largest is 18 hours. At the ends of the calendar an offset can lead out of it."""
    cdef int hours, minutes
    if length == 1:
        return at[0] == c'Z'
    if length != 6 or (at[0] != c'+' and at[0] != c'-') or at[3] != c':' or year == 1 or year == 9999:
        return False
    hours, minutes = two_digits(at + 1), two_digits(at + 4)
    if not 0 <= hours <= 17 or not 0 <= minutes <= 59:
        return False
    offset[0] = (hours * 60 + minutes) * (-1 if at[0] == c'-' else 1)
    return True


cdef inline bint as_moment(Span *text, bint zoned, int64_t *microseconds) noexcept nogil:
    """2026-11-17T12:34:56, a fraction of up to nine digits, and a zone if there may be one."""
    cdef const unsigned char *at = text.at
    cdef const unsigned char *end = text.at + text.length
    cdef int64_t days = 0, fraction = 0
    cdef int year, hour, minute, second, offset = 0, digits = 0
    if text.length < 19 or text.escaped:
        return False
    year = scan_day(at, &days)
    hour, minute, second = two_digits(at + 11), two_digits(at + 14), two_digits(at + 17)
    if year < 1 or (at[10] != c'T' and at[10] != c' ') or at[13] != c':' or at[16] != c':' \
            or not 0 <= hour <= 23 or not 0 <= minute <= 59 or not 0 <= second <= 59:
        return False
    at += 19
    if at < end and at[0] == c'.':
        at += 1
        while at < end and is_digit(at[0]):
            if digits < 6:
                fraction = fraction * 10 + (at[0] - c'0')
            digits += 1
            at += 1
        if digits < 1 or digits > 9:
            return False
    if digits < 6:
        fraction *= <int64_t>WHOLE_TENS[6 - digits]
    if at < end:
        if not zoned or not scan_zone(at, end - at, year, &offset):
            return False
    microseconds[0] = (((days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1000000 + fraction
    return True
