# What one compressed message holds. The theory is at the top of inflater.pyx.

cdef class Inflater:
    cdef object stream             # zlib's, of the message that is arriving; None between messages
    cdef bytes waiting             # what it has not consumed
    cdef bint is_full              # it may have more for what it has consumed
    cdef bint has_last             # the last piece has been given to it
    cdef readonly long long deflated
    cdef readonly long long inflated

    cdef bint is_busy(self) noexcept
    cdef int add(self, const char *data, Py_ssize_t length, bint is_last) except -1
    cdef bytes take(self, Py_ssize_t room)
