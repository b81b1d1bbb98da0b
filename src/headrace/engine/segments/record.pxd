# One record of the log, in memory and on disk alike, and its checksum. Integers are little-endian.
#
#      0        4        8                16               24               32       36   38 39 40
#     ┌────────┬────────┬────────────────┬────────────────┬────────────────┬────────┬────┬──┬──┬─────────┬─────────┬─────────┐
#     │ length │  crc   │      seq       │      time      │    previous    │ header │subj│k │f │ subject │ headers │ payload │
#     └────────┴────────┴────────────────┴────────────────┴────────────────┴────────┴────┴──┴──┴─────────┴─────────┴─────────┘
#
#     length    of the whole record
#     crc       CRC-32C of everything behind it. It starts from a random number in the head of the file, so
#               that bytes which somebody published can never pass for a record of ours.
#     previous  the sequence of the message before this one on the same subject; 0: there was none
#     kind      MESSAGE
#               REMOVED  the payload is pairs of sequences (first, last), two u64 each: these messages are gone
#               FIRST    everything below seq is gone
#               SKIP     the next message gets at least seq
#               ERASED   was a message; its text was overwritten with zeros
#
# Sequences are never used twice, so what is in a log follows from the set of its records, in whatever order they are
# read: all messages, less those that a REMOVED names, less those below the highest FIRST.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy, memset

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "the log is written in the byte order of the machine, which has to be little-endian"
    #endif

    typedef struct __attribute__((packed)) {
        uint32_t length;
        uint32_t crc;
        uint64_t seq;
        int64_t time;
        uint64_t previous;
        uint32_t header_length;
        uint16_t subject_length;
        uint8_t kind;
        uint8_t flags;
    } headrace_record;

    #define HEADRACE_LARGEST_SEQ 0xFFFFFFFFFFFFFFFEull

    static uint32_t headrace_crc_table[8][256];
    static int headrace_crc_ready;               /* 0: unknown, 1: table, 2: SSE 4.2 */

    __attribute__((unused)) static void headrace_crc_prepare(void) {
        int way = 1;
        for (uint32_t k = 0; k < 256; k++) {
            uint32_t crc = k;
            for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
            headrace_crc_table[0][k] = crc;
        }
        for (uint32_t k = 0; k < 256; k++)
            for (int n = 1; n < 8; n++)
                headrace_crc_table[n][k] = (headrace_crc_table[n - 1][k] >> 8)
                    ^ headrace_crc_table[0][headrace_crc_table[n - 1][k] & 255];
    #if defined(__x86_64__)
        if (__builtin_cpu_supports("sse4.2")) way = 2;
    #endif
        headrace_crc_ready = way;
    }

    static uint32_t headrace_crc_by_table(uint32_t crc, const unsigned char *data, size_t length) {
        while (length >= 8) {
            uint64_t word;
            memcpy(&word, data, 8);
            word ^= crc;
            crc = headrace_crc_table[7][word & 255] ^ headrace_crc_table[6][(word >> 8) & 255]
                ^ headrace_crc_table[5][(word >> 16) & 255] ^ headrace_crc_table[4][(word >> 24) & 255]
                ^ headrace_crc_table[3][(word >> 32) & 255] ^ headrace_crc_table[2][(word >> 40) & 255]
                ^ headrace_crc_table[1][(word >> 48) & 255] ^ headrace_crc_table[0][word >> 56];
            data += 8; length -= 8;
        }
        while (length--) crc = (crc >> 8) ^ headrace_crc_table[0][(crc ^ *data++) & 255];
        return crc;
    }

    #if defined(__x86_64__)
    __attribute__((target("sse4.2")))
    static uint32_t headrace_crc_by_sse(uint32_t start, const unsigned char *data, size_t length) {
        uint64_t crc = start;
        while (length >= 8) {
            uint64_t word;
            memcpy(&word, data, 8);
            crc = __builtin_ia32_crc32di(crc, word);
            data += 8; length -= 8;
        }
        uint32_t rest = (uint32_t)crc;
        while (length--) rest = __builtin_ia32_crc32qi(rest, *data++);
        return rest;
    }
    #endif

    /* Every module that includes this has its own table; headrace_crc_prepare() runs when it is imported. */
    static inline uint32_t headrace_crc32c(uint32_t salt, const void *data, size_t length) {
    #if defined(__x86_64__)
        if (headrace_crc_ready == 2)
            return ~headrace_crc_by_sse(~salt, (const unsigned char *)data, length);
    #endif
        return ~headrace_crc_by_table(~salt, (const unsigned char *)data, length);
    }
    """
    ctypedef struct RecordHead "headrace_record":
        uint32_t length
        uint32_t crc
        uint64_t seq
        int64_t time
        uint64_t previous
        uint32_t header_length
        uint16_t subject_length
        uint8_t kind
        uint8_t flags
    const uint64_t LARGEST_SEQ "HEADRACE_LARGEST_SEQ"   # one more still fits: the sequence behind the last is asked for
    void prepare_crc32c "headrace_crc_prepare"() noexcept nogil
    uint32_t crc32c "headrace_crc32c"(uint32_t salt, const void *data, size_t length) noexcept nogil

cdef enum:
    MESSAGE = 1
    REMOVED = 2
    FIRST = 3
    SKIP = 4
    ERASED = 5

    HEAD_SIZE = 40                 # of a record
    CRC_FROM = 8                   # where what the checksum covers begins


cdef inline bint is_well_formed(const RecordHead *head, uint64_t available) noexcept nogil:
    """Whether the lengths of a record fit together and into what there is. Says nothing about its checksum."""
    return head.length >= HEAD_SIZE and head.length <= available and MESSAGE <= head.kind <= ERASED \
        and <uint64_t> HEAD_SIZE + head.subject_length + head.header_length <= head.length


cdef inline bint is_intact(const RecordHead *head, uint32_t salt) noexcept nogil:
    """Whether the checksum of a well-formed record is right."""
    return crc32c(salt, <const char *> head + CRC_FROM, head.length - CRC_FROM) == head.crc


cdef inline void seal_record(RecordHead *head, uint32_t salt) noexcept nogil:
    head.crc = crc32c(salt, <const char *> head + CRC_FROM, head.length - CRC_FROM)


cdef inline size_t control_length(uint32_t count) noexcept nogil:
    """The length of a REMOVED record with that many ranges, or of a FIRST or SKIP record, which have none."""
    return HEAD_SIZE + 16 * <size_t> count


cdef inline void write_control(RecordHead *head, int kind, uint64_t seq, int64_t time, const uint64_t *ranges,
                               uint32_t count, uint32_t salt) noexcept nogil:
    """Write a record that is not a message. It has control_length(count) bytes."""
    memset(head, 0, HEAD_SIZE)
    head.length = <uint32_t> control_length(count)
    head.seq = seq
    head.time = time
    head.kind = kind
    if count:
        memcpy(<char *> head + HEAD_SIZE, ranges, 16 * <size_t> count)
    seal_record(head, salt)


cdef inline RecordHead *new_erased(uint32_t length, uint64_t seq, uint32_t salt) noexcept nogil:
    """What a message is overwritten with: a record of the same length that is otherwise empty. NULL: no memory."""
    cdef RecordHead *head = <RecordHead *> calloc(1, length)
    if head != NULL:
        head.length = length
        head.seq = seq
        head.kind = ERASED
        seal_record(head, salt)
    return head


cdef inline uint64_t accounted_size(uint64_t length, bint has_headers) noexcept nogil:
    """What a message with a record of this length counts in nats-server: its limits and figures are in these bytes."""
    return length - HEAD_SIZE + 30 + (4 if has_headers else 0)
