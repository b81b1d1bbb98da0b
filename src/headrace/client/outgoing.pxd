"""Arrow columns that are to be published; `outgoing.pyx` says how."""

from libc.stdint cimport int32_t, int64_t

from headrace.client.growing cimport Bytes


cdef struct Text:
    const char *data
    Py_ssize_t length
    bint present                     # False: null


cdef class View:
    cdef Py_buffer buffer


cdef class Offsets:
    cdef View validity_view          # these keep the memory
    cdef View offsets_view
    cdef const unsigned char *validity  # NULL: no nulls
    cdef const int32_t *offsets
    cdef Py_ssize_t first               # of the array, in its buffers
    cdef readonly Py_ssize_t length

    cdef bint is_null(self, Py_ssize_t row) noexcept nogil


cdef class TextColumn(Offsets):
    cdef View data_view
    cdef const char *data
    cdef Py_ssize_t data_length

    cdef Text get(self, Py_ssize_t row) noexcept nogil


cdef class Outgoing:
    cdef readonly Py_ssize_t count
    cdef int64_t first_number        # the publisher's number of row 0
    cdef bytes subject               # of all rows, unless there are `subjects`
    cdef Text one_subject
    cdef TextColumn subjects
    cdef TextColumn payloads
    cdef TextColumn msg_ids
    cdef Offsets header_lists
    cdef TextColumn keys
    cdef TextColumn values

    cdef const char *find_fault(self, Py_ssize_t row, Py_ssize_t max_payload) noexcept nogil
    cdef Text subject_of(self, Py_ssize_t row) noexcept nogil
    cdef bint has_id(self, Py_ssize_t row) noexcept nogil
    cdef Py_ssize_t headers_length(self, Py_ssize_t row) noexcept nogil
    cdef bint put_frame(self, Bytes *out, Py_ssize_t row, const char *inbox, Py_ssize_t inbox_length,
                        int64_t number) noexcept nogil
