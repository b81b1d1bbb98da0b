"""What a segment holds: found by reading all of it, or taken from the index file beside it.

The index is a function of the segment's bytes and of nothing else, so that it can be made by any thread at any time
after the segment was sealed, and thrown away at will. It names the segment's salt and size: after a rewrite, or if the
segment grew, it is stale and is not used. Its own checksum covers all of it.

    index:  magic, version, salt, number, segment size, counts, first_seq, next_seq, times, crc
            items     16 bytes per message: sequence delta, offset, subject, length of the record
            subjects  u16 length and text, each once
            removals  pairs of sequences

Scanning. Records follow each other without gaps, so the end of one is the beginning of the next. Where something does
not pass for a record, the next place that does is searched byte by byte (lengths that fit together, a sequence that can
follow, and the checksum): what lies between is damage, and what comes behind it is kept. Where nothing more follows,
the log ends: zeros behind it are space taken ahead, anything else is a torn write.
"""

from libc.errno cimport ENOMEM, errno
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport rename
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY, open
from posix.unistd cimport close, unlink

from headrace.engine.files cimport PATH_SIZE, file_size as size_of_file, read_all, segment_path, write_all
from headrace.engine.hashing cimport hash_of
from headrace.engine.record cimport (
    ERASED, FIRST, HEAD_SIZE, MESSAGE, REMOVED, SKIP, RecordHead, crc32c, is_intact, is_well_formed, prepare_crc32c,
)
from headrace.engine.segments cimport ABSENT, SEGMENT_HEAD, Ranges, add_range, clear_ranges

prepare_crc32c()

cdef size_t CHUNK = 1024 * 1024     # read at once while scanning
cdef const char *INDEX_MAGIC = b"hr-index"
cdef uint32_t INDEX_VERSION = 1

cdef struct IndexHead:
    char magic[8]
    uint32_t version
    uint32_t salt
    uint64_t number
    uint64_t segment_size
    uint64_t text_size
    uint32_t count
    uint32_t subject_count
    uint32_t removal_count
    uint32_t damages
    uint64_t first_seq
    uint64_t next_seq
    int64_t first_time
    int64_t last_time
    uint64_t base_seq
    uint32_t reserved
    uint32_t crc                   # of everything else, the head before it first

cdef struct Slide:
    # The part of the file that is in memory while scanning.
    int fd
    char *data
    size_t capacity
    size_t size
    uint64_t start
    uint64_t file_size
    int error


cdef const char *_bytes_at(Slide *slide, uint64_t offset, size_t length) noexcept nogil:
    """`length` bytes of the file; NULL if it has not so many, or cannot be read (then error is set)."""
    cdef size_t size
    if offset >= slide.start and offset + length <= slide.start + slide.size:
        return slide.data + (offset - slide.start)
    if offset + length > slide.file_size:
        return NULL
    size = length if length > CHUNK else CHUNK
    if size > slide.capacity:
        free(slide.data)
        slide.data = <char *> malloc(size)
        slide.capacity = size if slide.data != NULL else 0
        if slide.data == NULL:
            slide.error = ENOMEM
            slide.size = 0
            return NULL
    if size > slide.file_size - offset:
        size = slide.file_size - offset
    slide.start = offset
    slide.error = read_all(slide.fd, slide.data, size, offset, &slide.size)
    if slide.error:
        slide.size = 0
    return slide.data if slide.size >= length else NULL


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
        if head.seq < contents.base_seq or head.seq - contents.base_seq >= ABSENT:
            return NULL
        if contents.count and head.seq - contents.base_seq <= contents.items[contents.count - 1].delta:
            return NULL
    head = <const RecordHead *> _bytes_at(slide, offset, head.length)
    return head if head != NULL and is_intact(head, contents.salt) else NULL


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
        contents.subject_capacity = <uint32_t> capacity
    if contents.text_size + 2 + length > contents.text_capacity:
        capacity = 2 * contents.text_capacity + 2 + length + 1024
        grown = realloc(contents.text, capacity)
        if grown == NULL:
            return ENOMEM
        contents.text = <char *> grown
        contents.text_capacity = capacity
    contents.subjects[contents.subject_count] = <uint32_t> contents.text_size
    memcpy(contents.text + contents.text_size, &length, 2)
    memcpy(contents.text + contents.text_size + 2, subject, length)
    contents.text_size += 2 + length
    contents.table[slot] = contents.subject_count + 1
    place[0] = contents.subject_count
    contents.subject_count += 1
    return 0


