"""Bytes that come in pieces and are taken from the front, in one piece of memory.

Adding a piece costs its own length, on average, however much is waiting: the memory doubles, and what is left moves to the
front only when at least as much was taken.
"""

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

cdef size_t SMALLEST = 4096


cdef class ByteQueue:
    def __dealloc__(self):
        free(self.data)

    cdef int add(self, const char *data, size_t length) except -1:
        cdef size_t wanted
        cdef void *grown
        if self.begin and self.begin >= self.size:
            memmove(self.data, self.data + self.begin, self.size)
            self.begin = 0
        if self.begin + self.size + length > self.capacity:
            wanted = max(2 * (self.size + length), SMALLEST) + self.begin
            grown = realloc(self.data, wanted)
            if grown == NULL:
                raise MemoryError
            self.data = <char *> grown
            self.capacity = wanted
        memcpy(self.data + self.begin + self.size, data, length)
        self.size += length
        return 0

    cdef void drop(self, size_t length) noexcept:
        """Take bytes from the front; no more than there are."""
        self.begin += length
        self.size -= length
        if self.size == 0:
            self.begin = 0
