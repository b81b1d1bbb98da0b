"""What a segment holds, found by reading all of it. (index_file.pyx: the same from the index file next to it.)

Records follow each other without gaps, so the end of one is the beginning of the next. Where something does
not pass for a record, the next place that does is searched byte by byte (lengths that fit together, a sequence that can
follow, and the checksum): what lies between is damage, and what comes behind it is kept. Where nothing more follows,
the log ends: zeros behind it are space taken ahead, anything else is a torn write.

The search is linear in the size of the file, whatever is in it: from the first damage on, all of it is in memory, and
the checksum of a place that may be a record costs the same however long that claims to be (see checksums.pyx).
"""

from libc.errno cimport ENOMEM
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from headrace.engine.segments.checksums cimport GRAIN, Checksums, checksum_of, free_checksums, prepare_checksums
from headrace.engine.segments.files cimport file_size as size_of_file, read_all
from headrace.engine.basics.hashing cimport hash_of
from headrace.engine.segments.packing cimport Stretch, load_blocks
from headrace.engine.segments.record cimport (
    CRC_FROM, ERASED, FIRST, HEAD_SIZE, LARGEST_SEQ, MESSAGE, REMOVED, SKIP, RecordHead, accounted_size, is_intact,
    is_well_formed, prepare_crc32c,
)
from headrace.engine.segments.segment cimport (
    ABSENT, SEGMENT_HEAD, SegmentHead, add_range, clear_ranges, read_segment_head,
)

import io

prepare_crc32c()

cdef size_t CHUNK = 1024 * 1024     # read at once while scanning

cdef struct Slide:
    # The part of the file that is in memory while scanning.
    int fd
    const Packing *packing         # NULL: the file is not compressed
    Stretch held
    Checksums checksums            # of what is held, once something was damaged: then it is the rest of the file
    uint64_t file_size
    int error


cdef const char *_bytes_at(Slide *slide, uint64_t offset, size_t length) noexcept nogil:
    """`length` bytes of the segment; NULL if it is shorter, or cannot be read (then error is set)."""
    cdef size_t size
    cdef Stretch *held = &slide.held
    if offset >= held.start and offset + length <= held.start + held.size:
        return held.data + (offset - held.start)
    if offset + length > slide.file_size:
        return NULL
    if slide.packing != NULL:
        slide.error = load_blocks(slide.fd, slide.packing, offset, length, True, held)
        if held.size == 0 or offset + length > held.start + held.size:
            return NULL
        return held.data + (offset - held.start)
    size = length if length > CHUNK else CHUNK
    if size > slide.file_size - offset:
        size = slide.file_size - offset
    if size > held.capacity:
        free(held.data)
        held.data = <char *> malloc(size)
        held.capacity = size if held.data != NULL else 0
        if held.data == NULL:
            slide.error = ENOMEM
            held.size = 0
            return NULL
    held.start = offset
    slide.error = read_all(slide.fd, held.data, size, offset, &held.size)
    if slide.error:
        held.size = 0
    return held.data if held.size >= length else NULL


cdef bint _only_zeros(Slide *slide, uint64_t offset) noexcept nogil:
    """Whether nothing but zeros follows in the file."""
    cdef size_t length, k
    cdef const char *data
    while offset < slide.file_size:
        length = CHUNK if slide.file_size - offset > CHUNK else slide.file_size - offset
        data = _bytes_at(slide, offset, length)
        if data == NULL:
            return False
        if data[0] != 0 or length > 1 and memcmp(data, data + 1, length - 1) != 0:
            return False
        offset += length
    return True


cdef const RecordHead *_record_at(Slide *slide, uint64_t offset, Contents *contents) noexcept nogil:
    """The good record that starts here, or NULL."""
    cdef const RecordHead *head = <const RecordHead *> _bytes_at(slide, offset, HEAD_SIZE)
    if head == NULL or not is_well_formed(head, slide.file_size - offset):
        return NULL
    if head.kind == MESSAGE or head.kind == ERASED:
        if head.seq < contents.base_seq or head.seq - contents.base_seq >= ABSENT or head.seq > LARGEST_SEQ:
            return NULL
        if contents.count and head.seq - contents.base_seq <= contents.deltas[contents.count - 1]:
            return NULL
    head = <const RecordHead *> _bytes_at(slide, offset, head.length)
    return head if head != NULL and _is_intact(slide, offset, head, contents) else NULL


cdef bint _is_intact(const Slide *slide, uint64_t offset, const RecordHead *head, Contents *contents) noexcept nogil:
    cdef uint64_t start
    if slide.checksums.sums == NULL:
        contents.checked_bytes += head.length
        return is_intact(head, contents.salt)
    contents.checked_bytes += 2 * GRAIN
    start = offset - slide.held.start
    return checksum_of(&slide.checksums, contents.salt, start + CRC_FROM, start + head.length) == head.crc


