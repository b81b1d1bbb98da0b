/* Gives fuzzed segments and indexes the right checksums: else a fuzzer would never get past the first one.
   The formats are drawn in docs/streams.md. Used by tests/fuzz/targets/segments.py. */

#include <stdint.h>
#include <string.h>

enum { SEGMENT_HEAD = 128, COPY = 64, RECORD_HEAD = 40, BLOCK = 32768, INDEX_HEAD = 128, SUMMARY = 24 };

static uint32_t crc32c(uint32_t salt, const uint8_t *data, size_t length) {
    static uint32_t table[256];
    uint32_t crc = ~salt;
    if (!table[1])
        for (uint32_t k = 0; k < 256; k++) {
            uint32_t entry = k;
            for (int bit = 0; bit < 8; bit++) entry = entry & 1 ? (entry >> 1) ^ 0x82F63B78u : entry >> 1;
            table[k] = entry;
        }
    while (length--) crc = (crc >> 8) ^ table[(crc ^ *data++) & 255];
    return ~crc;
}

static uint32_t get4(const uint8_t *at) { uint32_t value; memcpy(&value, at, 4); return value; }
static uint64_t get8(const uint8_t *at) { uint64_t value; memcpy(&value, at, 8); return value; }
static void put4(uint8_t *at, uint32_t value) { memcpy(at, &value, 4); }
static void put8(uint8_t *at, uint64_t value) { memcpy(at, &value, 8); }

/* The head (of that number, in both copies), and the records as far as their lengths lead. */
void seal_segment(uint8_t *data, size_t length, uint64_t number, uint64_t plain_size) {
    if (length < SEGMENT_HEAD) return;
    memcpy(data, "headrace", 8);
    put4(data + 8, plain_size ? 2 : 1);
    put8(data + 16, number);
    put8(data + 48, plain_size);
    put4(data + COPY - 4, crc32c(0, data, COPY - 4));
    memcpy(data + COPY, data, COPY);
    if (plain_size) return;
    for (size_t at = SEGMENT_HEAD; at + RECORD_HEAD <= length;) {
        uint32_t size = get4(data + at);
        if (size < RECORD_HEAD || size > length - at) return;
        put4(data + at + 4, crc32c(get4(data + 12), data + at + 8, size - 8));
        at += size;
    }
}

/* The table of the blocks of a compressed segment, at `at`. */
void seal_table(uint8_t *data, size_t at, uint32_t blocks) {
    put4(data + at + 4 * blocks, crc32c(get4(data + 12), data + at, 4 * (size_t)blocks));
}

/* The index of a segment: made to fit to it, and its three checksums. */
void seal_index(uint8_t *data, size_t length, const uint8_t *segment, uint64_t segment_size) {
    if (length < INDEX_HEAD) return;
    memcpy(data, "hr-index", 8);
    put4(data + 8, 2);
    memcpy(data + 12, segment + 12, 4);      /* salt */
    memcpy(data + 16, segment + 16, 16);     /* number, base_seq */
    put8(data + 32, segment_size);
    uint64_t text = get8(data + 40), count = get4(data + 96), subjects = get4(data + 100);
    uint64_t removals = get4(data + 104), column = 4 * count, places, details;
    if (text > length) return;
    places = INDEX_HEAD + text + subjects * SUMMARY + removals * 16;
    details = places + (get4(data + 108) ? 1 : 2) * column;
    if (details + 2 * column > length) return;
    put4(data + 112, crc32c(0, data + places, details - places));
    put4(data + 116, crc32c(0, data + details, 2 * column));
    put4(data + 124, crc32c(crc32c(0, data, INDEX_HEAD - 4), data + INDEX_HEAD, places - INDEX_HEAD));
}
