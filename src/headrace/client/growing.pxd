# A run of bytes that grows, inlined into what fills columns and what writes frames.

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

from headrace.engine.basics.decimals cimport write_decimal

cdef struct Bytes:
    char *data
    Py_ssize_t length
    Py_ssize_t capacity


cdef inline bint ensure(Bytes *run, Py_ssize_t more) noexcept nogil:
    """Make room. False when there is no memory. A run without memory takes its capacity as a first guess."""
    cdef Py_ssize_t needed = run.length + more
    cdef Py_ssize_t capacity = run.capacity
    cdef char *grown
    if run.data != NULL and needed <= capacity:
        return True
    if needed > capacity:
        capacity = max(needed, 2 * capacity)
    capacity = max(capacity, 64)
    grown = <char *>realloc(run.data, capacity)
    if grown == NULL:
        return False
    run.data, run.capacity = grown, capacity
    return True


# These write without asking: there must be room.

cdef inline void put(Bytes *run, const char *data, Py_ssize_t length) noexcept nogil:
    memcpy(run.data + run.length, data, length)
    run.length += length


cdef inline void put_int32(Bytes *run, Py_ssize_t value) noexcept nogil:
    (<int32_t *>(run.data + run.length))[0] = <int32_t>value
    run.length += 4


cdef inline void put_int64(Bytes *run, int64_t value) noexcept nogil:
    (<int64_t *>(run.data + run.length))[0] = value
    run.length += 8


cdef inline void put_number(Bytes *run, uint64_t value) noexcept nogil:
    """In decimal; at most 20 bytes."""
    run.length += write_decimal(run.data + run.length, value)
