# The head of a WebSocket frame and its mask: RFC 6455, section 5.2.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8                    # this one and those above are control frames
    PING = 9
    PONG = 10

    FINAL_BIT = 0x80
    COMPRESSED_BIT = 0x40
    RESERVED_BITS = 0x30
    MASKED_BIT = 0x80

    LONGEST_HEAD = 14
    LONGEST_SERVER_HEAD = 10     # without a mask
    LONGEST_CONTROL = 125


cdef inline int write_head(uint8_t *head, int first, uint64_t length) noexcept:
    """The head of a frame that is not masked. Returns its length."""
    cdef int k
    head[0] = <uint8_t> first
    if length <= 125:
        head[1] = <uint8_t> length
        return 2
    if length < 65536:
        head[1] = 126
        head[2] = <uint8_t> (length >> 8)
        head[3] = <uint8_t> length
        return 4
    head[1] = 127
    for k in range(8):
        head[2 + k] = <uint8_t> (length >> (56 - 8 * k))
    return 10


cdef inline uint32_t turned(uint32_t key, Py_ssize_t count) noexcept:
    """The key (as it lies in memory) for what comes after `count` more bytes."""
    cdef uint8_t old[4]
    cdef uint8_t new[4]
    cdef int k
    memcpy(old, &key, 4)
    for k in range(4):
        new[k] = old[(k + count) & 3]
    memcpy(&key, new, 4)
    return key


cdef inline void unmask(char *target, const char *source, Py_ssize_t length, uint32_t key) noexcept:
    """To where it is, or to somewhere before it: eight bytes are read before they are written."""
    cdef uint64_t wide_key = key | <uint64_t> key << 32
    cdef uint64_t word
    cdef uint8_t keys[8]
    cdef Py_ssize_t k, whole = length & ~<Py_ssize_t> 7
    for k in range(0, whole, 8):
        memcpy(&word, source + k, 8)
        word ^= wide_key
        memcpy(target + k, &word, 8)
    memcpy(keys, &wide_key, 8)
    for k in range(whole, length):
        target[k] = source[k] ^ <char> keys[k & 7]
