# A segment: one file of the log (or one piece of memory), and where in it each message is.
# The theory is at the top of segment.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef struct Ranges:
    uint64_t *items                # first, last, first, last, ...
    uint32_t count                 # pairs
    uint32_t capacity

cdef struct Packing:
    # Where the blocks of a compressed segment are. The theory is at the top of packing.pyx.
    uint64_t plain_size            # of the segment without compression, its head included
    uint32_t block_count
    uint32_t *starts               # where each block begins in the file; one more: where the last one ends

cdef struct Segment:
    uint64_t number
    uint64_t base_seq
    uint32_t *offsets              # of message base_seq + k, or base_seq + deltas[k]; 0: it is not there (any more)
    uint32_t *deltas               # NULL: dense
    uint32_t count                 # of offsets
    uint32_t capacity
    uint32_t live                  # messages
    uint64_t live_bytes            # of the records of these
    uint64_t size                  # where the next record goes
    uint64_t written               # what is in the file up to here is safe; behind it, it is in a buffer of the log
    uint64_t allocated             # the file is this long (only the committer's thread asks)
    uint64_t zeroed                # up to here its blocks were written to, be it zeros (likewise)
    uint64_t limit                 # space taken ahead ends here
    int64_t first_time             # of its first message; 0: it has none
    int fd                         # -1: not open
    uint32_t salt                  # of its checksums
    bint sealed                    # nothing is appended to it any more
    bint indexed                   # its index file is written
    uint64_t needed_at               # when its removals were last found to be needed: see Log.epoch
    bint given_up                  # a chore on it failed: leave it alone until the next start
    bint left_plain                # compressing it does not pay
    bint damaged                   # a record in it is: it is not rewritten, because it may become readable later
    Packing *packing               # NULL: the file holds the records as they are
    char *memory                   # of a memory store
    Segment *next_dead             # in the graveyard
    Ranges removals                # what its REMOVED records say

cdef enum:
    SEGMENT_HEAD = 128             # the head of a file; records start here
    ABSENT = 0xFFFFFFFF

cdef struct SegmentHead:
    uint64_t number
    uint64_t base_seq
    uint64_t first_seq             # of the log when the segment was begun
    int64_t last_time
    uint32_t salt
    uint64_t plain_size            # of a compressed one; 0: the records are stored as they are

cdef Segment *new_segment(uint64_t number, uint64_t base_seq) noexcept nogil
cdef void free_segment(Segment *segment) noexcept nogil
cdef void free_packing(Packing *packing) noexcept nogil
cdef int add_message(Segment *segment, uint64_t seq, uint32_t offset, uint32_t length) noexcept nogil
cdef uint32_t place_of(const Segment *segment, uint64_t seq) noexcept nogil
cdef uint64_t next_place(const Segment *segment, uint64_t seq) noexcept nogil
cdef uint64_t seq_at(const Segment *segment, uint64_t place) noexcept nogil
cdef uint64_t end_seq(const Segment *segment) noexcept nogil
cdef int make_room_for_range(Ranges *ranges) noexcept nogil
cdef int add_range(Ranges *ranges, uint64_t first, uint64_t last) noexcept nogil
cdef void clear_ranges(Ranges *ranges) noexcept nogil
cdef void write_segment_head(char *at, const SegmentHead *head) noexcept nogil
cdef bint read_segment_head(const char *at, SegmentHead *head) noexcept nogil
