"""Frames of a peer into the bytes of a link, and the answers to its control frames.

Nothing is collected, so neither the length that a frame announces nor the number of fragments costs memory. What a peer
may do, and the status that it gets otherwise, are as in nats-server.
"""

cimport cython
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memmove

from headrace.engine.transports.encoder cimport FrameEncoder
from headrace.engine.transports.frames cimport (BINARY, CLOSE, COMPRESSED_BIT, CONTINUATION, FINAL_BIT, LONGEST_CONTROL,
                                                MASKED_BIT, PING, PONG, RESERVED_BITS, TEXT, turned, unmask)
from headrace.engine.transports.close_frames cimport encode_close
from headrace.engine.transports.inflater cimport Inflater

import zlib

cdef long long DEFLATED_LIMIT = 64 * 1024 * 1024
cdef int DEFLATED_MULTIPLE = 8               # of max_payload: what a compressed message may have

PROTOCOL_ERROR, INVALID_DATA = 1002, 1007
RESERVED_STATUSES = (1004, 1005, 1006, 1015)


@cython.final
cdef class FrameDecoder:
    def __cinit__(self, FrameEncoder encoder not None, *, long long max_payload, bint masks, bint deflates):
        self.encoder = encoder
        self.max_payload = max_payload
        self.masks = masks
        self.inflater = Inflater() if deflates else None
        self.head_needed = 2

    cdef char *decode(self, char *at, char *end, char **out, char *out_end) except NULL:
        """Frames to payloads, up to the end or until there is no more room. Returns how far it came.

        Without compression the payloads may go to where the frames are.
        """
        try:
            return self._decode(at, end, out, out_end)
        except (zlib.error, EOFError) as error:
            self._fail(str(error))
            return end

    cdef bint is_busy(self) noexcept:
        """Whether there is more to decode in what it was given before."""
        return self.inflater is not None and self.inflater.is_busy()

    cdef char *_decode(self, char *at, char *end, char **out, char *out_end) except NULL:
        cdef Py_ssize_t count
        while self.state == OPEN:
            if self.is_busy():
                if out[0] == out_end:
                    break
                out[0] = self._inflate(out[0], out_end)
            elif at == end:
                break
            elif not self.in_payload:
                at = self._read_head(at, end)
            elif self.head[0] & 8:
                at = self._read_control(at, end)
            elif self.is_deflated:
                at = self._add_to_inflater(at, end)
            else:
                count = min(end - at, out_end - out[0])
                if <uint64_t> count > self.left:
                    count = <Py_ssize_t> self.left
                if count == 0:
                    break
                if self.masks:
                    unmask(out[0], at, count, self.key)
                    self.key = turned(self.key, count)
                elif out[0] != at:
                    memmove(out[0], at, count)
                at += count
                out[0] += count
                self.left -= count
                self.in_payload = self.left > 0
        return at

    cdef char *_add_to_inflater(self, char *at, char *end) except NULL:
        cdef Py_ssize_t count = end - at
        if <uint64_t> count > self.left:
            count = <Py_ssize_t> self.left
        if self.masks:
            unmask(at, at, count, self.key)
            self.key = turned(self.key, count)
        self.left -= count
        self.in_payload = self.left > 0
        self.inflater.add(at, count, not self.in_message and not self.in_payload)
        if self.inflater.deflated > min(DEFLATED_MULTIPLE * self.max_payload, DEFLATED_LIMIT):
            self._fail('maximum payload exceeded')
        return at + count

    cdef char *_inflate(self, char *out, char *out_end) except NULL:
        cdef Py_ssize_t room, length
        cdef bytes piece
        if self.inflater.inflated > self.max_payload:        # the limit has become lower
            self._fail('maximum payload exceeded')
            return out
        # One byte more than allowed is enough to know that it is too much.
        room = min(out_end - out, <Py_ssize_t> (self.max_payload + 1 - self.inflater.inflated))
        piece = self.inflater.take(room)
        length = len(piece)
        if self.inflater.inflated > self.max_payload:
            length -= 1
            self._fail('maximum payload exceeded')
        memcpy(out, <const char *> piece, length)
        return out + length

    # -- the head of a frame

    cdef char *_read_head(self, char *at, char *end) except NULL:
        while at < end and not self.in_payload and self.state == OPEN:
            self.head[self.head_length] = <uint8_t> at[0]
            self.head_length += 1
            at += 1
            if self.head_length == 1:
                self._check_first()
            elif self.head_length == 2:
                self._check_second()
            if self.head_length == self.head_needed and self.state == OPEN:
                self._begin_payload()
                break
        return at

    cdef int _check_first(self) except -1:
        if self.head[0] & RESERVED_BITS:
            return self._break_rule('RSV2 and RSV3 must be clear')
        if self.head[0] & COMPRESSED_BIT and self.inflater is None:
            return self._break_rule('compressed frame received without negotiated permessage-deflate')
        return 0

    cdef int _check_second(self) except -1:
        cdef int opcode = self.head[0] & 15
        cdef int length = self.head[1] & 127
        cdef bint is_final = self.head[0] & FINAL_BIT
        cdef bint is_deflated = self.head[0] & COMPRESSED_BIT
        if self.masks and not self.head[1] & MASKED_BIT:
            return self._break_rule('mask bit missing')
        if opcode == CLOSE or opcode == PING or opcode == PONG:
            if length > LONGEST_CONTROL:
                return self._break_rule('control frame length bigger than maximum allowed of 125 bytes')
            if not is_final:
                return self._break_rule('control frame does not have final bit set')
            if is_deflated:
                return self._break_rule('control frame must not be compressed')
        elif opcode == TEXT or opcode == BINARY:
            if self.in_message:
                return self._break_rule('new message started before final frame for previous message was received')
            self.in_message = not is_final
            self.is_deflated = is_deflated
        elif opcode == CONTINUATION:
            if not self.in_message or is_deflated:
                return self._break_rule('invalid continuation frame')
            self.in_message = not is_final
        else:
            return self._break_rule(f'unknown opcode {opcode}')
        self.head_needed = 2 + (2 if length == 126 else 8 if length == 127 else 0) + (4 if self.masks else 0)
        return 0

    cdef int _begin_payload(self) except -1:
        cdef int k, length = self.head[1] & 127
        cdef int extra = 2 if length == 126 else 8 if length == 127 else 0
        self.left = 0 if extra else length
        for k in range(extra):
            self.left = self.left << 8 | self.head[2 + k]
        if self.left >> 63:
            return self._break_rule('invalid 64-bit payload length')
        if self.masks:
            memcpy(&self.key, self.head + 2 + extra, 4)
        self.head_length = 0
        self.head_needed = 2
        self.control_length = 0
        self.in_payload = self.left > 0
        if self.left == 0 and self.head[0] & 8:
            return self._end_control()
        if self.left == 0 and self.is_deflated and not self.in_message:
            return self.inflater.add(NULL, 0, True)
        return 0

    # -- control frames

    cdef char *_read_control(self, char *at, char *end) except NULL:
        cdef Py_ssize_t count = min(end - at, <Py_ssize_t> self.left)
        if self.masks:
            unmask(<char *> self.control + self.control_length, at, count, self.key)
            self.key = turned(self.key, count)
        else:
            memcpy(self.control + self.control_length, at, count)
        self.control_length += <int> count
        self.left -= count
        if self.left == 0:
            self.in_payload = False
            self._end_control()
        return at + count

    cdef int _end_control(self) except -1:
        cdef int opcode = self.head[0] & 15
        if opcode == CLOSE:
            return self._peer_closes()
        if opcode == PING:
            return self.encoder.add_pong(<char *> self.control, self.control_length)
        return 0

    cdef int _peer_closes(self) except -1:
        """Answer with the same status and text."""
        cdef bytes payload = (<char *> self.control)[:self.control_length]
        cdef int status
        if len(payload) == 1:
            return self._break_rule('close frame payload cannot be 1 byte')
        if not payload:
            self.goodbye = bytes([CLOSE | FINAL_BIT, 0])
        else:
            status = int.from_bytes(payload[:2], 'big')
            if not (1000 <= status < 1016 or 3000 <= status < 5000) or status in RESERVED_STATUSES:
                return self._break_rule(f'invalid close status code {status}')
            try:
                payload[2:].decode()
            except UnicodeDecodeError:
                self.goodbye = encode_close(INVALID_DATA, b'invalid utf8 body in close frame')
            else:
                self.goodbye = encode_close(status, payload[2:])
        self.state = CLOSED_BY_PEER
        return 0

    cdef int _break_rule(self, str rule) except -1:
        """Against WebSocket itself, which has a status for that."""
        self.goodbye = encode_close(PROTOCOL_ERROR, rule.encode())
        return self._fail(rule)

    cdef int _fail(self, str text) except -1:
        self.state = FAILED
        self.failure = text
        return 0
