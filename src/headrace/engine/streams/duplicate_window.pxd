# Which Nats-Msg-Ids were stored lately. The theory is at the top of duplicate_window.pyx.

from libc.stdint cimport int64_t, uint64_t

from headrace.engine.segments.windows cimport Window
from headrace.engine.store.log cimport Log
from headrace.engine.streams.message_ids cimport MessageIds

cdef class DuplicateWindow:
    cdef Log log
    cdef public int64_t length             # ns; 0: there is none
    cdef MessageIds ids
    cdef uint64_t unread                   # the first stored message whose id is not in `ids` so far; 0: none
    cdef uint64_t unread_end               # and the last one
    cdef Window window                     # for a look at the message that may have the same id

    cdef uint64_t find_hashed(self, uint64_t hashed, const char *msg_id, Py_ssize_t length, int64_t now) except? 0
    cdef bytes forget_failed(self)
    cdef int _read_ids(self, uint64_t messages) except -1

cdef const char *find_msg_id(const char *headers, Py_ssize_t length, Py_ssize_t *value_length) noexcept
cdef const char *trim(const char *at, const char *line_end, Py_ssize_t *length) noexcept
