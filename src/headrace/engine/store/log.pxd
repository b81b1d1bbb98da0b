# The log of one stream. The theory is at the top of log.pyx.

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.store.chores cimport Chores
from headrace.engine.store.limits cimport Limits
from headrace.engine.store.log_view cimport LogView
from headrace.engine.store.pipeline cimport Pipeline
from headrace.engine.store.writer cimport Writer

@cython.final
cdef class Log(LogView):
    # Sinks and cursors read from its store: read(), seek(), search().
    cdef Limits limits
    cdef Pipeline pipeline
    cdef Writer writer             # the pipeline's
    cdef Chores chores             # the pipeline's
    cdef uint64_t plain_segment_bytes
    cdef readonly str refusal      # why the last append_message() returned 0

    # For the sinks.
    cdef uint64_t append_message(self, const char *subject, uint32_t subject_length, const char *body,
                                 uint32_t header_length, Py_ssize_t size, int64_t time) except? 0
    cdef size_t backlog(self) noexcept
    cpdef int commit(self) except -1

    cdef uint64_t _append(self, const char *subject, uint32_t subject_length, const char *body,
                          uint32_t header_length, Py_ssize_t size, int64_t time, uint64_t seq) except? 0
    cdef int _check_open(self) except -1
    cdef int _check_writable(self) except -1
    cdef int _set_compression(self, str compression) except -1
