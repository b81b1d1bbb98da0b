# Requests for the last message of a subject. The theory is at the top of last_gets.pyx.

from libc.stdint cimport uint32_t

from headrace.engine.core.sinks cimport Inbox
from headrace.engine.segments.windows cimport Record
from headrace.engine.store.log cimport Log

cdef packed struct Request:
    # Followed by the reply subject, then by the subject that is asked for.
    uint32_t reply_length
    uint32_t subject_length

cdef class Requests:
    """Those that wait together."""
    cdef char *data
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity
    cdef Py_ssize_t answered       # bytes of them

    cdef int add(self, const char *reply, uint32_t reply_length, const char *subject, uint32_t subject_length) except -1


cdef class LastGets(Inbox):
    cdef Log log
    cdef object on_failure
    cdef bytes head                # of what a response says about its message, up to the subject
    cdef Py_ssize_t prefix_length  # of a request's subject, before the one that is asked for
    cdef Py_ssize_t count          # of requests in this tick
    cdef Requests waiting          # of this tick
    cdef char *scratch             # a response
    cdef Py_ssize_t scratch_capacity

    cdef bint _answer(self, const char *reply, uint32_t reply_length, const char *subject,
                      uint32_t subject_length) except -1
    cdef int _send(self, const char *reply, uint32_t reply_length, const char *block, Py_ssize_t header_length,
                   Py_ssize_t size) except -1
    cdef Py_ssize_t _write(self, Record *record) except -1
    cdef int _make_room(self, Py_ssize_t size) except -1
