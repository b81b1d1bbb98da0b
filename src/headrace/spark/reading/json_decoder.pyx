"""JSON payloads into Arrow columns, in the process that has the bytes. No Python object per message.

Spark's `from_json` with the checks of `payload/json_columns.py` costs several times as much CPU
(`python -m benchmarks.payload`). This decoder knows only what most payloads consist of: an object whose fields
are plain values. Its one rule is that it never guesses:

    payload                           row of the struct        who decides
    {"id": 7, "price": 1.50}          {7, 1.50}                this decoder
    {"id": 7.5}                       null                     Spark: a dead letter, with its reason
    {"id": 7, "id": 8}                null                     Spark: {8, null}

What it accepts is exactly what `json_columns` makes of it. If it is not sure (two equal keys, a number in a
STRING column, half a surrogate pair, a value that does not fit, …) the row of the struct is null, and Spark reads
the payload as if this decoder did not exist. tests/spark/payload/test_json_decoder.py compares it with the
rules in Python, and test_early.py with Spark.

The plan
--------
A row is first read into `Field`s, and stored once all of it is known to be right, so nothing has to be undone. A
field is found by guessing that keys come in the order of the schema. All lengths are checked: those of offsets in
`TextColumn`, those of a payload in `json_scan`.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from headrace.client.columns cimport release
from headrace.client.growing cimport Bytes, ensure, put_int32
from headrace.client.outgoing cimport Text, TextColumn
from headrace.spark.reading.json_scan cimport (LONGEST_TEXT, Number, Scan, Span, as_date, as_decimal, as_double,
                                               as_float, as_integer, as_moment, int128, is_utf8, scan_number,
                                               scan_text, skip_space, take, take_word, write_unescaped)

cdef enum:
    DEEPEST = 32                     # of values that are skipped
    LONGEST_KEY = 1024
    FIELDS_MAX = 4096

KINDS = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "date",
         "timestamp", "timestamp_ntz")
"""The types of columns that can be decoded, as Spark names them, in the order of `Kind`."""

cdef int[12] WIDTHS = [0, 1, 2, 4, 8, 4, 8, 16, 4, 4, 8, 8]      # bytes per value; a boolean is a bit


cdef inline Py_ssize_t bitmap_bytes(Py_ssize_t rows) noexcept nogil:
    return (rows + 7) // 8


cdef inline void set_bit(Bytes *bitmap, Py_ssize_t row) noexcept nogil:
    bitmap.data[row >> 3] |= 1 << (row & 7)


cdef bint clear(Bytes *run, Py_ssize_t length) noexcept nogil:
    """Zeros. False when there is no memory."""
    run.length = 0
    if not ensure(run, length):
        return False
    memset(run.data, 0, length)
    run.length = length
    return True


cdef bint skip_value(Scan *scan, int depth) noexcept nogil:
    """A value that no column takes must still be valid JSON."""
    cdef Span text
    cdef Number number
    cdef unsigned char byte
    if scan.at >= scan.end:
        return False
    byte = scan.at[0]
    if byte == c'"':
        return scan_text(scan, &text)
    if byte == c'{' or byte == c'[':
        return depth < DEEPEST and skip_container(scan, byte == c'{', depth + 1)
    if byte == c't':
        return take_word(scan, b"true", 4)
    if byte == c'f':
        return take_word(scan, b"false", 5)
    if byte == c'n':
        return take_word(scan, b"null", 4)
    return scan_number(scan, &number)


cdef bint skip_container(Scan *scan, bint is_object, int depth) noexcept nogil:
    cdef unsigned char closing = c'}' if is_object else c']'
    cdef Span key
    scan.at += 1
    skip_space(scan)
    if take(scan, closing):
        return True
    while True:
        if is_object:
            if not scan_text(scan, &key) or key.length > LONGEST_KEY:
                return False
            skip_space(scan)
            if not take(scan, c':'):
                return False
            skip_space(scan)
        if not skip_value(scan, depth):
            return False
        skip_space(scan)
        if take(scan, closing):
            return True
        if not take(scan, c','):
            return False
        skip_space(scan)


cdef inline bint is_surely_text(Span *text) noexcept nogil:
    """Whether `json_columns._was_no_text` cannot mistake it for a number or a container; see there."""
    cdef unsigned char first
    if text.length == 0:
        return True
    first = text.at[0]
    if first == c'{' or first == c'[':
        return False
    if not text.escaped:
        return True
    if first == c'\\':   # an escape of ASCII may stand for any of them
        return text.at[1] == c'u' and not (text.at[2] == c'0' and text.at[3] == c'0' and text.at[4] < c'8')
    return first < c'-' or first > c'9'


cdef bint read_number(Scan *scan, Field *field) noexcept nogil:
    cdef Number number
    cdef Span text
    cdef Scan inner
    if field.kind == DECIMAL and scan.at < scan.end and scan.at[0] == c'"':   # the only one that may be a string
        if not scan_text(scan, &text):
            return False
        inner.at, inner.end = text.at, text.at + text.length
        if not scan_number(&inner, &number) or inner.at != inner.end:
            return False
    elif not scan_number(scan, &number):
        return False
    if field.kind == DECIMAL:
        return as_decimal(&number, field.precision, field.scale, &field.decimal)
    if field.kind == DOUBLE:
        return as_double(&number, &field.real)
    if field.kind == FLOAT:
        return as_float(&number, &field.real)
    return as_integer(&number, 8 * WIDTHS[<int>field.kind], &field.whole)


cdef bint read_value(Scan *scan, Field *field) noexcept nogil:
    """A value of this field, which is not null."""
    if field.kind == BOOLEAN:
        field.whole = scan.at < scan.end and scan.at[0] == c't'
        return take_word(scan, b"true", 4) if field.whole else take_word(scan, b"false", 5)
    if field.kind <= DECIMAL:
        return read_number(scan, field)
    if not scan_text(scan, &field.text):
        return False
    if field.kind == STRING:
        return is_surely_text(&field.text)
    if field.kind == DATE:
        return as_date(&field.text, &field.whole)
    return as_moment(&field.text, field.kind == TIMESTAMP, &field.whole)


cdef void store_value(Field *field, Py_ssize_t row) noexcept nogil:
    """Store a value of any kind but STRING. There is room."""
    cdef char *values = field.values.data
    if field.kind == BOOLEAN:
        if field.whole:
            set_bit(&field.values, row)
    elif field.kind == TINYINT:
        (<int8_t *>values)[row] = <int8_t>field.whole
    elif field.kind == SMALLINT:
        (<int16_t *>values)[row] = <int16_t>field.whole
    elif field.kind == INT or field.kind == DATE:
        (<int32_t *>values)[row] = <int32_t>field.whole
    elif field.kind == FLOAT:
        (<float *>values)[row] = <float>field.real
    elif field.kind == DOUBLE:
        (<double *>values)[row] = field.real
    elif field.kind == DECIMAL:
        memcpy(values + 16 * row, &field.decimal, 16)
    else:
        (<int64_t *>values)[row] = field.whole


cdef bint store_text(Field *field) noexcept nogil:
    """False when there is no memory."""
    if not ensure(&field.data, field.text.length):
        return False
    if field.text.escaped:
        field.data.length += write_unescaped(<unsigned char *>field.data.data + field.data.length, &field.text)
    else:
        memcpy(field.data.data + field.data.length, field.text.at, field.text.length)
        field.data.length += field.text.length
    return True


cdef class JsonDecoder:
    """Decodes payloads for columns, each given as its name, one of KINDS, whether it may be null, precision, scale."""

    def __cinit__(self, columns):
        cdef int k
        columns = list(columns)
        if not 0 < len(columns) <= FIELDS_MAX:
            raise ValueError(f"a schema has 1 to {FIELDS_MAX} columns")
        self.names = [name.encode() for name, *_ in columns]
        self.fields = <Field *>calloc(len(columns), sizeof(Field))
        if self.fields == NULL:
            raise MemoryError
        self.count = len(columns)
        for k, (_, kind, nullable, precision, scale) in enumerate(columns):
            if not 0 <= scale <= precision <= 38:
                raise ValueError(f"there is no DECIMAL({precision}, {scale})")
            self.fields[k].name = self.names[k]
            self.fields[k].name_length = len(self.names[k])
            self.fields[k].kind = <Kind><int>KINDS.index(kind)
            self.fields[k].nullable = nullable
            self.fields[k].precision, self.fields[k].scale = precision, scale

    def __dealloc__(self):
        cdef int k
        free(self.validity.data)
        for k in range(self.count):
            free(self.fields[k].validity.data)
            free(self.fields[k].values.data)
            free(self.fields[k].data.data)
        free(self.fields)

    def decode(self, TextColumn payloads not None):
        """A bitmap of the rows that are decoded, and of each column its buffers: validity, values or offsets, data.

        Columns are null in rows that are not decoded. The buffers are not copied.
        """
        cdef bint enough
        with nogil:
            enough = self.prepare(payloads.length) and self.decode_rows(payloads)
        if not enough:
            raise MemoryError
        columns = []
        for k in range(self.count):
            field = &self.fields[k]
            buffers = [release(&field.validity), release(&field.values)]
            columns.append([*buffers, release(&field.data)] if field.kind == STRING else buffers)
        return release(&self.validity), columns

    cdef bint decode_rows(self, TextColumn payloads) noexcept nogil:
        """False when there is no memory."""
        cdef Py_ssize_t row
        cdef Text payload
        cdef bint decoded
        for row in range(payloads.length):
            payload = payloads.get(row)
            self.row = self.row + 1    # in the debug build += would need the GIL
            decoded = payload.present and self.parse_row(<const unsigned char *>payload.data, payload.length)
            if decoded:
                set_bit(&self.validity, row)
            if not self.store_row(row, decoded):
                return False
        return True

    cdef bint prepare(self, Py_ssize_t rows) noexcept nogil:
        cdef Field *field
        cdef int k
        if not clear(&self.validity, bitmap_bytes(rows)):
            return False
        for k in range(self.count):
            field = &self.fields[k]
            if not clear(&field.validity, bitmap_bytes(rows)):
                return False
            if field.kind == STRING:
                field.values.length = field.data.length = 0
                if not ensure(&field.values, 4 * (rows + 1)) or not ensure(&field.data, 0):
                    return False
                put_int32(&field.values, 0)
            elif not clear(&field.values, rows * WIDTHS[<int>field.kind] if field.kind else bitmap_bytes(rows)):
                return False
        return True

    cdef bint parse_row(self, const unsigned char *at, Py_ssize_t length) noexcept nogil:
        """Whether a payload is certainly a row; then the fields have it."""
        cdef Scan scan
        scan.at, scan.end = at, at + length
        self.expected = 0
        skip_space(&scan)
        if not take(&scan, c'{') or not self.parse_fields(&scan):
            return False
        skip_space(&scan)
        return scan.at == scan.end and self.is_complete() and is_utf8(at, length)

    cdef bint parse_fields(self, Scan *scan) noexcept nogil:
        """Parse up to the brace that closes the object."""
        cdef Span key
        cdef Field *field
        skip_space(scan)
        if take(scan, c'}'):
            return True
        while True:
            # A key with an escape may be any key, and so may one that occurs twice.
            if not scan_text(scan, &key) or key.escaped or key.length > LONGEST_KEY:
                return False
            skip_space(scan)
            if not take(scan, c':'):
                return False
            skip_space(scan)
            field = self.find(&key)
            if field == NULL:
                if not skip_value(scan, 0):
                    return False
            else:
                if field.found_in == self.row:
                    return False
                field.found_in = self.row
                field.is_null = take_word(scan, b"null", 4)
                if not field.is_null and not read_value(scan, field):
                    return False
            skip_space(scan)
            if take(scan, c'}'):
                return True
            if not take(scan, c','):
                return False
            skip_space(scan)

    cdef Field *find(self, Span *key) noexcept nogil:
        """The field of this name; NULL if there is none."""
        cdef Field *field
        cdef int k, place = self.expected
        for k in range(self.count):
            field = &self.fields[place]
            place = place + 1 if place + 1 < self.count else 0
            if field.name_length == key.length and memcmp(field.name, key.at, key.length) == 0:
                self.expected = place
                return field
        return NULL

    cdef bint is_complete(self) noexcept nogil:
        """Whether every field that must not be null has a value."""
        cdef int k
        for k in range(self.count):
            if not self.fields[k].nullable and (self.fields[k].found_in != self.row or self.fields[k].is_null):
                return False
        return True

    cdef bint store_row(self, Py_ssize_t row, bint decoded) noexcept nogil:
        """False when there is no memory."""
        cdef Field *field
        cdef int k
        for k in range(self.count):
            field = &self.fields[k]
            if decoded and field.found_in == self.row and not field.is_null:
                set_bit(&field.validity, row)
                if field.kind != STRING:
                    store_value(field, row)
                elif not store_text(field):
                    return False
            if field.kind == STRING:
                put_int32(&field.values, field.data.length)
        return True
