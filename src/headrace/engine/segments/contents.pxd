# What is in a segment, found by scanning it or read from its index file (index_file.pxd). The theory is at the top of contents.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.segments.segment cimport Packing, Ranges

cdef enum:
    HAS_HEADERS = 0x80000000
    LENGTH_MASK = 0x7FFFFFFF

cdef struct Summary:
    # Of one subject in a segment, removed messages included.
    uint64_t count
    uint64_t first
    uint64_t last

cdef struct Contents:
    uint64_t base_seq
    uint32_t salt
    uint32_t count                 # messages; four arrays have an element for each, in order:
    uint32_t capacity
    uint32_t *deltas               # sequence less base_seq; NULL: 0, 1, 2, ... (or not loaded)
    uint32_t *offsets
    uint32_t *subject_places       # in subjects
    uint32_t *lengths              # of the records; HAS_HEADERS is set if it has some
    uint64_t record_bytes          # the sum of these lengths
    uint64_t accounted_bytes       # the sum of the sizes that nats-server gives them
    Summary *summaries             # one per subject
    bint indexed                   # it comes from an index: the arrays have to be loaded first
    bint dense                     # deltas are 0, 1, 2, ...
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
    uint64_t file_size             # of a compressed one: that of the plain one
    uint32_t damages               # places in the middle where something was unreadable
    uint64_t damaged_at            # the first of them
    uint64_t damaged_bytes
    uint64_t checked_bytes         # that checksums were made of while scanning
    bint torn                      # behind the end there is something that is not a record

cdef int scan(int fd, const Packing *packing, uint64_t base_seq, uint32_t salt, Contents *contents) noexcept nogil
cdef void free_contents(Contents *contents) noexcept nogil