cdef void _hold_rest(Slide *slide, uint64_t offset, Contents *contents) noexcept nogil:
    """Something is damaged: from here on, have all of the file in memory, with its checksums."""
    if slide.checksums.sums == NULL and _bytes_at(slide, offset, slide.file_size - offset) != NULL:
        contents.checked_bytes += slide.held.size
        slide.error = prepare_checksums(&slide.checksums, slide.held.data, slide.held.size)


cdef int _subject_place(Contents *contents, const char *subject, uint16_t length, uint32_t *place) noexcept nogil:
    cdef uint32_t slot, known, k, size
    cdef uint16_t known_length
    cdef void *grown
    cdef uint64_t capacity
    if 2 * <uint64_t> (contents.subject_count + 1) > contents.table_mask + 1 or contents.table == NULL:
        size = 2 * (contents.table_mask + 1) if contents.table != NULL else 64
        free(contents.table)
        contents.table = <uint32_t *> malloc(size * sizeof(uint32_t))
        if contents.table == NULL:
            return ENOMEM
        memset(contents.table, 0, size * sizeof(uint32_t))
        contents.table_mask = size - 1
        for k in range(contents.subject_count):
            memcpy(&known_length, contents.text + contents.subjects[k], 2)
            slot = <uint32_t> hash_of(contents.text + contents.subjects[k] + 2, known_length, contents.salt)
            slot &= contents.table_mask
            while contents.table[slot]:
                slot = (slot + 1) & contents.table_mask
            contents.table[slot] = k + 1
    slot = <uint32_t> hash_of(subject, length, contents.salt) & contents.table_mask
    while contents.table[slot]:
        known = contents.table[slot] - 1
        memcpy(&known_length, contents.text + contents.subjects[known], 2)
        if known_length == length and memcmp(contents.text + contents.subjects[known] + 2, subject, length) == 0:
            place[0] = known
            return 0
        slot = (slot + 1) & contents.table_mask
    if contents.subject_count == contents.subject_capacity:
        capacity = 2 * contents.subject_capacity + 16
        grown = realloc(contents.subjects, capacity * sizeof(uint32_t))
        if grown == NULL:
            return ENOMEM
        contents.subjects = <uint32_t *> grown
        grown = realloc(contents.summaries, capacity * sizeof(Summary))
        if grown == NULL:
            return ENOMEM
        contents.summaries = <Summary *> grown
        contents.subject_capacity = <uint32_t> capacity
    if contents.text_size + 2 + length > contents.text_capacity:
        capacity = 2 * contents.text_capacity + 2 + length + 1024
        grown = realloc(contents.text, capacity)
        if grown == NULL:
            return ENOMEM
        contents.text = <char *> grown
        contents.text_capacity = capacity
    contents.subjects[contents.subject_count] = <uint32_t> contents.text_size
    memset(&contents.summaries[contents.subject_count], 0, sizeof(Summary))
    memcpy(contents.text + contents.text_size, &length, 2)
    memcpy(contents.text + contents.text_size + 2, subject, length)
    contents.text_size += 2 + length
    contents.table[slot] = contents.subject_count + 1
    place[0] = contents.subject_count
    contents.subject_count += 1
    return 0


cdef int _grow_array(uint32_t **array, uint64_t capacity) noexcept nogil:
    cdef void *grown = realloc(array[0], capacity * sizeof(uint32_t))
    if grown == NULL:
        return ENOMEM
    array[0] = <uint32_t *> grown
    return 0


cdef int _add_message(Contents *contents, const RecordHead *head, uint32_t offset) noexcept nogil:
    cdef uint64_t capacity
    cdef uint32_t k = contents.count
    cdef Summary *summary
    if k == contents.capacity:
        capacity = contents.capacity + contents.capacity // 2 + 256
        if _grow_array(&contents.deltas, capacity) or _grow_array(&contents.offsets, capacity) \
                or _grow_array(&contents.subject_places, capacity) or _grow_array(&contents.lengths, capacity):
            return ENOMEM
        contents.capacity = <uint32_t> capacity
    if _subject_place(contents, <const char *> head + HEAD_SIZE, head.subject_length, &contents.subject_places[k]):
        return ENOMEM
    contents.deltas[k] = <uint32_t> (head.seq - contents.base_seq)
    contents.offsets[k] = offset
    contents.lengths[k] = head.length | (HAS_HEADERS if head.header_length else 0)
    contents.dense = contents.dense and contents.deltas[k] == k
    contents.record_bytes += head.length
    contents.accounted_bytes += accounted_size(head.length, head.header_length != 0)
    summary = &contents.summaries[contents.subject_places[k]]
    if summary.count == 0:
        summary.first = head.seq
    summary.count += 1
    summary.last = head.seq
    if k == 0:
        contents.first_time = head.time
    contents.count += 1
    contents.last_time = head.time
    if head.seq + 1 > contents.next_seq:
        contents.next_seq = head.seq + 1
    return 0


