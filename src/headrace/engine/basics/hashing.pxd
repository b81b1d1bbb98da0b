# A seeded hash for tables whose keys peers choose: nobody can choose collisions.

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    /* Multiply and fold, eight bytes at a time. */
    static inline uint64_t headrace_hash(const char *data, size_t length, uint64_t seed) {
        uint64_t h = seed ^ (length * 0x9E3779B97F4A7C15ULL), word;
        while (length >= 8) {
            memcpy(&word, data, 8);
            unsigned __int128 m = (unsigned __int128)(h ^ word) * 0xD6E8FEB86659FD93ULL;
            h = (uint64_t)m ^ (uint64_t)(m >> 64) ^ seed;
            data += 8; length -= 8;
        }
        word = 0;
        memcpy(&word, data, length);
        unsigned __int128 m = (unsigned __int128)(h ^ word) * 0xA0761D6478BD642FULL;
        return (uint64_t)m ^ (uint64_t)(m >> 64);
    }
    """
    uint64_t hash_of "headrace_hash"(const char *data, size_t length, uint64_t seed) noexcept nogil
