"""Bytes of a link into frames that a socket may take in part.

The bytes of one call become one frame. Its head has to say how many there are before the socket tells how many it takes.
Those that it did not take will be offered again, in the same order, since nothing else happens to a link's outbox:
`announced` counts them, and they continue the frame. So no byte is copied, and the socket may be full anywhere, even in
the middle of a head. Pongs wait for the end of the frame. What does not fit this scheme is made as a whole, from at most
PACKED_BYTES at a time, and kept until the socket has taken it: compressed frames, and the short ones for browsers.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memmove

from headrace.engine.basics.system cimport iovec
from headrace.engine.core.transport cimport Transport
from headrace.engine.transports.frames cimport (BINARY, COMPRESSED_BIT, CONTINUATION, FINAL_BIT, LONGEST_SERVER_HEAD,
                                                PONG, write_head)

import zlib

DEF MOST_PARTS = 8
cdef Py_ssize_t PACKED_BYTES = 64 * 1024
cdef Py_ssize_t MOST_UNSENT_PONGS = 8 * 1024
cdef Py_ssize_t COMPRESSED_FROM = 65         # fewer bytes are sent as they are
# A window of 8 KiB: zlib's usual 32 KiB take 300 us to allocate, ten times as long as to compress some messages.
FASTEST, WINDOW_BITS, MEMORY_LEVEL = 1, -13, 6


@cython.final
cdef class FrameEncoder:
    def __cinit__(self, Transport inner not None, *, bint deflates, int frame_limit, bint splits_deflated):
        self.inner = inner
        self.deflates = deflates
        self.frame_limit = frame_limit
        self.splits_deflated = splits_deflated

    def __dealloc__(self):
        PyMem_Free(self.unsent)

    cdef Py_ssize_t send(self, const iovec *parts, int count) except? -1:
        """As Transport.send."""
        cdef Py_ssize_t total = 0
        cdef int k
        for k in range(count):
            total += parts[k].iov_len
        if self.deflates or self.frame_limit:
            return self._send_packed(parts, count, total)
        return self._send_plain(parts, count, total)

    cdef int send_last(self, bytes frame) except -1:
        """A whole frame after which nothing is sent, if the socket takes it at once."""
        cdef iovec part
        if not self.announced and self.flush() == 0 and not self.unsent_length:
            part.iov_base = <char *> frame
            part.iov_len = len(frame)
            self.inner.send(&part, 1)
        return 0

    cdef Py_ssize_t _send_plain(self, const iovec *parts, int count, Py_ssize_t total) except? -1:
        cdef Py_ssize_t written, accepted = 0
        while True:
            if self.announced == 0:
                if self.flush() < 0:
                    return accepted or -1
                if self.unsent_length or accepted == total:
                    return accepted
                self.announced = total - accepted
                self.out_head_length = write_head(self.out_head, BINARY | FINAL_BIT, self.announced)
                self.out_head_sent = 0
            written = self._send_frame(parts, count, accepted)
            if written < 0:
                return accepted or -1
            accepted += written
            if self.announced:
                return accepted

    cdef Py_ssize_t _send_frame(self, const iovec *parts, int count, Py_ssize_t accepted) except? -1:
        """As much as the socket takes of the frame that has begun, whose bytes follow those already accepted."""
        cdef iovec slices[MOST_PARTS + 1]
        cdef Py_ssize_t written, length, head_left = self.out_head_length - self.out_head_sent
        cdef Py_ssize_t wanted = <Py_ssize_t> self.announced
        cdef int k, used = 0
        assert count <= MOST_PARTS
        if head_left:
            slices[0].iov_base = self.out_head + self.out_head_sent
            slices[0].iov_len = head_left
            used = 1
        for k in range(count):
            length = min(<Py_ssize_t> parts[k].iov_len - accepted, wanted)
            if length > 0:
                slices[used].iov_base = <char *> parts[k].iov_base + accepted
                slices[used].iov_len = length
                used += 1
                wanted -= length
            accepted = max(accepted - <Py_ssize_t> parts[k].iov_len, 0)
        written = self.inner.send(slices, used)
        if written < 0:
            return written
        head_left = min(head_left, written)
        self.out_head_sent += <int> head_left
        self.announced -= written - head_left
        return written - head_left

    cdef Py_ssize_t _send_packed(self, const iovec *parts, int count, Py_ssize_t total) except? -1:
        """In frames that have to be made as a whole. What was put into one counts as accepted."""
        cdef Py_ssize_t accepted = 0
        cdef Py_ssize_t length, skipped
        cdef int k
        cdef bytes piece
        while True:
            if self.flush() < 0:
                return accepted or -1
            if self.unsent_length or accepted == total:
                return accepted
            piece = b''
            skipped = accepted
            for k in range(count):
                length = min(<Py_ssize_t> parts[k].iov_len - skipped, PACKED_BYTES - len(piece))
                if length > 0:
                    piece += (<char *> parts[k].iov_base)[skipped:skipped + length]
                skipped = max(skipped - <Py_ssize_t> parts[k].iov_len, 0)
            self._pack(piece)
            accepted += len(piece)

    cdef int _pack(self, bytes data) except -1:
        cdef bint is_deflated = self.deflates and len(data) >= COMPRESSED_FROM
        cdef Py_ssize_t at = 0, length, limit = self.frame_limit
        cdef int first = BINARY
        if is_deflated:
            compressor = zlib.compressobj(FASTEST, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL)
            data = (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]
            first |= COMPRESSED_BIT
        if limit == 0 or (is_deflated and not self.splits_deflated):
            limit = len(data)
        while at < len(data):
            length = min(limit, len(data) - at)
            # Fragments if it is compressed; otherwise each is a message, as the bytes of a stream can be cut anywhere.
            if not is_deflated or at + length == len(data):
                first |= FINAL_BIT
            self.add(first, <char *> data + at, length)
            at += length
            if is_deflated:
                first = CONTINUATION
        return 0

    cdef int add_pong(self, const char *payload, Py_ssize_t length) except -1:
        """A peer that pings and does not read gets the first answers alone, which RFC 6455 (5.5.3) allows."""
        if self.unsent_pongs > MOST_UNSENT_PONGS:
            return 0
        self.unsent_pongs += length + 2
        return self.add(PONG | FINAL_BIT, payload, length)

    cdef int add(self, int first, const char *payload, Py_ssize_t length) except -1:
        """Append a frame to those that wait for the socket."""
        cdef uint8_t head[LONGEST_SERVER_HEAD]
        cdef int head_length = write_head(head, first, length)
        cdef void *grown = PyMem_Realloc(self.unsent, self.unsent_length + head_length + length)
        if grown == NULL:
            raise MemoryError
        self.unsent = <char *> grown
        memcpy(self.unsent + self.unsent_length, head, head_length)
        memcpy(self.unsent + self.unsent_length + head_length, payload, length)
        self.unsent_length += head_length + length
        return 0

    cdef int flush(self) except -2:
        """-1 with a reason in errno if the socket takes nothing."""
        cdef iovec part
        cdef Py_ssize_t written
        if self.unsent_length == 0:
            return 0
        part.iov_base = self.unsent
        part.iov_len = self.unsent_length
        written = self.inner.send(&part, 1)
        if written < 0:
            return -1
        self.unsent_length -= written
        if self.unsent_length:
            memmove(self.unsent, self.unsent + written, self.unsent_length)
        else:
            PyMem_Free(self.unsent)
            self.unsent = NULL
            self.unsent_pongs = 0
        return 0