cdef int _add_record(Contents *contents, const RecordHead *head, uint32_t offset) noexcept nogil:
    cdef const char *pair
    cdef const char *end
    cdef uint64_t first, last
    if head.kind == MESSAGE:
        return _add_message(contents, head, offset)
    if head.kind == ERASED:
        # Its sequence was used: the next message must not get it, a REMOVED names it.
        if head.seq + 1 > contents.next_seq:
            contents.next_seq = head.seq + 1
    elif head.kind == REMOVED:
        pair = <const char *> head + HEAD_SIZE + head.subject_length + head.header_length
        end = <const char *> head + head.length
        while pair + 16 <= end:
            memcpy(&first, pair, 8)
            memcpy(&last, pair + 8, 8)
            pair += 16
            if last > LARGEST_SEQ:
                continue           # no log has written this: it would remove all messages to come
            if add_range(&contents.removals, first, last) < 0:
                return ENOMEM
            if last + 1 > contents.next_seq:
                contents.next_seq = last + 1
    elif head.kind == FIRST:
        if head.seq > contents.first_seq:
            contents.first_seq = head.seq
        if head.seq > contents.next_seq:
            contents.next_seq = head.seq
    elif head.kind == SKIP:
        if head.seq > contents.next_seq:
            contents.next_seq = head.seq
    if head.kind != ERASED and head.time > contents.last_time:
        contents.last_time = head.time
    return 0


cdef int scan(int fd, const Packing *packing, uint64_t base_seq, uint32_t salt, Contents *contents) noexcept nogil:
    """Read a whole segment, checking every record. 0, or an errno; then there is nothing to free."""
    cdef Slide slide
    cdef const RecordHead *head
    cdef uint64_t at = SEGMENT_HEAD, bad
    cdef int error
    memset(contents, 0, sizeof(Contents))
    memset(&slide, 0, sizeof(Slide))
    contents.base_seq = base_seq
    contents.salt = salt
    contents.dense = True
    slide.fd = fd
    slide.packing = packing
    if packing != NULL:
        slide.file_size = packing.plain_size
        error = 0
    else:
        error = size_of_file(fd, &slide.file_size)
    contents.file_size = slide.file_size
    while not error:
        head = _record_at(&slide, at, contents)
        if head != NULL:
            error = _add_record(contents, head, <uint32_t> at)
            at += head.length
            continue
        error = slide.error
        if error or at >= slide.file_size or _only_zeros(&slide, at):
            break
        bad = at
        at += 1
        _hold_rest(&slide, bad, contents)
        while at + HEAD_SIZE <= slide.file_size and not slide.error:
            if _record_at(&slide, at, contents) != NULL:
                break
            at += 1
        else:
            at = bad
            contents.torn = True
            break
        contents.damages += 1
        contents.damaged_bytes += at - bad
        if contents.damages == 1:
            contents.damaged_at = bad
    if not error:
        error = slide.error
    contents.end = at
    free(slide.held.data)
    free_checksums(&slide.checksums)
    free(contents.table)
    contents.table = NULL
    if error:
        free_contents(contents)
    return error


cdef void free_contents(Contents *contents) noexcept nogil:
    free(contents.deltas)
    free(contents.offsets)
    free(contents.subject_places)
    free(contents.lengths)
    free(contents.summaries)
    free(contents.text)
    free(contents.subjects)
    free(contents.table)
    clear_ranges(&contents.removals)
    memset(contents, 0, sizeof(Contents))


def scan_work(str path not None):
    """How many messages a scan of a plain segment finds, and of how many bytes it makes checksums on the way."""
    cdef char text[SEGMENT_HEAD]
    cdef SegmentHead head
    cdef Contents contents
    cdef size_t got = 0
    cdef int error = 0
    with io.open(path, "rb") as file:
        error = read_all(file.fileno(), text, SEGMENT_HEAD, 0, &got)
        if error or got < SEGMENT_HEAD or not read_segment_head(text, &head) or head.plain_size:
            raise ValueError(f"not a plain segment: {path}")
        error = scan(file.fileno(), NULL, head.base_seq, head.salt, &contents)
    if error:
        raise OSError(error, f"cannot read {path}")
    found = contents.count, contents.checked_bytes
    free_contents(&contents)
    return found
