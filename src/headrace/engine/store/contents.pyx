"""What a segment holds: found by reading all of it, or taken from the index file next to it.

The index is a function of the segment's bytes and of nothing else, so that it can be made by any thread at any time
after the segment was sealed, and thrown away at will. It names the segment's salt and size: after a rewrite, or if the
segment grew, it is stale and is not used. Its own checksum covers all of it.

    index:  head      magic, version, salt, number, segment size, counts, sums, first_seq, next_seq, times, checksums
            subjects  u16 length and text, each once
            summaries count, first and last sequence of each subject
            removals  pairs of sequences
         ── places    four bytes per message: its offset (and as many for its sequence, where some are missing)
         ── details   eight bytes per message: its subject, and the length of its record

The three parts have a checksum each and are read when they are needed: the details only if messages of the segment were
removed since. So opening a log reads about four bytes per message.

Scanning. Records follow each other without gaps, so the end of one is the beginning of the next. Where something does
not pass for a record, the next place that does is searched byte by byte (lengths that fit together, a sequence that can
follow, and the checksum): what lies between is damage, and what comes behind it is kept. Where nothing more follows,
the log ends: zeros behind it are space taken ahead, anything else is a torn write.

The search is linear in the size of the file, whatever is in it: from the first damage on, all of it is in memory, and
the checksum of a place that may be a record costs the same however long that claims to be (see checksums.pyx).
"""

from libc.errno cimport ENOMEM, errno
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport rename
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY, open
from posix.unistd cimport close, unlink

from headrace.engine.store.checksums cimport GRAIN, Checksums, checksum_of, free_checksums, prepare_checksums
from headrace.engine.store.files cimport PATH_SIZE, file_size as size_of_file, read_all, segment_path, write_all
from headrace.engine.core.hashing cimport hash_of
from headrace.engine.store.packing cimport Stretch, load_blocks
from headrace.engine.store.record cimport (
    CRC_FROM, ERASED, FIRST, HEAD_SIZE, LARGEST_SEQ, MESSAGE, REMOVED, SKIP, RecordHead, crc32c, is_intact,
    is_well_formed, prepare_crc32c,
)
from headrace.engine.store.segments cimport (
    ABSENT, SEGMENT_HEAD, Packing, Ranges, SegmentHead, add_range, clear_ranges, read_segment_head,
)

import io

prepare_crc32c()

cdef size_t CHUNK = 1024 * 1024     # read at once while scanning
cdef const char *INDEX_MAGIC = b"hr-index"
cdef uint32_t INDEX_VERSION = 2

cdef struct IndexHead:
    char magic[8]
    uint32_t version
    uint32_t salt
    uint64_t number
    uint64_t base_seq
    uint64_t segment_size
    uint64_t text_size
    uint64_t record_bytes
    uint64_t accounted_bytes
    uint64_t first_seq
    uint64_t next_seq
    int64_t first_time
    int64_t last_time
    uint32_t count
    uint32_t subject_count
    uint32_t removal_count
    uint32_t dense
    uint32_t places_crc
    uint32_t details_crc
    uint32_t reserved
    uint32_t crc                   # of the head before it, subjects, summaries and removals

cdef struct Slide:
    # The part of the file that is in memory while scanning.
    int fd
    const Packing *packing         # NULL: the file is not compressed
    Stretch held
    Checksums checksums            # of what is held, once something was damaged: then it is the rest of the file
    uint64_t file_size
    int error


cdef const char *_bytes_at(Slide *slide, uint64_t offset, size_t length) noexcept nogil:
    """`length` bytes of the segment; NULL if it has not so many, or cannot be read (then error is set)."""
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


cdef int _take_message(Contents *contents, const RecordHead *head, uint32_t offset) noexcept nogil:
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
    contents.accounted_bytes += head.length - HEAD_SIZE + 30 + (4 if head.header_length else 0)
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


cdef int _take(Contents *contents, const RecordHead *head, uint32_t offset) noexcept nogil:
    cdef const char *pair
    cdef const char *end
    cdef uint64_t first, last
    if head.kind == MESSAGE:
        return _take_message(contents, head, offset)
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
            if add_range(&contents.removals, first, last) < 0:
                return ENOMEM
            if last + 1 > contents.next_seq:
                contents.next_seq = last + 1
            pair += 16
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
            error = _take(contents, head, <uint32_t> at)
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


# -- the index file -----------------------------------------------------------------------------------------------------

