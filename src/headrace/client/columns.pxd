"""What the columns of a stream's messages hold while they are filled; `columns.pyx` says how."""

from libc.stdint cimport int64_t

from headrace.client.frames cimport Frame, Frames, Status
from headrace.client.growing cimport Bytes


cdef enum:                            # the parts of `texts`
    SUBJECT, PAYLOAD, KEY, VALUE

cdef enum:
    PREFIX_MAX = 512

cdef struct Texts:                   # an Arrow column of strings: value k lies between offsets k and k + 1
    Bytes offsets
    Bytes data

cdef struct Place:                   # what the reply subject of a delivery says
    int64_t seq
    int64_t time                     # nanoseconds since 1970
    int64_t pending


cdef class Buffer:
    cdef char *data
    cdef Py_ssize_t length


cdef Buffer release(Bytes *run)


cdef class Columns:
    cdef readonly int64_t sid        # the subscription whose messages are rows
    cdef readonly int64_t rows
    cdef public int64_t credit       # messages that the server may still send
    cdef public int64_t low_credit   # `read` comes back when no more than this is left of it
    cdef readonly int64_t last_seq   # of the latest row, also of earlier batches
    cdef readonly int64_t pending    # messages that match after the latest row, as the server counts; -1: unknown
    cdef readonly int64_t jumped_from  # the lowest sequence after which one is missing in this batch; -1: none
    cdef readonly bint complete      # the end of the range was reached
    cdef int64_t final_seq
    cdef int64_t batch_rows
    cdef Py_ssize_t batch_bytes
    cdef bint with_headers
    cdef const char *complaint
    cdef char prefix[PREFIX_MAX]     # of the reply subjects, up to the first number; empty: not known yet
    cdef Py_ssize_t prefix_length
    cdef Texts texts[4]              # by part
    cdef Bytes header_offsets
    cdef Bytes seqs
    cdef Bytes times

    cdef Py_ssize_t size(self) noexcept nogil
    cdef Status prepare(self) noexcept nogil
    cdef Status take_frame(self, Frame *frame) noexcept nogil
    cdef Status add_row(self, int64_t seq, int64_t time, const char *subject, Py_ssize_t subject_length,
                        const char *headers, Py_ssize_t headers_length, const char *payload,
                        Py_ssize_t payload_length) noexcept nogil
    cdef bint parse_known_place(self, Frame *frame, Place *place) noexcept nogil
    cdef bint parse_place(self, Frame *frame, Place *place) noexcept nogil
    cdef Status take_headers(self, const char *at, Py_ssize_t length) noexcept nogil
    cdef Status append_text(self, Texts *texts, const char *at, Py_ssize_t length) noexcept nogil
