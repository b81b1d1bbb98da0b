"""The archive that a stream is backed up in: nats-server's own format, "NATSARC1", since its version 2.15.

    archive   "NATSARC1", entries
    entry     name length, time (signed), sequence, header length, payload length ─ varints, as Go writes them
              name, headers, payload
    entries   state.json         the state of the stream, and how many consumers follow
              consumers/<name>   configuration and state of each
              <subject>          each message, by sequence; what is missing in between was deleted
              (no name)          all numbers are 0: the end. An archive without it is incomplete

An `Extract` copies messages out of a log into entries, and an `ArchiveReader` copies them back. Both do a part at a time: the
event loop's thread owns the logs.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from headrace.engine.basics.byte_queue cimport ByteQueue, front
from headrace.engine.core.grammar cimport is_space
from headrace.engine.segments.files cimport PATH_SIZE, segment_path
from headrace.engine.segments.record cimport LARGEST_SEQ
from headrace.engine.segments.segment cimport Segment
from headrace.engine.segments.windows cimport Record, Window
from headrace.engine.store.log cimport Log

import os

from headrace.engine.streams.s2 import Corrupt

MAGIC = b"NATSARC1"

cdef enum:
    MAGIC_SIZE = 8
    LONGEST_NUMBER = 10            # bytes of a varint
    LONGEST_NAME = 65535           # of a subject, in the log
    READ_AHEAD = 256 * 1024

cdef struct Entry:
    uint64_t name_length
    int64_t time
    uint64_t seq
    uint64_t header_length
    uint64_t payload_length
    size_t head_size               # of the numbers and the name


# -- writing ------------------------------------------------------------------------------------------------------------

cdef char *put_number(char *at, uint64_t number) noexcept:
    while number >= 0x80:
        at[0] = <char> (number | 0x80)
        at += 1
        number >>= 7
    at[0] = <char> number
    return at + 1


cdef int add_entry(ByteQueue entries, const Entry *entry, const char *name, const char *body) except -1:
    """`body` is the headers and the payload."""
    cdef char head[5 * LONGEST_NUMBER]
    cdef char *at = put_number(head, entry.name_length)
    at = put_number(at, (<uint64_t> entry.time << 1) ^ <uint64_t> (entry.time >> 63))
    at = put_number(at, entry.seq)
    at = put_number(at, entry.header_length)
    at = put_number(at, entry.payload_length)
    entries.add(head, at - head)
    entries.add(name, entry.name_length)
    entries.add(body, entry.header_length + entry.payload_length)
    return 0


def encode_document(bytes name not None, int64_t time, bytes body not None):
    """An entry that is not a message. Without name, time and body: the end."""
    cdef ByteQueue entries = ByteQueue()
    cdef Entry entry = Entry(len(name), time, 0, 0, len(body), 0)
    add_entry(entries, &entry, name, body)
    return PyBytes_FromStringAndSize(front(entries), entries.size)


cdef class Extract:
    """The messages of a log from its first one up to `last`, as far as they are there when their turn comes.

    `last` is committed.
    """

    cdef Log log
    cdef Window window
    cdef uint64_t seq, last
    cdef readonly uint64_t count   # messages so far

    def __cinit__(self, Log log not None, uint64_t last):
        self.log = log
        self.window = Window(READ_AHEAD)
        self.seq = log.store.first_seq
        self.last = last

    @property
    def is_done(self):
        return self.seq > self.last

    @property
    def file(self):
        """The path of the file that the next message is in; None: it is in memory, or there is no more."""
        cdef char path[PATH_SIZE]
        cdef uint32_t place
        cdef uint64_t seq = self.log.store.next_live(self.seq)
        cdef Segment *segment
        if seq > self.last or self.log.store.in_memory:
            return None
        segment = self.log.store.locate(seq, &place)
        if segment == NULL:
            return None
        segment_path(path, self.log.store.path, segment.number, b"log")
        return os.fsdecode(<bytes> path)

    def next(self, size_t room, uint64_t looks):
        """About `room` bytes of entries, of at most `looks` messages. Raises OSError, and Corrupt for a damaged message."""
        cdef ByteQueue entries = ByteQueue()
        cdef Record record
        cdef Entry entry
        while looks and entries.size < room:
            self.seq = self.log.store.next_live(max(self.seq, self.log.store.first_seq))
            if self.seq > self.last:
                break
            if not self.log.store.read(self.window, self.seq, &record):
                raise Corrupt(f"message {self.seq} is damaged")
            entry = Entry(record.subject_length, record.time, record.seq, record.header_length, record.payload_length, 0)
            add_entry(entries, &entry, record.subject, record.headers)
            self.seq += 1
            self.count += 1
            looks -= 1
        return PyBytes_FromStringAndSize(front(entries), entries.size)


# -- reading ------------------------------------------------------------------------------------------------------------

cdef size_t get_number(const char *at, size_t available, uint64_t *number) except? 0:
    """How many bytes the number has; 0: it is not all there."""
    cdef size_t k
    cdef uint8_t byte
    number[0] = 0
    for k in range(min(available, <size_t> LONGEST_NUMBER)):
        byte = <uint8_t> at[k]
        if k == LONGEST_NUMBER - 1 and byte > 1:
            raise Corrupt("a number is too large")
        number[0] |= <uint64_t> (byte & 0x7f) << (7 * k)
        if byte < 0x80:
            return k + 1
    return 0


@cython.final
cdef class ArchiveReader:
    """Takes an archive in pieces. First `document` for what comes before the messages, then `store` for these."""

    cdef ByteQueue waiting
    cdef bint begun
    cdef readonly bint is_complete     # the end was read
    cdef readonly uint64_t last_seq    # of the messages so far
    cdef readonly uint64_t count       # of messages

    def __cinit__(self):
        self.waiting = ByteQueue()

    def feed(self, bytes data not None):
        """Raises Corrupt if there is more behind the end."""
        if self.is_complete and len(data):
            raise Corrupt("there are bytes behind the end of the archive")
        self.waiting.add(PyBytes_AS_STRING(data), len(data))

    def document(self, uint64_t most):
        """(name, contents) of the next entry; None: it is not all there. Raises Corrupt, also for one above `most` bytes."""
        cdef Entry entry
        cdef const char *at
        if not self._read_head(&entry):
            return None
        if entry.header_length or entry.payload_length > most:
            raise Corrupt("an entry is too large")
        if self.waiting.size < entry.head_size + entry.payload_length:
            return None
        at = front(self.waiting) + entry.head_size
        name = PyBytes_FromStringAndSize(at - entry.name_length, entry.name_length)
        contents = PyBytes_FromStringAndSize(at, entry.payload_length)
        self.waiting.drop(entry.head_size + entry.payload_length)
        return name, contents

    def store(self, Log log not None, uint64_t most_bytes, uint64_t most):
        """Append up to `most` messages to a log. False: more of the archive has to come first.

        Raises Corrupt, also for a message above `most_bytes`; OSError if nothing can be written.
        """
        cdef Entry entry
        while most and not self.is_complete:
            if not self._read_head(&entry):
                return False
            if entry.seq == 0:
                self._end(&entry)
                break
            if entry.header_length > most_bytes or entry.payload_length > most_bytes - entry.header_length:
                raise Corrupt(f"message {entry.seq} is larger than {most_bytes} bytes")
            if self.waiting.size < entry.head_size + entry.header_length + entry.payload_length:
                return False
            self._append(log, &entry)
            most -= 1
        return True

    cdef bint _read_head(self, Entry *entry) except -1:
        """False: it is not all there."""
        cdef const char *at = front(self.waiting)
        cdef size_t left = self.waiting.size, size
        cdef uint64_t time
        cdef uint64_t *numbers[5]
        cdef int k
        if not self.begun:
            if left < MAGIC_SIZE:
                return False
            if memcmp(at, b"NATSARC1", MAGIC_SIZE) != 0:
                raise Corrupt("the archive is of another format")
            self.waiting.drop(MAGIC_SIZE)
            self.begun = True
            at = front(self.waiting)
            left = self.waiting.size
        numbers = [&entry.name_length, &time, &entry.seq, &entry.header_length, &entry.payload_length]
        for k in range(5):
            size = get_number(at, left, numbers[k])
            if size == 0:
                return False
            at += size
            left -= size
        entry.time = <int64_t> (time >> 1) ^ -<int64_t> (time & 1)
        if entry.name_length > LONGEST_NAME:
            raise Corrupt("a name is too long")
        entry.head_size = at - front(self.waiting) + entry.name_length
        return left >= entry.name_length

    cdef int _end(self, const Entry *entry) except -1:
        if entry.name_length or entry.time or entry.header_length or entry.payload_length:
            raise Corrupt("a message has no sequence")
        self.is_complete = True
        self.waiting.drop(entry.head_size)
        if self.waiting.size:
            raise Corrupt("there are bytes behind the end of the archive")
        return 0

    cdef int _append(self, Log log, const Entry *entry) except -1:
        cdef const char *subject = front(self.waiting) + entry.head_size - entry.name_length
        cdef uint64_t size = entry.header_length + entry.payload_length, k
        if entry.seq <= log.store.last_seq or entry.seq > LARGEST_SEQ:
            raise Corrupt(f"message {entry.seq} is out of order")
        if entry.name_length == 0:
            raise Corrupt(f"message {entry.seq} has no subject")
        for k in range(entry.name_length):
            if is_space(subject[k]) or subject[k] == c'\n' or subject[k] == c'\r' or subject[k] == 0:
                raise Corrupt(f"message {entry.seq} has an invalid subject")
        # The time 0 would mean now.
        if log._append(subject, <uint32_t> entry.name_length, subject + entry.name_length, <uint32_t> entry.header_length,
                       <Py_ssize_t> size, entry.time or 1, entry.seq) == 0:
            raise OSError(log.writer.failure or log.store.reports.read_failure or log.refusal)
        self.waiting.drop(entry.head_size + size)
        self.last_seq = entry.seq
        self.count += 1
        return 0
