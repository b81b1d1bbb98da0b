"""The compression of backups: the framing format of Snappy, and of S2, which is Snappy with more.

    stream    identifier ─ 0xff, length 6, "sNaPpY" or "S2sTwO"
              chunk ─ kind, length (3 bytes), CRC-32C of the plain bytes (masked, 4 bytes), a block
    kind      0x00 compressed, 0x01 plain, 0x80 to 0xfe to be skipped, others cannot be read
    block     the plain length (varint), then
              literals  (length - 1) << 2 | 0, longer lengths in one to four bytes behind the tag
              copies    from an offset of up to 2 KiB (tag 1), 64 KiB (tag 2) or 4 GiB (tag 3) back
              repeats   of S2: a copy of tag 1 with the offset 0 takes the offset of the last copy

nats-server writes S2 and reads both. This writes Snappy, in blocks of 64 KiB, and reads both: no Python package reads S2.

Whatever the input is, nothing outside of it is read and nothing outside of the output is written. A chunk of a few bytes may
hold a block of 4 MiB, so an `Expander` returns one block at a time, and its caller decides whether it wants the next.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.basics.byte_queue cimport ByteQueue, front
from headrace.engine.segments.record cimport crc32c, prepare_crc32c

prepare_crc32c()

STREAM_HEAD = b"\xff\x06\x00\x00sNaPpY"

cdef enum:
    COMPRESSED = 0x00
    PLAIN = 0x01
    SKIPPABLE = 0x80
    IDENTIFIER = 0xff

    CHUNK_HEAD = 4
    CHECK_SIZE = 4
    BLOCK = 65536                  # of Snappy
    LARGEST_BLOCK = 4 * 1024 * 1024    # of S2
    MARGIN = 15                    # no match begins closer to the end
    HASH_BITS = 14
    PATIENCE = 5                   # after 2^5 bytes without a match every second one is looked at, and so on


class Corrupt(ValueError):
    """The bytes are not a stream of this format."""


cdef inline uint32_t masked_crc(const uint8_t *data, size_t length) noexcept nogil:
    cdef uint32_t crc = crc32c(0, data, length)
    return ((crc >> 15) | (crc << 17)) + <uint32_t> 0xa282ead8


cdef inline uint32_t four(const uint8_t *at) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, at, 4)
    return word


# -- compressing --------------------------------------------------------------------------------------------------------

cdef inline uint8_t *put_literals(uint8_t *at, const uint8_t *literals, uint32_t length) noexcept nogil:
    if length == 0:
        return at
    if length <= 60:
        at[0] = <uint8_t> ((length - 1) << 2)
        at += 1
    elif length <= 256:
        at[0] = 60 << 2
        at[1] = <uint8_t> (length - 1)
        at += 2
    else:
        at[0] = 61 << 2
        at[1] = <uint8_t> (length - 1)
        at[2] = <uint8_t> ((length - 1) >> 8)
        at += 3
    memcpy(at, literals, length)
    return at + length


cdef inline uint8_t *put_copy(uint8_t *at, uint32_t offset, uint32_t length) noexcept nogil:
    cdef uint32_t part
    while length:
        # A copy has at most 64 bytes; the last one has at least 4, as it would not pay otherwise.
        part = length if length <= 64 else 60 if length < 68 else 64
        if 4 <= part <= 11 and offset < 2048:
            at[0] = <uint8_t> (1 | (part - 4) << 2 | (offset >> 8) << 5)
            at[1] = <uint8_t> offset
            at += 2
        else:
            at[0] = <uint8_t> (2 | (part - 1) << 2)
            at[1] = <uint8_t> offset
            at[2] = <uint8_t> (offset >> 8)
            at += 3
        length -= part
    return at


cdef uint32_t compress_block(const uint8_t *source, uint32_t length, uint8_t *output, uint32_t capacity,
                             uint16_t *heads) noexcept nogil:
    """Returns the compressed length, or 0: it does not fit into `capacity`. At most BLOCK bytes."""
    cdef uint8_t *at = output
    cdef uint8_t *end = output + capacity
    cdef uint32_t position = 1, anchor = 0, candidate, slot, found, size = length
    memset(heads, 0, sizeof(uint16_t) << HASH_BITS)
    while size >= 0x80:
        at[0] = <uint8_t> (size | 0x80)
        at += 1
        size >>= 7
    at[0] = <uint8_t> size
    at += 1
    while position + MARGIN <= length:
        slot = (four(source + position) * <uint32_t> 0x1e35a7bd) >> (32 - HASH_BITS)
        candidate = heads[slot]
        heads[slot] = <uint16_t> position
        if candidate >= position or four(source + candidate) != four(source + position):
            position += 1 + ((position - anchor) >> PATIENCE)
            continue
        found = 4
        while position + found < length and source[candidate + found] == source[position + found]:
            found += 1
        if end - at < <Py_ssize_t> (position - anchor + 3 + 3 * (found // 60 + 1)):
            return 0
        at = put_literals(at, source + anchor, position - anchor)
        at = put_copy(at, position - candidate, found)
        position += found
        anchor = position
    if end - at < <Py_ssize_t> (length - anchor + 3):
        return 0
    at = put_literals(at, source + anchor, length - anchor)
    return <uint32_t> (at - output)


cdef size_t write_chunks(const uint8_t *data, size_t length, uint8_t *output) noexcept nogil:
    """Write all of it as chunks; `output` has room for plain ones. Returns how much was written."""
    cdef uint16_t heads[1 << HASH_BITS]
    cdef uint8_t *at = output
    cdef uint32_t size, packed, crc
    cdef uint32_t chunk
    while length:
        size = <uint32_t> min(length, <size_t> BLOCK)
        crc = masked_crc(data, size)
        packed = 0
        if size > 64:
            packed = compress_block(data, size, at + CHUNK_HEAD + CHECK_SIZE, size - size // 16, heads)
        if packed == 0:
            memcpy(at + CHUNK_HEAD + CHECK_SIZE, data, size)
        chunk = (packed or size) + CHECK_SIZE
        at[0] = COMPRESSED if packed else PLAIN
        at[1] = <uint8_t> chunk
        at[2] = <uint8_t> (chunk >> 8)
        at[3] = <uint8_t> (chunk >> 16)
        memcpy(at + CHUNK_HEAD, &crc, CHECK_SIZE)
        at += CHUNK_HEAD + chunk
        data += size
        length -= size
    return at - output


def compress(bytes data not None, /):
    """As chunks of a stream that begins with STREAM_HEAD. Runs without the GIL."""
    cdef size_t length = len(data)
    cdef size_t most = length + (length // BLOCK + 1) * (CHUNK_HEAD + CHECK_SIZE)
    cdef bytes output = PyBytes_FromStringAndSize(NULL, most)
    cdef const uint8_t *source = <const uint8_t *> PyBytes_AS_STRING(data)
    cdef uint8_t *target = <uint8_t *> PyBytes_AS_STRING(output)
    cdef size_t written
    with nogil:
        written = write_chunks(source, length, target)
    return output[:written]


# -- expanding ----------------------------------------------------------------------------------------------------------

cdef int plain_length(const uint8_t *at, size_t length, uint32_t *plain) noexcept nogil:
    """The varint at the start of a block; how many bytes it has, or 0: it is none, or too large."""
    cdef uint64_t value = 0
    cdef size_t k
    for k in range(min(length, <size_t> 5)):
        value |= <uint64_t> (at[k] & 0x7f) << (7 * k)
        if at[k] < 0x80:
            plain[0] = <uint32_t> value
            return <int> k + 1 if value <= LARGEST_BLOCK else 0
    return 0


cdef inline const uint8_t *get_number(const uint8_t *at, const uint8_t *end, int size, uint32_t *number) noexcept nogil:
    """A little-endian number of up to four bytes. NULL: the input ends before."""
    cdef int k
    if end - at < size:
        return NULL
    number[0] = 0
    for k in range(size):
        number[0] |= <uint32_t> at[k] << (8 * k)
    return at + size


cdef const uint8_t *get_copy(const uint8_t *at, const uint8_t *end, uint32_t tag, uint32_t *offset,
                             uint32_t *length) noexcept nogil:
    """Offset and length of a copy; the tag was read. `offset` is that of the copy before. NULL: the input ends before."""
    cdef uint32_t number = 0
    if tag & 3 != 1:
        length[0] = 1 + (tag >> 2)
        return get_number(at, end, 2 if tag & 3 == 2 else 4, offset)
    at = get_number(at, end, 1, &number)
    if at == NULL:
        return NULL
    number |= (tag & 0xe0) << 3
    length[0] = (tag >> 2) & 7
    if number:
        offset[0] = number
    elif length[0] >= 5:
        at = get_number(at, end, <int> length[0] - 4, &number)
        length[0] = number + (4 if length[0] == 5 else 1 << 8 if length[0] == 6 else 1 << 16)
    length[0] += 4
    return at


cdef bint expand_block(const uint8_t *at, const uint8_t *end, uint8_t *output, uint32_t plain) noexcept nogil:
    """Whether the elements from `at` make exactly `plain` bytes."""
    cdef uint8_t *out = output
    cdef uint8_t *limit = output + plain
    cdef const uint8_t *match
    cdef uint32_t tag, length, offset = 0
    while at < end:
        tag = at[0]
        at += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                at = get_number(at, end, <int> length - 59, &length)
                if at == NULL:
                    return False
            if <uint64_t> length + 1 > <uint64_t> (end - at) or <uint64_t> length + 1 > <uint64_t> (limit - out):
                return False
            length += 1
            memcpy(out, at, length)
            at += length
            out += length
            continue
        at = get_copy(at, end, tag, &offset, &length)
        if at == NULL or offset == 0 or offset > <uint64_t> (out - output) or length > <uint64_t> (limit - out):
            return False
        match = out - offset
        if offset >= length:
            memcpy(out, match, length)
            out += length
        else:
            # It overlaps itself: that is how runs are written.
            while length:
                out[0] = match[0]
                out += 1
                match += 1
                length -= 1
    return out == limit


cdef class Expander:
    """Takes a stream in pieces, as they come, and returns its blocks. Not for two threads at once."""

    cdef ByteQueue waiting
    cdef bint begun
    cdef size_t to_skip            # bytes of a chunk that says nothing

    def __cinit__(self):
        self.waiting = ByteQueue()

    @property
    def is_between_chunks(self):
        """Whether a stream may end here."""
        return self.begun and self.to_skip == 0 and self.waiting.size == 0

    def feed(self, bytes data not None):
        """Then call `next` until there is no more."""
        self.waiting.add(PyBytes_AS_STRING(data), len(data))

    def read(self, size_t room):
        """Blocks until there are `room` bytes, or no more have come; None: there is none.

        nats-server writes a block for each message: one by one, they would take longer than what is in them.
        """
        cdef list blocks = []
        cdef size_t size = 0
        while size < room:
            block = self.next()
            if block is None:
                break
            blocks.append(block)
            size += len(<bytes> block)
        return b"".join(blocks) if blocks else None

    def next(self):
        """The next block; None: not all of it has come. Raises Corrupt. Runs without the GIL."""
        cdef const uint8_t *at
        cdef size_t length, skipped
        cdef int kind
        cdef ByteQueue waiting = self.waiting
        while True:
            skipped = min(self.to_skip, waiting.size)
            waiting.drop(skipped)
            self.to_skip -= skipped
            if waiting.size < CHUNK_HEAD:
                return None
            at = <const uint8_t *> front(waiting)
            kind = at[0]
            length = at[1] | <size_t> at[2] << 8 | <size_t> at[3] << 16
            if not self.begun and kind != IDENTIFIER:
                raise Corrupt("the archive does not begin like one")
            if SKIPPABLE <= kind < IDENTIFIER:
                waiting.drop(CHUNK_HEAD)
                self.to_skip = length
                continue
            if kind > PLAIN and kind != IDENTIFIER:
                raise Corrupt(f"a chunk of an unknown kind: {kind:#x}")
            if length > LARGEST_BLOCK + LARGEST_BLOCK // 4 + CHECK_SIZE:
                raise Corrupt("a chunk is too large")
            if waiting.size < CHUNK_HEAD + length:
                return None
            waiting.drop(CHUNK_HEAD + length)    # the bytes stay where they are until more come
            if kind == IDENTIFIER:
                if length != 6 or memcmp(at + CHUNK_HEAD, b"sNaPpY", 6) and memcmp(at + CHUNK_HEAD, b"S2sTwO", 6):
                    raise Corrupt("the archive is of another format")
                self.begun = True
                continue
            return self._expand(at + CHUNK_HEAD, length, kind == COMPRESSED)

    cdef bytes _expand(self, const uint8_t *at, size_t length, bint compressed):
        cdef uint32_t plain, crc
        cdef int head = 0
        cdef bytes block
        cdef uint8_t *target
        cdef const uint8_t *end = at + length
        cdef bint good = True
        if length < CHECK_SIZE:
            raise Corrupt("a chunk is too short")
        memcpy(&crc, at, CHECK_SIZE)
        at += CHECK_SIZE
        if compressed:
            head = plain_length(at, end - at, &plain)
            if head == 0:
                raise Corrupt("a chunk has no valid length")
        elif length - CHECK_SIZE > LARGEST_BLOCK:
            raise Corrupt("a chunk is too large")
        else:
            plain = <uint32_t> (length - CHECK_SIZE)
        block = PyBytes_FromStringAndSize(NULL, plain)
        target = <uint8_t *> PyBytes_AS_STRING(block)
        with nogil:
            if compressed:
                good = expand_block(at + head, end, target, plain)
            else:
                memcpy(target, at, plain)
            good = good and masked_crc(target, plain) == crc
        if not good:
            raise Corrupt("a chunk is damaged: its checksum does not match")
        return block