cdef int _take_message(Contents *contents, const RecordHead *head, uint32_t offset) noexcept nogil:
    cdef Item *item
    cdef uint64_t capacity
    cdef void *grown
    if contents.count == contents.capacity:
        capacity = contents.capacity + contents.capacity // 2 + 256
        grown = realloc(contents.items, capacity * sizeof(Item))
        if grown == NULL:
            return ENOMEM
        contents.items = <Item *> grown
        contents.capacity = <uint32_t> capacity
    item = &contents.items[contents.count]
    item.delta = <uint32_t> (head.seq - contents.base_seq)
    item.offset = offset
    item.length = head.length | (HAS_HEADERS if head.header_length else 0)
    if contents.count == 0:
        contents.first_time = head.time
    contents.count += 1
    contents.last_time = head.time
    if head.seq + 1 > contents.next_seq:
        contents.next_seq = head.seq + 1
    return _subject_place(contents, <const char *> head + HEAD_SIZE, head.subject_length, &item.subject)


cdef int _take(Contents *contents, const RecordHead *head, uint32_t offset) noexcept nogil:
    cdef const char *pair
    cdef const char *end
    cdef uint64_t first, last
    if head.kind == MESSAGE:
        return _take_message(contents, head, offset)
    if head.kind == REMOVED:
        pair = <const char *> head + HEAD_SIZE + head.subject_length + head.header_length
        end = <const char *> head + head.length
        while pair + 16 <= end:
            memcpy(&first, pair, 8)
            memcpy(&last, pair + 8, 8)
            if add_range(&contents.removals, first, last) < 0:
                return ENOMEM
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


cdef int scan(int fd, uint64_t base_seq, uint32_t salt, Contents *contents) noexcept nogil:
    """Read a whole segment, checking every record. 0, or an errno; then there is nothing to free."""
    cdef Slide slide
    cdef const RecordHead *head
    cdef uint64_t at = SEGMENT_HEAD, bad
    cdef int error
    memset(contents, 0, sizeof(Contents))
    memset(&slide, 0, sizeof(Slide))
    contents.base_seq = base_seq
    contents.salt = salt
    slide.fd = fd
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
    free(slide.data)
    free(contents.table)
    contents.table = NULL
    if error:
        free_contents(contents)
    return error


cdef void free_contents(Contents *contents) noexcept nogil:
    free(contents.items)
    free(contents.text)
    free(contents.subjects)
    free(contents.table)
    clear_ranges(&contents.removals)
    memset(contents, 0, sizeof(Contents))


cdef uint32_t _checksum(const IndexHead *head, const Contents *contents) noexcept nogil:
    cdef uint32_t crc = crc32c(0, head, sizeof(IndexHead) - sizeof(uint32_t))
    crc = crc32c(crc, contents.items, contents.count * sizeof(Item))
    crc = crc32c(crc, contents.text, contents.text_size)
    return crc32c(crc, contents.removals.items, 2 * contents.removals.count * sizeof(uint64_t))


cdef int write_index(const char *directory, uint64_t number, const Contents *contents) noexcept nogil:
    """Write the index of a segment under a temporary name and rename it. It needs no sync: see read_index()."""
    cdef char temporary[PATH_SIZE]
    cdef char path[PATH_SIZE]
    cdef IndexHead head
    cdef uint64_t at = sizeof(IndexHead)
    cdef int fd, error
    memset(&head, 0, sizeof(IndexHead))
    memcpy(head.magic, INDEX_MAGIC, 8)
    head.version = INDEX_VERSION
    head.salt = contents.salt
    head.number = number
    head.segment_size = contents.end
    head.text_size = contents.text_size
    head.count = contents.count
    head.subject_count = contents.subject_count
    head.removal_count = contents.removals.count
    head.damages = contents.damages
    head.first_seq = contents.first_seq
    head.next_seq = contents.next_seq
    head.first_time = contents.first_time
    head.last_time = contents.last_time
    head.base_seq = contents.base_seq
    head.crc = _checksum(&head, contents)
    segment_path(temporary, directory, number, b"idx.tmp")
    segment_path(path, directory, number, b"idx")
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o640)
    if fd < 0:
        return errno
    error = write_all(fd, <const char *> &head, sizeof(IndexHead), 0)
    if not error:
        error = write_all(fd, <const char *> contents.items, contents.count * sizeof(Item), at)
        at += contents.count * sizeof(Item)
    if not error:
        error = write_all(fd, contents.text, contents.text_size, at)
        at += contents.text_size
    if not error:
        error = write_all(fd, <const char *> contents.removals.items,
                          2 * contents.removals.count * sizeof(uint64_t), at)
    close(fd)
    if not error and rename(temporary, path) < 0:
        error = errno
    if error:
        unlink(temporary)
    return error


