"""What one compressed message (RFC 7692) holds, piece by piece as it arrives.

Nothing is collected: not the pieces until the message is whole, nor what comes out of them. Between two pieces there is
zlib's window, 32 KiB, and between messages nothing, since every message starts with an empty window
(`client_no_context_takeover`). nats-server collects a message before it inflates it, up to eight times max_payload.
"""

cimport cython

import zlib

RAW_DEFLATE = -15
# The four bytes that a sender leaves out, then an empty block that is the last: whoever ends in the middle is found out.
LAST_PIECE = b'\x00\x00\xff\xff\x01\x00\x00\xff\xff'


@cython.final
cdef class Inflater:
    cdef bint is_busy(self) noexcept:
        """Whether `take` has to be called before the next piece is added."""
        return self.waiting is not None or self.is_full

    cdef int add(self, const char *data, Py_ssize_t length, bint is_last) except -1:
        """The next piece of the message; the first one begins it."""
        cdef bytes piece = data[:length]
        assert not self.is_busy()
        if self.stream is None:
            self.stream = zlib.decompressobj(RAW_DEFLATE)
            self.deflated = self.inflated = 0
            self.has_last = False
        self.deflated += length
        self.has_last = is_last
        if not self.stream.eof:                 # whatever follows a last block is ignored, as nats-server does
            self.waiting = piece + LAST_PIECE if is_last else piece
        elif is_last:
            self.stream = None
        return 0

    cdef bytes take(self, Py_ssize_t room):
        """At most `room` bytes of what the pieces so far hold. Raises zlib.error and EOFError."""
        cdef bytes taken = self.stream.decompress(self.waiting or b'', room)
        self.waiting = self.stream.unconsumed_tail or None
        self.is_full = len(taken) == room and not self.stream.eof
        if self.stream.eof:
            self.waiting = None
        self.inflated += len(taken)
        if self.has_last and not self.is_busy():
            if not self.stream.eof:
                raise EOFError('unexpected EOF')
            self.stream = None
        return taken
