"""The index file of a sealed segment: what a scan of the segment finds, so that opening a log need not scan it.

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
"""

from libc.errno cimport errno
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport rename
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY, open
from posix.unistd cimport close, unlink

from headrace.engine.segments.contents cimport Contents, Summary, free_contents, scan
from headrace.engine.segments.files cimport PATH_SIZE, file_size as size_of_file, read_all, segment_path, write_all
from headrace.engine.segments.record cimport crc32c, prepare_crc32c
from headrace.engine.segments.segment cimport SEGMENT_HEAD, Segment

prepare_crc32c()

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


cdef int _write_part(int fd, const void *data, size_t length, uint64_t *at) noexcept nogil:
    cdef int error = write_all(fd, <const char *> data, length, at[0])
    at[0] += length
    return error


cdef int index_segment(const char *directory, const Segment *segment, bint *damaged) noexcept nogil:
    """Scan a sealed segment and write its index. Returns errno; `damaged`: a record is, so it gets none."""
    cdef char path[PATH_SIZE]
    cdef Contents contents
    cdef int fd, error
    segment_path(path, directory, segment.number, b"log")
    fd = open(path, O_RDONLY | O_CLOEXEC)
    if fd < 0:
        return errno
    error = scan(fd, segment.packing, segment.base_seq, segment.salt, &contents)
    close(fd)
    if error:
        return error
    # A damaged segment gets no index: it is to be found damaged again when it is opened the next time.
    if contents.end == contents.file_size and contents.damages == 0:
        error = _write_index(directory, segment.number, &contents)
    else:
        damaged[0] = True
    free_contents(&contents)
    return error


cdef int _write_index(const char *directory, uint64_t number, const Contents *contents) noexcept nogil:
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
    error = _write_part(fd, &head, sizeof(IndexHead), &at)
    if not error:
        error = _write_part(fd, contents.text, contents.text_size, &at)
    if not error:
        error = _write_part(fd, contents.summaries, contents.subject_count * sizeof(Summary), &at)
    if not error:
        error = _write_part(fd, contents.removals.items, 2 * contents.removals.count * sizeof(uint64_t), &at)
    if not error:
        error = _write_part(fd, contents.offsets, column, &at)
    if not error and not contents.dense:
        error = _write_part(fd, contents.deltas, column, &at)
    if not error:
        error = _write_part(fd, contents.subject_places, column, &at)
    if not error:
        error = _write_part(fd, contents.lengths, column, &at)
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


cdef void *_read_part(int fd, size_t length, uint64_t at) noexcept nogil:
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
    contents.text = <char *> _read_part(fd, head.text_size, at)
    at += head.text_size
    contents.summaries = <Summary *> _read_part(fd, head.subject_count * sizeof(Summary), at)
    at += head.subject_count * sizeof(Summary)
    contents.removals.items = <uint64_t *> _read_part(fd, 2 * <size_t> head.removal_count * sizeof(uint64_t), at)
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
    contents.offsets = <uint32_t *> _read_part(fd, column, at)
    if not contents.dense:
        contents.deltas = <uint32_t *> _read_part(fd, column, at + column)
    if subjects:
        at = _details_at(&head)
        contents.subject_places = <uint32_t *> _read_part(fd, column, at)
        contents.lengths = <uint32_t *> _read_part(fd, column, at + column)
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
