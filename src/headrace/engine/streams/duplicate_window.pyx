"""The duplicate window of a stream: is a message with this Nats-Msg-Id already stored?

The ids of the last minutes are in a table of hashes (message_ids.pyx); the messages that they belong to are in the log,
where the ids themselves are compared. After a start the table is empty: `recover` says from which message on the log
has to be read, which is done in parts, or all at once when the first id is asked for.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memchr, memcmp

from headrace.engine.basics.filters cimport Filter
from headrace.engine.basics.system cimport wall_clock
from headrace.engine.segments.windows cimport Record, Window
from headrace.engine.store.log cimport Log
from headrace.engine.streams.message_ids cimport MessageIds, Remembered

cdef uint64_t ALL_OF_THEM = <uint64_t> -1


cdef class DuplicateWindow:
    def __cinit__(self, Log log not None):
        self.log = log
        self.ids = MessageIds()
        self.window = Window(1024)

    def find(self, bytes msg_id not None):
        """The sequence under which a message with this id was stored within the window; 0: none."""
        return self.find_hashed(self.ids.hash(msg_id, len(msg_id)), msg_id, len(msg_id), wall_clock())

    cdef uint64_t find_hashed(self, uint64_t hashed, const char *msg_id, Py_ssize_t length, int64_t now) except? 0:
        """The same for an id whose hash is known."""
        cdef Remembered *entry = NULL
        cdef Record record
        cdef const char *value
        cdef Py_ssize_t value_length
        self.ids.forget_before(now - self.length)
        if self.unread:
            self._read_ids(ALL_OF_THEM)
        while True:
            entry = self.ids.find(hashed, entry)
            if entry == NULL:
                return 0
            # The hash alone would do in all but one of 10^12 cases. It has to for a message that was deleted since.
            if not self.log.store.read(self.window, entry.seq, &record):
                return entry.seq
            value = find_msg_id(record.headers, record.header_length, &value_length)
            if value != NULL and value_length == length and memcmp(value, msg_id, length) == 0:
                return entry.seq

    def remember(self, bytes msg_id not None, uint64_t seq, int64_t time):
        """Call it in the order of time."""
        if self.unread:
            self._read_ids(ALL_OF_THEM)
        if self.length:
            self.ids.add(self.ids.hash(msg_id, len(msg_id)), seq, time)

    @property
    def count(self):
        """How many ids are in the window."""
        if self.unread:
            self._read_ids(ALL_OF_THEM)
        while self.ids.forget_before(wall_clock() - self.length):
            pass
        return self.ids.count

    # -- recovery and failure -------------------------------------------------------------------------------------------

    def recover(self, uint64_t first_seq):
        """After a start: remember the ids of the messages from this sequence on.

        They are read when they are needed. `recover_some` reads them before that.
        """
        self.unread = first_seq if first_seq <= self.log.store.last_seq else 0
        self.unread_end = self.log.store.last_seq

    def recover_some(self, uint64_t messages):
        """Read the ids of this many more messages; returns whether any are left."""
        if self.unread:
            self._read_ids(messages)
        return self.unread != 0

    cdef int _read_ids(self, uint64_t messages) except -1:
        cdef Record record
        cdef const char *value
        cdef Py_ssize_t length
        cdef Window window = Window(262144)
        cdef Filter everything = Filter(())
        while messages:
            messages -= 1
            if not self.log.store.seek(window, self.unread, everything, &record) or record.seq > self.unread_end:
                self.unread = 0
                return 0
            self.unread = record.seq + 1
            if record.header_length:
                value = find_msg_id(record.headers, record.header_length, &length)
                if value != NULL and length:
                    self.ids.add(self.ids.hash(value, length), record.seq, record.time)
        return 0

    def forget_all(self):
        self.ids.clear()
        self.unread = 0

    cdef bytes forget_failed(self):
        """The messages of a failed group are not stored: their ids may be used again. Returns the last id that is left."""
        cdef Record record
        cdef const char *value
        cdef Py_ssize_t length = 0
        self.ids.forget_after(self.log.store.committed_seq)
        if self.log.store.read(self.window, self.log.store.last_seq, &record):
            value = find_msg_id(record.headers, record.header_length, &length)
            if value != NULL:
                return value[:length]
        return b''


cdef const char *find_msg_id(const char *headers, Py_ssize_t length, Py_ssize_t *value_length) noexcept:
    """The value of the first Nats-Msg-Id; NULL: there is none."""
    cdef const char *at = headers
    cdef const char *end = headers + length
    cdef const char *line_end
    while at < end:
        line_end = <const char *> memchr(at, c'\n', end - at)
        if line_end == NULL:
            return NULL
        if line_end - at > 12 and memcmp(at, b'Nats-Msg-Id:', 12) == 0:
            return trim(at + 12, line_end, value_length)
        at = line_end + 1
    return NULL


cdef const char *trim(const char *at, const char *line_end, Py_ssize_t *length) noexcept:
    """The value of a header: the text after the colon and its spaces, up to the end of the line."""
    while at < line_end and at[0] == c' ':
        at += 1
    length[0] = line_end - at
    if length[0] and (line_end - 1)[0] == c'\r':
        length[0] -= 1
    return at