cdef bint read_index(const char *directory, uint64_t number, uint64_t base_seq, uint32_t salt, uint64_t file_size,
                     Contents *contents) noexcept nogil:
    """Whether there is an index that tells what this segment holds. A missing, stale or damaged one does not."""
    cdef char path[PATH_SIZE]
    cdef IndexHead head
    cdef uint64_t size = 0
    cdef size_t got = 0
    cdef int fd
    cdef bint good = False
    memset(contents, 0, sizeof(Contents))
    segment_path(path, directory, number, b"idx")
    fd = open(path, O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return False
    if size_of_file(fd, &size) == 0 and read_all(fd, <char *> &head, sizeof(IndexHead), 0, &got) == 0 \
            and got == sizeof(IndexHead) and memcmp(head.magic, INDEX_MAGIC, 8) == 0 \
            and head.version == INDEX_VERSION and head.salt == salt and head.number == number \
            and head.segment_size == file_size and head.base_seq == base_seq and head.text_size < size \
            and size == sizeof(IndexHead) + head.text_size + <uint64_t> head.count * sizeof(Item) \
            + 2 * <uint64_t> head.removal_count * sizeof(uint64_t):
        good = _read_tables(fd, &head, contents)
    close(fd)
    if not good:
        free_contents(contents)
    return good


cdef bint _read_tables(int fd, const IndexHead *head, Contents *contents) noexcept nogil:
    cdef uint64_t at = sizeof(IndexHead)
    cdef size_t got
    contents.base_seq = head.base_seq
    contents.salt = head.salt
    contents.count = contents.capacity = head.count
    contents.text_size = contents.text_capacity = head.text_size
    contents.subject_count = contents.subject_capacity = head.subject_count
    contents.removals.count = contents.removals.capacity = head.removal_count
    contents.damages = head.damages
    contents.first_seq = head.first_seq
    contents.next_seq = head.next_seq
    contents.first_time = head.first_time
    contents.last_time = head.last_time
    contents.end = contents.file_size = head.segment_size
    contents.items = <Item *> malloc(head.count * sizeof(Item) + 1)
    contents.text = <char *> malloc(head.text_size + 1)
    contents.removals.items = <uint64_t *> malloc(2 * <size_t> head.removal_count * sizeof(uint64_t) + 1)
    contents.subjects = <uint32_t *> malloc(head.subject_count * sizeof(uint32_t) + 1)
    if contents.items == NULL or contents.text == NULL or contents.removals.items == NULL \
            or contents.subjects == NULL:
        return False
    if read_all(fd, <char *> contents.items, head.count * sizeof(Item), at, &got) != 0 \
            or got != head.count * sizeof(Item):
        return False
    at += got
    if read_all(fd, contents.text, head.text_size, at, &got) != 0 or got != head.text_size:
        return False
    at += got
    if read_all(fd, <char *> contents.removals.items, 2 * head.removal_count * sizeof(uint64_t), at, &got) != 0 \
            or got != 2 * head.removal_count * sizeof(uint64_t):
        return False
    return _checksum(head, contents) == head.crc and _is_plausible(contents)


cdef bint _is_plausible(Contents *contents) noexcept nogil:
    """The checksum was right, so this only fails if we wrote nonsense; but nothing is used unchecked."""
    cdef uint64_t at = 0
    cdef uint32_t k
    cdef uint16_t length
    for k in range(contents.subject_count):
        if at + 2 > contents.text_size:
            return False
        contents.subjects[k] = <uint32_t> at
        memcpy(&length, contents.text + at, 2)
        at += 2 + length
    if at != contents.text_size:
        return False
    for k in range(contents.count):
        if contents.items[k].subject >= contents.subject_count or contents.items[k].offset < SEGMENT_HEAD \
                or <uint64_t> contents.items[k].offset + (contents.items[k].length & LENGTH_MASK) > contents.end \
                or k and contents.items[k].delta <= contents.items[k - 1].delta:
            return False
    return True
