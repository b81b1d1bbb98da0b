"""Segments: the pieces that a log is cut into, and where in a piece each message is.

    ┌──────────────┬────────┬────────┬─────┬────────┬─────────────┐
    │ head, twice  │ record │ record │ ... │ record │ zeros       │     the last one: space is taken ahead of need
    └──────────────┴────────┴────────┴─────┴────────┴─────────────┘
    ┌──────────────┬────────┬────────┬─────┬────────┐
    │ head, twice  │ record │ record │ ... │ record │                   a sealed one: cut to size, never appended to
    └──────────────┴────────┴────────┴─────┴────────┘

Sealed segments of a stream with compression are rewritten in another form, that of packing.pyx; all positions stay
those of this one.

The head (number, first sequence, salt of the checksums) is stored twice, each copy with its own checksum: without
the salt no record could be distinguished from rubbish.

In memory a message costs the four bytes of its offset. They are addressed by sequence (dense). After a segment was
rewritten without its dead messages, or where sequences were skipped, there is an array of sequence deltas next to
the offsets (sparse), and places are found by binary search. An offset of 0 says that the message is gone.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset
from posix.unistd cimport close

from headrace.engine.segments.record cimport crc32c, prepare_crc32c

prepare_crc32c()

cdef uint32_t GAP = 4096            # sequences that may be missing before a dense segment becomes a sparse one
cdef const char *MAGIC = b"headrace"
cdef uint32_t VERSION = 1           # of a plain segment
cdef uint32_t PACKED_VERSION = 2    # of a compressed one
cdef enum:
    COPY = SEGMENT_HEAD // 2       # bytes of one copy of the head; its checksum is the last four


cdef Segment *new_segment(uint64_t number, uint64_t base_seq) noexcept nogil:
    """NULL: no memory."""
    cdef Segment *segment = <Segment *> malloc(sizeof(Segment))
    if segment != NULL:
        memset(segment, 0, sizeof(Segment))
        segment.number = number
        segment.base_seq = base_seq
        segment.fd = -1
        segment.size = SEGMENT_HEAD
    return segment


cdef void free_segment(Segment *segment) noexcept nogil:
    if segment == NULL:
        return
    if segment.fd >= 0:
        close(segment.fd)
    free(segment.offsets)
    free(segment.deltas)
    free(segment.memory)
    free_packing(segment.packing)
    free(segment.removals.items)
    free(segment)


cdef void free_packing(Packing *packing) noexcept nogil:
    if packing != NULL:
        free(packing.starts)
        free(packing)


cdef int _make_room(Segment *segment, uint64_t places) noexcept nogil:
    cdef uint64_t capacity = segment.capacity
    cdef void *grown
    if places <= capacity:
        return 0
    capacity += capacity // 2 + 64
    if capacity < places:
        capacity = places
    if capacity > ABSENT:
        return -1
    grown = realloc(segment.offsets, capacity * sizeof(uint32_t))
    if grown == NULL:
        return -1
    segment.offsets = <uint32_t *> grown
    if segment.deltas != NULL:
        grown = realloc(segment.deltas, capacity * sizeof(uint32_t))
        if grown == NULL:
            return -1
        segment.deltas = <uint32_t *> grown
    segment.capacity = <uint32_t> capacity
    return 0


cdef int _make_sparse(Segment *segment) noexcept nogil:
    """Give every place its delta, and drop the places without a message."""
    cdef uint32_t k, kept = 0
    _make_room(segment, 1)
    segment.deltas = <uint32_t *> malloc((segment.capacity if segment.capacity else 1) * sizeof(uint32_t))
    if segment.deltas == NULL:
        return -1
    for k in range(segment.count):
        # A removed message is still in the file: its place stays, so that its removal is kept as long as it is.
        segment.offsets[kept] = segment.offsets[k]
        segment.deltas[kept] = k
        kept += 1
    segment.count = kept
    return 0


cdef int add_message(Segment *segment, uint64_t seq, uint32_t offset, uint32_t length) noexcept nogil:
    """Note a message behind all others. An offset of 0: it is in the file, but removed. -1: no memory."""
    cdef uint64_t delta = seq - segment.base_seq
    if segment.deltas == NULL and delta > 2 * <uint64_t> segment.count + GAP:
        if _make_sparse(segment) < 0:
            return -1
    if segment.deltas == NULL:
        if _make_room(segment, delta + 1) < 0:
            return -1
        while segment.count < delta:
            segment.offsets[segment.count] = 0
            segment.count += 1
    else:
        if _make_room(segment, <uint64_t> segment.count + 1) < 0:
            return -1
        segment.deltas[segment.count] = <uint32_t> delta
    segment.offsets[segment.count] = offset
    segment.count += 1
    if offset:
        segment.live += 1
        segment.live_bytes += length
    return 0


cdef uint64_t next_place(const Segment *segment, uint64_t seq) noexcept nogil:
    """The first place whose sequence is not below `seq`; count if there is none."""
    cdef uint64_t low = 0, high = segment.count, middle, delta
    if seq <= segment.base_seq:
        return 0
    delta = seq - segment.base_seq
    if segment.deltas == NULL:
        return delta if delta < high else high
    while low < high:
        middle = (low + high) // 2
        if segment.deltas[middle] < delta:
            low = middle + 1
        else:
            high = middle
    return low


cdef uint32_t place_of(const Segment *segment, uint64_t seq) noexcept nogil:
    """The place of a sequence, removed or not; ABSENT if it was never there."""
    cdef uint64_t place
    if seq < segment.base_seq:
        return ABSENT
    place = next_place(segment, seq)
    if place == segment.count or seq_at(segment, place) != seq:
        return ABSENT
    return <uint32_t> place


cdef uint64_t seq_at(const Segment *segment, uint64_t place) noexcept nogil:
    return segment.base_seq + (place if segment.deltas == NULL else segment.deltas[place])


cdef uint64_t end_seq(const Segment *segment) noexcept nogil:
    """One more than the last sequence in it."""
    return seq_at(segment, segment.count - 1) + 1 if segment.count else segment.base_seq


cdef int make_room_for_range(Ranges *ranges) noexcept nogil:
    """After this, the next add_range() cannot fail. -1: there is no memory."""
    cdef uint32_t capacity
    cdef void *grown
    if ranges.count < ranges.capacity:
        return 0
    capacity = 2 * ranges.capacity + 4
    grown = realloc(ranges.items, 2 * <size_t> capacity * sizeof(uint64_t))
    if grown == NULL:
        return -1
    ranges.items = <uint64_t *> grown
    ranges.capacity = capacity
    return 0


cdef int add_range(Ranges *ranges, uint64_t first, uint64_t last) noexcept nogil:
    if ranges.count:
        if ranges.items[2 * ranges.count - 1] + 1 == first:
            ranges.items[2 * ranges.count - 1] = last
            return 0
        if ranges.items[2 * ranges.count - 2] == last + 1:
            ranges.items[2 * ranges.count - 2] = first
            return 0
    if make_room_for_range(ranges) < 0:
        return -1
    ranges.items[2 * ranges.count] = first
    ranges.items[2 * ranges.count + 1] = last
    ranges.count += 1
    return 0


cdef void clear_ranges(Ranges *ranges) noexcept nogil:
    free(ranges.items)
    memset(ranges, 0, sizeof(Ranges))


cdef void write_segment_head(char *at, const SegmentHead *head) noexcept nogil:
    cdef uint32_t checksum
    memset(at, 0, SEGMENT_HEAD)
    memcpy(at, MAGIC, 8)
    memcpy(at + 8, &PACKED_VERSION if head.plain_size else &VERSION, 4)
    memcpy(at + 12, &head.salt, 4)
    memcpy(at + 16, &head.number, 8)
    memcpy(at + 24, &head.base_seq, 8)
    memcpy(at + 32, &head.first_seq, 8)
    memcpy(at + 40, &head.last_time, 8)
    memcpy(at + 48, &head.plain_size, 8)
    checksum = crc32c(0, at, COPY - 4)
    memcpy(at + COPY - 4, &checksum, 4)
    memcpy(at + COPY, at, COPY)


cdef bint read_segment_head(const char *at, SegmentHead *head) noexcept nogil:
    """False: neither copy is intact, or it is of another version."""
    cdef uint32_t checksum, version, copy
    for copy in range(2):
        memcpy(&checksum, at + COPY - 4, 4)
        memcpy(&version, at + 8, 4)
        if memcmp(at, MAGIC, 8) == 0 and (version == VERSION or version == PACKED_VERSION) \
                and checksum == crc32c(0, at, COPY - 4):
            memcpy(&head.salt, at + 12, 4)
            memcpy(&head.number, at + 16, 8)
            memcpy(&head.base_seq, at + 24, 8)
            memcpy(&head.first_seq, at + 32, 8)
            memcpy(&head.last_time, at + 40, 8)
            memcpy(&head.plain_size, at + 48, 8)
            return (version == PACKED_VERSION) == (head.plain_size != 0)
        at += COPY
    return False
