"""The codec of compressed segments: the LZ4 block format, which is as simple as it is quick to read.

    sequence   token ─ literal length (4 bits), match length less 4 (4 bits); 15 continues in bytes of 255 and a last one
               literals
               offset ─ two bytes, little-endian: how far back the match begins
               (the last sequence ends with its literals)

Any reader of LZ4 blocks can read what this writes, and the other way round: the tests compare with another one.

Why not the `lz4` package? Size and speed are alike (`python -m benchmarks.codec` compares them), but:
- Blocks are expanded wherever messages are read: by the loop, and by the committer's threads, which never hold the GIL. The
  package needs the GIL for every block. Next to a main thread that computes it compresses 7 MB/s instead of 155, and in the
  loop it would release the GIL every 10 us, for other threads to take.
- It expands all of a block or fails. This returns what it could make of a damaged one (after one changed byte, 77 % of a block
  can be read, there 64 %), and for a single record it stops as soon as that is complete.

Compressing happens once, in the background, and reading many times. So it looks longer for a match than the quick
compressors of this format do: along a chain of DEPTH positions with the same four bytes, and one position further before
it takes what it found. Measured on small JSON events: 3.5 times smaller at 180 MB/s, where only the nearest position gives
2.9 times at 260 MB/s, and eight of them 3.7 times at 115 MB/s. Expanding takes the same, about 2 GB/s.

Expanding never reads outside of its input or writes outside of its output, whatever the input is; it returns how much it could
make of damaged input. Whether that is right is for the checksums of the records to say.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #define headrace_trailing_zeros(word) ((uint32_t) __builtin_ctzll(word))
    """
    uint32_t trailing_zeros "headrace_trailing_zeros"(uint64_t word) noexcept nogil

cdef enum:
    SHORTEST = 4                   # bytes of a match
    LAST_LITERALS = 5              # the format wants a block to end with this many,
    LAST_START = 12                # and no match to begin closer to the end
    DEPTH = 4                      # candidates that are looked at
    LONG_ENOUGH = 48               # a match that is not waited for a better one
    PATIENCE = 6                   # after 2^6 bytes without a match every second one is looked at, and so on


# No line tracing in the debug build: it takes the GIL for every line, and there is a line for every byte here.

cdef inline uint32_t _four(const uint8_t *at) noexcept nogil:
    cdef uint32_t word
    memcpy(&word, at, 4)
    return word


cdef inline uint32_t _hash(const uint8_t *at) noexcept nogil:
    return (_four(at) * <uint32_t> 2654435761) >> (32 - HASH_BITS)


cdef inline uint32_t _common(const uint8_t *one, const uint8_t *other, const uint8_t *end) noexcept nogil:
    """How many bytes are equal; `other` is the later one and stays below `end`."""
    cdef const uint8_t *begin = other
    cdef uint64_t first, second
    while other + 8 <= end:
        memcpy(&first, one, 8)
        memcpy(&second, other, 8)
        if first != second:
            return <uint32_t> (other - begin) + trailing_zeros(first ^ second) // 8
        one += 8
        other += 8
    while other < end and one[0] == other[0]:
        one += 1
        other += 1
    return <uint32_t> (other - begin)


cdef inline uint32_t _find(Finder *finder, const uint8_t *source, uint32_t position, uint32_t end,
                           uint32_t longest, uint32_t *match) noexcept nogil:
    """The length of the best match at a position, if it is longer than `longest`, otherwise 0."""
    cdef uint32_t candidate = finder.heads[_hash(source + position)]
    cdef uint32_t four = _four(source + position), found = 0, tries = DEPTH, length
    while candidate and tries:
        # The byte that would make it longer is asked first: mostly it is not there. (Behind `end` there are more bytes.)
        if source[candidate + longest] == source[position + longest] and _four(source + candidate) == four:
            length = _common(source + candidate, source + position, source + end)
            if length > longest:
                longest = found = length
                match[0] = candidate
                if position + length == end:
                    break
        candidate = finder.chain[candidate]
        tries -= 1
    return found


cdef inline void _insert(Finder *finder, const uint8_t *source, uint32_t first, uint32_t last) noexcept nogil:
    """Note the positions from first up to, but without, last."""
    cdef uint32_t slot
    while first < last:
        slot = _hash(source + first)
        finder.chain[first] = finder.heads[slot]
        finder.heads[slot] = <uint16_t> first
        first += 1


cdef inline uint8_t *_put_length(uint8_t *at, uint32_t rest) noexcept nogil:
    while rest >= 255:
        at[0] = 255
        at += 1
        rest -= 255
    at[0] = <uint8_t> rest
    return at + 1


cdef inline uint8_t *_put_literals(uint8_t *at, const uint8_t *literals, uint32_t length) noexcept nogil:
    at[0] = <uint8_t> ((length if length < 15 else 15) << 4)
    at += 1
    if length >= 15:
        at = _put_length(at, length - 15)
    memcpy(at, literals, length)
    return at + length


