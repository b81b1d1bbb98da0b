# Bytes that come in pieces and are taken from the front. The theory is at the top of byte_queue.pyx.

cimport cython

@cython.final
cdef class ByteQueue:
    cdef char *data
    cdef size_t begin              # of what is left
    cdef size_t size               # of what is left
    cdef size_t capacity

    cdef int add(self, const char *data, size_t length) except -1
    cdef void drop(self, size_t length) noexcept


cdef inline const char *front(ByteQueue queue) noexcept:
    return queue.data + queue.begin
