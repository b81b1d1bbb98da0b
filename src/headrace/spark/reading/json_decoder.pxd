"""The contents of the columns of JSON payloads while they are filled; see `json_decoder.pyx`."""

from libc.stdint cimport int64_t

from headrace.client.growing cimport Bytes
from headrace.client.outgoing cimport TextColumn
from headrace.spark.reading.json_scan cimport Number, Scan, Span, int128


cdef enum Kind:
    BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ

cdef struct Field:
    const char *name
    Py_ssize_t name_length
    Kind kind
    bint nullable
    int precision
    int scale
    # of the current row
    int64_t found_in                 # the number of the row that had this field
    bint is_null
    int64_t whole                    # or a day, a moment, a boolean
    double real
    int128 decimal
    Span text
    # of the batch
    Bytes validity                   # a bit for each row
    Bytes values                     # offsets, of a STRING
    Bytes data                       # of a STRING


cdef class JsonDecoder:
    cdef list names                  # keeps the memory of the fields' names
    cdef Field *fields
    cdef int count
    cdef int expected                # the field that probably comes next
    cdef int64_t row                 # the number of the current row, across all batches
    cdef Bytes validity

    cdef bint decode_rows(self, TextColumn payloads) noexcept nogil
    cdef bint prepare(self, Py_ssize_t rows) noexcept nogil
    cdef bint parse_row(self, const unsigned char *at, Py_ssize_t length) noexcept nogil
    cdef bint parse_fields(self, Scan *scan) noexcept nogil
    cdef Field *find(self, Span *key) noexcept nogil
    cdef bint is_complete(self) noexcept nogil
    cdef bint store_row(self, Py_ssize_t row, bint decoded) noexcept nogil
