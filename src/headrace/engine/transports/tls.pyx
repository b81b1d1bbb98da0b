"""TLS as a transport: OpenSSL through Python's ssl module, a batch at a time.

    socket  --read-->  ciphertext  -->  incoming  --SSL_read-->  the parts that `receive` fills
    socket  <-write--  unsent      <--  outgoing  <-SSL_write--  the parts that `send` is given

An ssl.SSLObject reads from and writes to memory (`incoming`, `outgoing`), so a batch of many records costs one system
call. A socket wrapped by OpenSSL makes two per record that it reads, and one per record that it writes.

Shared memory. All connections of a hub use the same two ssl.MemoryBIO, since a hub has one thread and every call here
leaves both of them empty: whatever is in `incoming` is decrypted to the last whole record, and OpenSSL itself keeps the
beginning of the next one. Memory of their own would keep the size of the largest batch for as long as each connection
lives. It also means that nothing decrypted ever waits inside OpenSSL, where epoll could not see it: a plaintext is
shorter than its ciphertext, and `_fill` reads only as much of that as the parts have room for.

Full sockets. What is encrypted has to be sent, and cannot be encrypted again. So ciphertext that the socket does not
accept stays in `unsent`, while its plaintext stays in the outbox, where it counts as pending; `ahead` says how many
bytes at the start of the outbox that are. The next `send` is given the same bytes, and skips them.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc cimport errno as c_errno           # in a function, `errno = ...` would make a variable of its own
from libc.errno cimport EAGAIN, EPIPE, EPROTO
from libc.string cimport memcpy

from headrace.engine.basics.system cimport SHUT_RD, close, iovec, read, shutdown, write
from headrace.engine.core.transport cimport UNREAD_INSIDE, UNSENT_INSIDE, Transport

import os
import ssl

cdef enum:
    PyBUF_READ = 0x100
    PyBUF_WRITE = 0x200

cdef Py_ssize_t CIPHERTEXT_SIZE = 256 * 1024
cdef Py_ssize_t LONGEST_RECORD = 5 + 16384 + 2048    # of which OpenSSL may already have all but the last byte
cdef Py_ssize_t LEAST_ROOM = 4 * 16384               # of a caller who gets all that was read
cdef Py_ssize_t BATCH_SIZE = 4 * 16384               # encrypted at a time: what a full socket makes us hold twice


@cython.final
cdef class TlsBuffers:
    """What all TLS connections of a hub share."""

    def __cinit__(self):
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.ciphertext = <char *> PyMem_Malloc(CIPHERTEXT_SIZE)
        if self.ciphertext == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.ciphertext)

    cdef int empty(self) except -1:
        """After an error: what is left belongs to a connection that has come to its end."""
        if self.incoming.pending:
            self.incoming.read()
        if self.outgoing.pending:
            self.outgoing.read()
        return 0


@cython.final
cdef class TlsTransport(Transport):
    """A connection that begins with a handshake; see `shake_hands`."""

    def __init__(self, int fd, context, TlsBuffers buffers not None, *, bint server_side=True, server_hostname=None):
        self.fd = fd
        self.buffers = buffers
        self.session = context.wrap_bio(buffers.incoming, buffers.outgoing, server_side, server_hostname)

    @property
    def wants_write(self):
        """Whether the handshake waits until the socket accepts more."""
        return self.unsent is not None

    def shake_hands(self):
        """Continue the handshake with what has arrived. Returns whether it is complete.

        Raises EOFError or OSError if the peer is gone, and ssl.SSLError if the handshake fails; the peer has been sent the reason.
        """
        cdef TlsBuffers buffers = self.buffers
        cdef Py_ssize_t count
        cdef bint is_complete = False
        if self.unsent is not None:
            self._send_new()
        count = self._fill(LEAST_ROOM)
        if count == 0:
            raise EOFError
        if count < 0 and c_errno.errno != EAGAIN:
            raise OSError(c_errno.errno, os.strerror(c_errno.errno))
        try:
            self.session.do_handshake()
            is_complete = True
            if buffers.incoming.pending:
                self.unread = buffers.incoming.read()
        except ssl.SSLWantReadError:
            pass
        finally:
            self._send_new()                     # an answer, or why there is none
            buffers.empty()
        return is_complete and self.unsent is None

    # -- receiving ------------------------------------------------------------------------------------------------

    cdef Py_ssize_t receive(self, const iovec *parts, int count) except? -1:
        cdef Py_ssize_t received, room = 0
        cdef int k
        for k in range(count):
            room += parts[k].iov_len
        if room < LEAST_ROOM or self.surplus is not None:
            return self._receive_little(parts, count, room)
        received = self._fill(room)
        if received > 0:
            received = self._decrypt(parts, count)
            if received == 0 and not self.is_ended:
                c_errno.errno = EPROTO if self.is_broken else EAGAIN
                return -1
        return received

    cdef Py_ssize_t _receive_little(self, const iovec *parts, int count, Py_ssize_t room) except? -1:
        """For a caller with room for less than a record. What it has no room for it gets if it asks again.

        A link has more room. This is for those who read a greeting with `receive`, and never have to wait for epoll.
        """
        cdef iovec whole
        cdef bytes data = self.surplus
        cdef Py_ssize_t received, start = 0, length
        cdef int k
        if data is None:
            buffer = bytearray(LEAST_ROOM)
            whole.iov_base = <char *> buffer
            whole.iov_len = LEAST_ROOM
            received = self.receive(&whole, 1)
            if received <= 0:
                return received
            data = bytes(buffer[:received])
        for k in range(count):
            length = min(<Py_ssize_t> parts[k].iov_len, PyBytes_GET_SIZE(data) - start)
            memcpy(parts[k].iov_base, PyBytes_AS_STRING(data) + start, length)
            start += length
        self.surplus = data[start:] if start < PyBytes_GET_SIZE(data) else None
        self._note_inside()
        return start

    cdef int _note_inside(self) noexcept:
        """What epoll cannot know. Ciphertext of the outbox is not among it: the outbox waits for the socket itself."""
        self.inside = (UNREAD_INSIDE if self.surplus is not None else 0) \
            | (UNSENT_INSIDE if self.unsent is not None and self.ahead == 0 else 0)
        return 0

    cdef Py_ssize_t _fill(self, Py_ssize_t room) except -2:
        """Give OpenSSL what has arrived, but no more than fits into `room` when it is decrypted. Returns as read() does."""
        cdef Py_ssize_t count
        if self.unread is not None:
            count = PyBytes_GET_SIZE(self.unread)        # less than LEAST_ROOM: that was all that was read
            self.buffers.incoming.write(self.unread)
            self.unread = None
            return count
        if self.is_ended:
            return 0
        if self.is_broken:
            c_errno.errno = EPROTO
            return -1
        count = read(self.fd, self.buffers.ciphertext, min(room - LONGEST_RECORD, CIPHERTEXT_SIZE - LONGEST_RECORD))
        if count > 0:
            self.buffers.incoming.write(PyMemoryView_FromMemory(self.buffers.ciphertext, count, PyBUF_READ))
        return count

    cdef Py_ssize_t _decrypt(self, const iovec *parts, int count) except -1:
        """Fill the parts with what is in whole records by now. Returns how many bytes."""
        cdef Py_ssize_t received, total = 0, filled = 0
        cdef int k = 0
        incoming, session = self.buffers.incoming, self.session
        try:
            while incoming.pending or session.pending():
                if filled == <Py_ssize_t> parts[k].iov_len:
                    k += 1
                    filled = 0
                assert k < count
                received = session.read(
                    0, PyMemoryView_FromMemory(<char *> parts[k].iov_base + filled, parts[k].iov_len - filled, PyBUF_WRITE)
                )
                if received == 0:
                    self.is_ended = True
                    self._end_reading()
                    break
                filled += received
                total += received
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
            self._end_reading()
        except ssl.SSLError:
            self.is_broken = True
            self._end_reading()
        finally:
            if self.buffers.outgoing.pending:
                self._send_new()                 # an alert, or new keys
            if incoming.pending:
                incoming.read()                  # no other connection may meet it
        return total

    cdef int _end_reading(self) except -1:
        """Nothing more is read. epoll reports the socket as readable from now on: the end does not wait for the peer."""
        shutdown(self.fd, SHUT_RD)
        return 0

    # -- sending --------------------------------------------------------------------------------------------------

    cdef Py_ssize_t send(self, const iovec *parts, int count) except? -1:
        cdef Py_ssize_t accepted = 0, taken, length, offset
        cdef int k
        if self.unsent is not None:
            accepted = self._send_rest()
            if self.unsent is not None or accepted < 0:
                if accepted == 0:
                    c_errno.errno = EAGAIN
                    return -1
                return accepted
        offset = accepted
        for k in range(count):
            length = parts[k].iov_len
            while offset < length:
                taken = self._encrypt(<char *> parts[k].iov_base + offset, min(length - offset, BATCH_SIZE))
                if taken < 0:
                    return accepted if accepted else -1
                accepted += taken
                offset += taken
                if self.unsent is not None:
                    if accepted == 0:
                        c_errno.errno = EAGAIN
                        return -1
                    return accepted
            offset -= length
        return accepted

    cdef Py_ssize_t _encrypt(self, const char *start, Py_ssize_t length) except -2:
        """Encrypt and write. Returns how many bytes of the outbox that settles, or -1 with a reason in errno."""
        cdef Py_ssize_t written
        try:
            self.session.write(PyMemoryView_FromMemory(<char *> start, length, PyBUF_READ))
        except ssl.SSLError:
            self.buffers.empty()
            c_errno.errno = EPIPE
            return -1
        self.ahead = length
        self.unsent = self.buffers.outgoing.read()
        self.unsent_start = 0
        return self._send_rest()

    cdef Py_ssize_t _send_rest(self) except -2:
        """Write what is encrypted. Returns how many bytes of the outbox that settles, or -1 with a reason in errno.

        As long as there is a rest, so is one of the outbox: otherwise nobody would be told when the socket accepts more.
        """
        cdef Py_ssize_t settled = self._write()
        if self.unsent is None:
            settled = self.ahead
        elif settled > 0:
            settled = max(min(settled, self.ahead - 1), 0)
        if settled > 0:
            self.ahead -= settled
        self._note_inside()
        return settled

    cdef int _send_new(self) except -1:
        """Write what OpenSSL has to say itself. A socket that is gone is noticed when it is read."""
        if self.buffers.outgoing.pending:
            if self.unsent is None:
                self.unsent = self.buffers.outgoing.read()
                self.unsent_start = 0
            else:
                self.unsent += self.buffers.outgoing.read()
        if self.unsent is not None:
            self._write()
        self._note_inside()
        return 0

    cdef Py_ssize_t _write(self) except -2:
        """Write `unsent`. Returns how many bytes the socket has accepted, or -1 with a reason in errno other than EAGAIN."""
        cdef Py_ssize_t length = PyBytes_GET_SIZE(self.unsent)
        cdef Py_ssize_t written = write(self.fd, PyBytes_AS_STRING(self.unsent) + self.unsent_start,
                                        length - self.unsent_start)
        if written < 0:
            return 0 if c_errno.errno == EAGAIN else -1
        self.unsent_start += written
        if self.unsent_start == length:
            self.unsent = None
        return written

    # -- the end --------------------------------------------------------------------------------------------------

    cdef int close(self) except -1:
        """Tell the peer that nothing follows, if the socket accepts that at once."""
        try:
            if self.unsent is None and not self.is_broken:
                self.session.unwrap()
        except ssl.SSLError:                     # it has not said the same: nobody waits for that
            pass
        finally:
            if self.unsent is None and self.buffers.outgoing.pending:
                self._send_new()
            self.buffers.empty()
            self.session = self.unsent = self.unread = self.surplus = None
            close(self.fd)
        return 0