cdef uint32_t compress_block(const char *data, uint32_t length, char *output, uint32_t capacity,
                             Finder *finder) noexcept nogil:
    """Returns the compressed length, or 0: it does not fit into `capacity`. At most LARGEST_INPUT bytes."""
    cdef const uint8_t *source = <const uint8_t *> data
    cdef uint8_t *at = <uint8_t *> output
    cdef uint8_t *end = at + capacity
    cdef uint8_t *token
    cdef uint32_t position = 1, anchor = 0, noted = 1, found, better, literals, offset
    cdef uint32_t match = 0, other = 0
    memset(finder.heads, 0, sizeof(finder.heads))
    while position + LAST_START <= length:
        _insert(finder, source, noted, position)
        noted = position
        found = _find(finder, source, position, length - LAST_LITERALS, SHORTEST - 1, &match)
        if found == 0:
            _insert(finder, source, position, position + 1)
            position += 1 + ((position - anchor) >> PATIENCE)
            noted = position
            continue
        while found < LONG_ENOUGH and position + 1 + LAST_START <= length:
            _insert(finder, source, noted, position + 1)
            noted = position + 1
            better = _find(finder, source, position + 1, length - LAST_LITERALS, found + 1, &other)
            if better == 0:
                break
            position += 1
            found = better
            match = other
        literals = position - anchor
        if end - at < <Py_ssize_t> (literals + literals // 255 + found // 255 + 6):
            return 0
        token = at
        at = _put_literals(at, source + anchor, literals)
        offset = position - match
        at[0] = <uint8_t> offset
        at[1] = <uint8_t> (offset >> 8)
        at += 2
        if found - SHORTEST < 15:
            token[0] |= <uint8_t> (found - SHORTEST)
        else:
            token[0] |= 15
            at = _put_length(at, found - SHORTEST - 15)
        _insert(finder, source, noted, position + found if position + found + 4 <= length else length - 4)
        position += found
        noted = anchor = position
    literals = length - anchor
    if end - at < <Py_ssize_t> (literals + literals // 255 + 2):
        return 0
    at = _put_literals(at, source + anchor, literals)
    return <uint32_t> (at - <uint8_t *> output)


cdef inline const uint8_t *_get_length(const uint8_t *at, const uint8_t *end, uint32_t *length) noexcept nogil:
    """The rest of a length that did not fit into its token; where the input continues."""
    cdef uint8_t more = 255
    while more == 255 and at < end and length[0] < LARGEST_INPUT:
        more = at[0]
        length[0] += more
        at += 1
    return at


cdef uint32_t expand_block(const char *data, uint32_t length, char *output, uint32_t capacity,
                           uint32_t enough) noexcept nogil:
    """Returns how many bytes came out before the input ended, was no longer valid, or at least `enough` were there."""
    cdef const uint8_t *at = <const uint8_t *> data
    cdef const uint8_t *end = at + length
    cdef uint8_t *out = <uint8_t *> output
    cdef uint8_t *limit = out + capacity
    cdef uint8_t *stop = out + enough
    cdef const uint8_t *match
    cdef uint32_t size, offset, token
    while at < end and out < stop:
        token = at[0]
        at += 1
        size = token >> 4
        if size == 15:
            at = _get_length(at, end, &size)
        if size <= 16 and end - at >= 16 and limit - out >= 16:
            memcpy(out, at, 16)    # more than wanted, but of fixed length: that is quicker
        else:
            if end - at < <Py_ssize_t> size or limit - out < <Py_ssize_t> size:
                break
            memcpy(out, at, size)
        at += size
        out += size
        if end - at < 2:
            break                  # the last sequence has no match
        offset = at[0] | (<uint32_t> at[1] << 8)
        at += 2
        size = token & 15
        if size == 15:
            at = _get_length(at, end, &size)
        size += SHORTEST
        if offset == 0 or offset > out - <uint8_t *> output or limit - out < <Py_ssize_t> size:
            break
        match = out - offset
        if offset >= 16 and limit - out >= <Py_ssize_t> size + 16:
            while True:
                memcpy(out, match, 16)
                if size <= 16:
                    out += size
                    break
                out += 16
                match += 16
                size -= 16
        else:
            # It may overlap itself: that is how runs are written.
            while size:
                out[0] = match[0]
                out += 1
                match += 1
                size -= 1
    return <uint32_t> (out - <uint8_t *> output)


# -- for tests ----------------------------------------------------------------------------------------------------------

def compress(bytes data not None, /):
    """A block of at most 64 KiB; None if that does not make it shorter."""
    cdef uint32_t length
    cdef char *output
    cdef Finder *finder
    if len(data) > LARGEST_INPUT:
        raise ValueError("a block is at most 64 KiB")
    output = <char *> malloc(len(data) + 1)
    finder = <Finder *> malloc(sizeof(Finder))
    try:
        if output == NULL or finder == NULL:
            raise MemoryError
        length = compress_block(data, <uint32_t> len(data), output, <uint32_t> max(len(data) - 1, 0), finder)
        return PyBytes_FromStringAndSize(output, length) if length else None
    finally:
        free(output)
        free(finder)


def expand(bytes data not None, uint32_t size, /):
    """What could be made of a block that is `size` bytes long if it is intact."""
    cdef char *output = <char *> malloc(size + 1)
    if output == NULL:
        raise MemoryError
    try:
        return PyBytes_FromStringAndSize(output, expand_block(data, <uint32_t> len(data), output, size, size))
    finally:
        free(output)


def expand_at(size_t source, uint32_t length, size_t target, uint32_t capacity, uint32_t enough, /):
    """The same with the addresses of the caller's memory; returns how many bytes came out."""
    return expand_block(<const char *> source, length, <char *> target, capacity, enough)
