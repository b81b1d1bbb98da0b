"""Arrow columns into PUB and HPUB frames, with no Python object per message.

    subject   data      headers              msg id
    "a.b"     b"12"     []                   null      ->  PUB a.b _INBOX.x.7 2\\r\\n12\\r\\n
    "a.c"     b"34"     [("k", "v")]         "id1"     ->  HPUB a.c _INBOX.x.8 44 46\\r\\nNATS/1.0\\r\\n
                                                           Nats-Msg-Id: id1\\r\\nk: v\\r\\n\\r\\n34\\r\\n

The plan
--------
`check` looks at every row before the first is sent, so a bad one stops a batch as a whole: an empty subject, a
line break in a header, more bytes than the server accepts. After that `put_frame` can only fail for lack of
memory, and may be called again for a row that was not acknowledged.

The rules
---------
* Offsets are checked against the buffers' lengths: an array that was assembled by hand is not trusted.
* A null payload is empty. A null msg id means none. A null subject or key is an error.
* If a row has its own msg id, a `Nats-Msg-Id` in its headers (copied from another stream, say) is left out: the
  server would use the first, and readers would see both.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memchr, memcmp

from headrace.client.growing cimport ensure, put, put_number

cdef enum:
    FRAME_EXTRA = 96                 # operation, spaces, line ends, three numbers
    MSG_ID_LENGTH = 11               # Nats-Msg-Id


class BadRow(ValueError):
    """A row that cannot be published: `row` and `reason`."""

    def __init__(self, row, reason):
        super().__init__(f"row {row}: {reason}")
        self.row, self.reason = row, reason


cdef class View:
    """The bytes of an object, whatever their type."""

    def __cinit__(self, owner):
        PyObject_GetBuffer(owner, &self.buffer, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)


cdef class Offsets:
    """The validity and the offsets of an Arrow array with 32-bit offsets: a list, or the base of a string."""

    def __cinit__(self, Py_ssize_t length, Py_ssize_t first, validity, offsets, *rest):
        if length < 0 or first < 0:
            raise ValueError("an array has no negative length")
        self.length, self.first = length, first
        if validity is not None:
            self.validity_view = View(validity)
            if self.validity_view.buffer.len * 8 < first + length:
                raise ValueError("the validity bitmap is shorter than the array")
            self.validity = <const unsigned char *>self.validity_view.buffer.buf
        if length:
            self.offsets_view = View(offsets)
            if self.offsets_view.buffer.len // 4 < first + length + 1:
                raise ValueError("the offsets are shorter than the array")
            self.offsets = <const int32_t *>self.offsets_view.buffer.buf

    cdef bint is_null(self, Py_ssize_t row) noexcept nogil:
        row += self.first
        return self.validity != NULL and not (self.validity[row >> 3] >> (row & 7)) & 1

    def check(self, Py_ssize_t limit):
        """Raise ValueError unless the offsets increase and end within `limit`."""
        cdef Py_ssize_t row
        cdef int32_t at = 0
        cdef bint good = True
        if self.length == 0:
            return
        with nogil:
            if self.offsets[self.first] < 0:
                good = False
            for row in range(self.first, self.first + self.length):
                if self.offsets[row + 1] < self.offsets[row]:
                    good = False
                    break
        if not good or self.offsets[self.first + self.length] > limit:
            raise ValueError("the offsets of an array point outside of its data")


cdef class TextColumn(Offsets):
    """An Arrow array of strings or bytes with 32-bit offsets, as its length, offset and three buffers."""

    def __cinit__(self, Py_ssize_t length, Py_ssize_t first, validity, offsets, data):
        if data is not None:
            self.data_view = View(data)
            self.data_length = self.data_view.buffer.len
            self.data = <const char *>self.data_view.buffer.buf
        self.check(self.data_length)

    cdef Text get(self, Py_ssize_t row) noexcept nogil:
        cdef Text text
        cdef int32_t start = self.offsets[self.first + row]
        text.present = not self.is_null(row)
        text.data = self.data + start
        text.length = self.offsets[self.first + row + 1] - start if text.present else 0
        return text


cdef inline bint is_msg_id(Text key) noexcept nogil:
    return key.length == MSG_ID_LENGTH and memcmp(key.data, b"Nats-Msg-Id", MSG_ID_LENGTH) == 0


cdef inline bint is_edge_blank(char byte) noexcept nogil:
    return byte == c' ' or byte == c'\t'


cdef inline bint breaks_line(Text text) noexcept nogil:
    return text.length > 0 and (memchr(text.data, c'\n', text.length) != NULL
                                or memchr(text.data, c'\r', text.length) != NULL)


cdef const char *subject_fault(Text subject) noexcept nogil:
    """Why it is not a valid subject to publish to, or NULL."""
    cdef Py_ssize_t at, token = 0
    if subject.length == 0:
        return b"the subject is missing"
    for at in range(subject.length + 1):
        if at == subject.length or subject.data[at] == c'.':
            if at == token:
                return b"the subject has an empty token"
            if at == token + 1 and (subject.data[token] == c'*' or subject.data[token] == c'>'):
                return b"the subject has a wildcard"
            token = at + 1
        elif 0 <= subject.data[at] <= 32:
            return b"the subject has a space or a control character"
    return NULL


cdef class Outgoing:
    """Rows to publish. `subject` is one for all, or a column."""

    def __cinit__(self, Py_ssize_t count, subject, TextColumn payloads not None, *,
                  Offsets header_lists=None, TextColumn keys=None, TextColumn values=None,
                  TextColumn msg_ids=None):
        self.count = count
        if isinstance(subject, bytes):
            self.subject = subject
            self.one_subject.data, self.one_subject.length = self.subject, len(self.subject)
            self.one_subject.present = True
        else:
            self.subjects = subject
        self.payloads, self.header_lists, self.msg_ids = payloads, header_lists, msg_ids
        self.keys, self.values = keys, values
        for column in (self.subjects, payloads, header_lists, msg_ids):
            if column is not None and (<Offsets>column).length != count:
                raise ValueError("the columns differ in length")
        if header_lists is not None:
            if keys is None or values is None or keys.length != values.length:
                raise ValueError("headers need as many keys as values")
            header_lists.check(keys.length)

    def check(self, Py_ssize_t max_payload):
        """Raise BadRow for the first row that cannot be published."""
        cdef Py_ssize_t row
        cdef const char *fault = NULL
        with nogil:
            for row in range(self.count):
                fault = self.find_fault(row, max_payload)
                if fault != NULL:
                    break
        if fault != NULL:
            raise BadRow(row, fault.decode())

    cdef const char *find_fault(self, Py_ssize_t row, Py_ssize_t max_payload) noexcept nogil:
        cdef const char *fault
        cdef Text key, text
        cdef Py_ssize_t entry
        if row == 0 or self.subjects is not None:
            fault = subject_fault(self.subject_of(row))
            if fault != NULL:
                return fault
        if self.header_lists is not None and not self.header_lists.is_null(row):
            for entry in range(self.header_lists.offsets[self.header_lists.first + row],
                               self.header_lists.offsets[self.header_lists.first + row + 1]):
                key, text = self.keys.get(entry), self.values.get(entry)
                if key.length == 0:
                    return b"a header has no key"
                if breaks_line(key) or memchr(key.data, c':', key.length) != NULL:
                    return b"the key of a header has a colon or a line break"
                if is_edge_blank(key.data[0]) or is_edge_blank(key.data[key.length - 1]):
                    return b"the key of a header starts or ends with a space"
                if breaks_line(text):
                    return b"the value of a header has a line break"
        if self.msg_ids is not None:
            text = self.msg_ids.get(row)
            if breaks_line(text):
                return b"the message id has a line break"
        if self.headers_length(row) + self.payloads.get(row).length > max_payload:
            return b"the message is larger than the server accepts"
        return NULL

    cdef Text subject_of(self, Py_ssize_t row) noexcept nogil:
        return self.subjects.get(row) if self.subjects is not None else self.one_subject

    cdef bint has_id(self, Py_ssize_t row) noexcept nogil:
        """Whether the server can recognize this message as a duplicate."""
        cdef Py_ssize_t entry
        if self.msg_ids is not None and self.msg_ids.get(row).length > 0:
            return True
        if self.header_lists is not None and not self.header_lists.is_null(row):
            for entry in range(self.header_lists.offsets[self.header_lists.first + row],
                               self.header_lists.offsets[self.header_lists.first + row + 1]):
                if is_msg_id(self.keys.get(entry)) and self.values.get(entry).length > 0:
                    return True
        return False

    cdef Py_ssize_t headers_length(self, Py_ssize_t row) noexcept nogil:
        """The length of the header block that `put_frame` writes; 0 if there is none."""
        cdef Py_ssize_t length = 0, entry
        cdef Text key
        cdef bint own_id = self.msg_ids is not None and self.msg_ids.get(row).length > 0
        if own_id:
            length += MSG_ID_LENGTH + 2 + self.msg_ids.get(row).length + 2
        if self.header_lists is not None and not self.header_lists.is_null(row):
            for entry in range(self.header_lists.offsets[self.header_lists.first + row],
                               self.header_lists.offsets[self.header_lists.first + row + 1]):
                key = self.keys.get(entry)
                if not (own_id and is_msg_id(key)):
                    length += key.length + 2 + self.values.get(entry).length + 2
        return length + 12 if length else 0

    cdef bint put_frame(self, Bytes *out, Py_ssize_t row, const char *inbox, Py_ssize_t inbox_length,
                        int64_t number) noexcept nogil:
        """Append a row's frame, with the reply subject `inbox` + `number` if there is an inbox.

        Returns False if there is no memory.
        """
        cdef Text subject = self.subject_of(row)
        cdef Text payload = self.payloads.get(row)
        cdef Text key, text
        cdef Py_ssize_t headers = self.headers_length(row), entry
        cdef bint own_id
        if not ensure(out, subject.length + inbox_length + headers + payload.length + FRAME_EXTRA):
            return False
        if headers:
            put(out, b"HPUB ", 5)
        else:
            put(out, b"PUB ", 4)
        put(out, subject.data, subject.length)
        put(out, b" ", 1)
        if inbox_length:
            put(out, inbox, inbox_length)
            put_number(out, number)
            put(out, b" ", 1)
        if headers:
            put_number(out, headers)
            put(out, b" ", 1)
        put_number(out, headers + payload.length)
        put(out, b"\r\n", 2)
        if headers:
            put(out, b"NATS/1.0\r\n", 10)
            own_id = self.msg_ids is not None and self.msg_ids.get(row).length > 0
            if own_id:
                text = self.msg_ids.get(row)
                put(out, b"Nats-Msg-Id: ", 13)
                put(out, text.data, text.length)
                put(out, b"\r\n", 2)
            if self.header_lists is not None and not self.header_lists.is_null(row):
                for entry in range(self.header_lists.offsets[self.header_lists.first + row],
                                   self.header_lists.offsets[self.header_lists.first + row + 1]):
                    key = self.keys.get(entry)
                    if not (own_id and is_msg_id(key)):
                        text = self.values.get(entry)
                        put(out, key.data, key.length)
                        put(out, b": ", 2)
                        put(out, text.data, text.length)
                        put(out, b"\r\n", 2)
            put(out, b"\r\n", 2)
        put(out, payload.data, payload.length)
        put(out, b"\r\n", 2)
        return True
