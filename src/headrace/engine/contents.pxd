# What is in a segment, found by scanning it or read from its index file. The theory is at the top of contents.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.segments cimport Ranges

cdef enum:
    HAS_HEADERS = 0x80000000
    LENGTH_MASK = 0x7FFFFFFF

cdef struct Item:
    uint32_t delta                 # sequence less that of the segment's base
    uint32_t offset
    uint32_t subject               # a place in subjects
    uint32_t length                # of the record; HAS_HEADERS is set if it has some

cdef struct Contents:
    uint64_t base_seq
    uint32_t salt
    Item *items                    # the messages, in order
    uint32_t count
    uint32_t capacity
    char *text                     # the subjects, each a u16 length and the text
    uint64_t text_size
    uint64_t text_capacity
    uint32_t *subjects             # where in text each begins
    uint32_t subject_count
    uint32_t subject_capacity
    uint32_t *table                # of subjects, while scanning
    uint32_t table_mask
    Ranges removals
    uint64_t first_seq             # the highest FIRST record; 0: there was none
    uint64_t next_seq              # what the log's next sequence is at least
    int64_t first_time             # of the first message
    int64_t last_time
    uint64_t end                   # behind the last good record
    uint64_t file_size
    uint32_t damages               # places in the middle where something was unreadable
    uint64_t damaged_at            # the first of them
    uint64_t damaged_bytes
    bint torn                      # behind the end there is something that is not a record

cdef int scan(int fd, uint64_t base_seq, uint32_t salt, Contents *contents) noexcept nogil
cdef int write_index(const char *directory, uint64_t number, const Contents *contents) noexcept nogil
cdef bint read_index(const char *directory, uint64_t number, uint64_t base_seq, uint32_t salt, uint64_t file_size,
                     Contents *contents) noexcept nogil
cdef void free_contents(Contents *contents) noexcept nogil