cdef uint32_t _checksum(const IndexHead *head, const Contents *contents) noexcept nogil:
    cdef uint32_t crc = crc32c(0, head, sizeof(IndexHead) - sizeof(uint32_t))
    crc = crc32c(crc, contents.text, contents.text_size)
    crc = crc32c(crc, contents.summaries, contents.subject_count * sizeof(Summary))
    return crc32c(crc, contents.removals.items, 2 * contents.removals.count * sizeof(uint64_t))


cdef uint64_t _places_at(const IndexHead *head) noexcept nogil:
    return sizeof(IndexHead) + head.text_size + <uint64_t> head.subject_count * sizeof(Summary) \
        + 2 * <uint64_t> head.removal_count * sizeof(uint64_t)


cdef uint64_t _details_at(const IndexHead *head) noexcept nogil:
    return _places_at(head) + (4 if head.dense else 8) * <uint64_t> head.count


cdef int _put(int fd, const void *data, size_t length, uint64_t *at) noexcept nogil:
    cdef int error = write_all(fd, <const char *> data, length, at[0])
    at[0] += length
    return error


cdef int write_index(const char *directory, uint64_t number, const Contents *contents) noexcept nogil:
    """Write the index of a segment under a temporary name and rename it. It needs no sync: see read_index()."""
    cdef char temporary[PATH_SIZE]
    cdef char path[PATH_SIZE]
    cdef IndexHead head
    cdef uint64_t at = 0
    cdef size_t column = contents.count * sizeof(uint32_t)
    cdef int fd, error
    memset(&head, 0, sizeof(IndexHead))
    memcpy(head.magic, INDEX_MAGIC, 8)
    head.version = INDEX_VERSION
    head.salt = contents.salt
    head.number = number
    head.base_seq = contents.base_seq
    head.segment_size = contents.end
    head.text_size = contents.text_size
    head.record_bytes = contents.record_bytes
    head.accounted_bytes = contents.accounted_bytes
    head.first_seq = contents.first_seq
    head.next_seq = contents.next_seq
    head.first_time = contents.first_time
    head.last_time = contents.last_time
    head.count = contents.count
    head.subject_count = contents.subject_count
    head.removal_count = contents.removals.count
    head.dense = contents.dense
    head.places_crc = crc32c(0, contents.offsets, column)
    if not contents.dense:
        head.places_crc = crc32c(head.places_crc, contents.deltas, column)
    head.details_crc = crc32c(crc32c(0, contents.subject_places, column), contents.lengths, column)
    head.crc = _checksum(&head, contents)
    segment_path(temporary, directory, number, b"idx.tmp")
    segment_path(path, directory, number, b"idx")
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o640)
    if fd < 0:
        return errno
    error = _put(fd, &head, sizeof(IndexHead), &at)
    if not error:
        error = _put(fd, contents.text, contents.text_size, &at)
    if not error:
        error = _put(fd, contents.summaries, contents.subject_count * sizeof(Summary), &at)
    if not error:
        error = _put(fd, contents.removals.items, 2 * contents.removals.count * sizeof(uint64_t), &at)
    if not error:
        error = _put(fd, contents.offsets, column, &at)
    if not error and not contents.dense:
        error = _put(fd, contents.deltas, column, &at)
    if not error:
        error = _put(fd, contents.subject_places, column, &at)
    if not error:
        error = _put(fd, contents.lengths, column, &at)
    close(fd)
    if not error and rename(temporary, path) < 0:
        error = errno
    if error:
        unlink(temporary)
    return error


