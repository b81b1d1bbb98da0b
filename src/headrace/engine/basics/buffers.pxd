# Buffers of bytes that grow and are kept, inlined into those who fill them.

from cpython.mem cimport PyMem_Realloc

cdef enum:
    SMALLEST_BUFFER = 4096


cdef inline int resize_buffer(char **data, Py_ssize_t *capacity, Py_ssize_t wanted) except -1:
    """What is in it stays. Raises MemoryError; then nothing has changed."""
    cdef void *grown = PyMem_Realloc(data[0], wanted)
    if grown == NULL:
        raise MemoryError
    data[0] = <char *> grown
    capacity[0] = wanted
    return 0


cdef inline int grow_buffer(char **data, Py_ssize_t *capacity, Py_ssize_t needed) except -1:
    """Make room for so much in all. It doubles at least, so that adding costs the same however much there is."""
    if needed <= capacity[0]:
        return 0
    return resize_buffer(data, capacity, max(needed, 2 * capacity[0], <Py_ssize_t> SMALLEST_BUFFER))