cdef int _open_index(const char *directory, uint64_t number, IndexHead *head) noexcept nogil:
    """The descriptor of an index whose head and length can be right; -1: there is none."""
    cdef char path[PATH_SIZE]
    cdef uint64_t size = 0
    cdef size_t got = 0
    cdef int fd
    segment_path(path, directory, number, b"idx")
    fd = open(path, O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return -1
    if size_of_file(fd, &size) == 0 and read_all(fd, <char *> head, sizeof(IndexHead), 0, &got) == 0 \
            and got == sizeof(IndexHead) and memcmp(head.magic, INDEX_MAGIC, 8) == 0 \
            and head.version == INDEX_VERSION and head.number == number and head.text_size < size \
            and size == _details_at(head) + 8 * <uint64_t> head.count:
        return fd
    close(fd)
    return -1


cdef void *_get(int fd, size_t length, uint64_t at) noexcept nogil:
    cdef char *data = <char *> malloc(length + 1)
    cdef size_t got = 0
    if data != NULL and (read_all(fd, data, length, at, &got) != 0 or got != length):
        free(data)
        return NULL
    return data


cdef bint read_index(const char *directory, uint64_t number, uint64_t base_seq, uint32_t salt, uint64_t file_size,
                     Contents *contents) noexcept nogil:
    """Whether there is an index that tells what this segment holds. A missing, stale or damaged one does not.

    It reads what does not grow with the number of messages; load_places() reads the rest.
    """
    cdef IndexHead head
    cdef bint good = False
    cdef int fd
    memset(contents, 0, sizeof(Contents))
    fd = _open_index(directory, number, &head)
    if fd < 0:
        return False
    if head.salt == salt and head.segment_size == file_size and head.base_seq == base_seq:
        good = _read_front(fd, &head, contents)
    close(fd)
    if not good:
        free_contents(contents)
    return good


cdef bint _read_front(int fd, const IndexHead *head, Contents *contents) noexcept nogil:
    cdef uint64_t at = sizeof(IndexHead), text_at = 0, total = 0
    cdef uint32_t k
    cdef uint16_t length
    cdef const Summary *summary
    contents.indexed = True
    contents.base_seq = head.base_seq
    contents.salt = head.salt
    contents.dense = head.dense
    contents.count = contents.capacity = head.count
    contents.record_bytes = head.record_bytes
    contents.accounted_bytes = head.accounted_bytes
    contents.text_size = contents.text_capacity = head.text_size
    contents.subject_count = contents.subject_capacity = head.subject_count
    contents.removals.count = contents.removals.capacity = head.removal_count
    contents.first_seq = head.first_seq
    contents.next_seq = head.next_seq
    contents.first_time = head.first_time
    contents.last_time = head.last_time
    contents.end = contents.file_size = head.segment_size
    contents.text = <char *> _get(fd, head.text_size, at)
    at += head.text_size
    contents.summaries = <Summary *> _get(fd, head.subject_count * sizeof(Summary), at)
    at += head.subject_count * sizeof(Summary)
    contents.removals.items = <uint64_t *> _get(fd, 2 * <size_t> head.removal_count * sizeof(uint64_t), at)
    contents.subjects = <uint32_t *> malloc(head.subject_count * sizeof(uint32_t) + 1)
    if contents.text == NULL or contents.summaries == NULL or contents.removals.items == NULL \
            or contents.subjects == NULL or _checksum(head, contents) != head.crc:
        return False
    # The checksum is right, so this only fails if we wrote nonsense; but nothing is used unchecked.
    for k in range(contents.subject_count):
        if text_at + 2 > contents.text_size:
            return False
        contents.subjects[k] = <uint32_t> text_at
        memcpy(&length, contents.text + text_at, 2)
        text_at += 2 + length
        summary = &contents.summaries[k]
        if summary.count > contents.count - total or summary.first < contents.base_seq \
                or summary.last < summary.first or summary.last >= contents.next_seq:
            return False
        total += summary.count
    return text_at == contents.text_size and total == contents.count


cdef bint load_places(const char *directory, uint64_t number, Contents *contents, bint subjects) noexcept nogil:
    """Read the arrays of an index: offsets and deltas, and the others if asked for. False: they are damaged."""
    cdef IndexHead head
    cdef size_t column = contents.count * sizeof(uint32_t)
    cdef uint64_t at
    cdef uint32_t k, crc
    cdef int fd = _open_index(directory, number, &head)
    if fd < 0:
        return False
    if head.salt != contents.salt or head.count != contents.count:
        close(fd)
        return False
    at = _places_at(&head)
    contents.offsets = <uint32_t *> _get(fd, column, at)
    if not contents.dense:
        contents.deltas = <uint32_t *> _get(fd, column, at + column)
    if subjects:
        at = _details_at(&head)
        contents.subject_places = <uint32_t *> _get(fd, column, at)
        contents.lengths = <uint32_t *> _get(fd, column, at + column)
    close(fd)
    if contents.offsets == NULL or not contents.dense and contents.deltas == NULL:
        return False
    crc = crc32c(0, contents.offsets, column)
    if not contents.dense:
        crc = crc32c(crc, contents.deltas, column)
    if crc != head.places_crc:
        return False
    for k in range(contents.count):
        if contents.offsets[k] < SEGMENT_HEAD or contents.offsets[k] >= contents.end \
                or k and not contents.dense and contents.deltas[k] <= contents.deltas[k - 1]:
            return False
    if contents.count:
        k = contents.count - 1 if contents.dense else contents.deltas[contents.count - 1]
        if contents.next_seq <= contents.base_seq or k >= contents.next_seq - contents.base_seq:
            return False
    if not subjects:
        return True
    if contents.subject_places == NULL or contents.lengths == NULL \
            or crc32c(crc32c(0, contents.subject_places, column), contents.lengths, column) != head.details_crc:
        return False
    for k in range(contents.count):
        if contents.subject_places[k] >= contents.subject_count:
            return False
    return True


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
