"""REWRITE: a sealed segment without its dead messages, by a thread of the committer. (chores.pyx decides which, and when.)

It is written under a temporary name, synced, renamed over the old one, and the directory synced. After a kill anywhere
in between, there is either the old file or the new one. Once it is renamed, the new file is the segment, whether or not
the directory can be synced. But until it is, a power failure may bring the old one back, so whatever else it needs
(REMOVED records elsewhere) must not go.

A segment in which a live record is damaged is never rewritten: its bytes may become readable again.
"""

from libc.errno cimport EBADMSG, ENOMEM, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.stdio cimport rename
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, open
from posix.unistd cimport close, unlink

from headrace.engine.segments.files cimport (
    PATH_SIZE, random_salt, read_all, segment_path, sync_data, sync_directory, write_all,
)
from headrace.engine.segments.index_file cimport index_segment
from headrace.engine.segments.packing cimport Stretch, load_blocks
from headrace.engine.segments.record cimport (
    HEAD_SIZE, MESSAGE, REMOVED, RecordHead, control_length, is_intact, is_well_formed, prepare_crc32c, seal_record,
    write_control,
)
from headrace.engine.segments.segment cimport (
    SEGMENT_HEAD, Segment, SegmentHead, add_message, add_range, free_segment, new_segment, write_segment_head,
)

prepare_crc32c()

cdef size_t OUTPUT = 1024 * 1024
cdef uint32_t RANGES_PER_RECORD = 65536

cdef struct Output:
    int fd
    char *data
    size_t size
    size_t capacity
    uint64_t offset                # of data in the file


cdef int _flush(Output *output) noexcept nogil:
    cdef int error = write_all(output.fd, output.data, output.size, output.offset)
    output.offset += output.size
    output.size = 0
    return error


cdef int _reserve(Output *output, size_t length) noexcept nogil:
    """Room for a record in the output's buffer."""
    cdef int error = 0
    cdef void *grown
    if output.size + length > output.capacity:
        error = _flush(output)
        if length > output.capacity:
            grown = realloc(output.data, length)
            if grown == NULL:
                return ENOMEM
            output.data = <char *> grown
            output.capacity = length
    return error


cdef int rewrite_segment(Job *job) noexcept nogil:
    cdef char temporary[PATH_SIZE]
    cdef char path[PATH_SIZE]
    cdef Output output
    cdef Segment *fresh = new_segment(job.segment.number, job.segment.base_seq)
    cdef bint damaged = False
    cdef int source = -1, error = 0
    job.replacement = NULL
    memset(&output, 0, sizeof(Output))
    output.fd = -1
    output.capacity = OUTPUT
    output.data = <char *> malloc(OUTPUT)
    if fresh == NULL or output.data == NULL:
        free_segment(fresh)
        free(output.data)
        return ENOMEM
    segment_path(path, job.directory, job.segment.number, b"log")
    segment_path(temporary, job.directory, job.segment.number, b"log.tmp")
    if job.directory_first:
        error = sync_directory(job.directory)
    if not error:
        source = open(path, O_RDONLY | O_CLOEXEC)
        error = errno if source < 0 else 0
    if not error:
        output.fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o640)
        error = errno if output.fd < 0 else 0
    if not error:
        error = _write_survivors(job, source, fresh, &output)
    if not error:
        error = sync_data(output.fd)
    if not error and rename(temporary, path) < 0:
        error = errno
    if source >= 0:
        close(source)
    free(output.data)
    if error:
        if output.fd >= 0:
            close(output.fd)
            unlink(temporary)
        free_segment(fresh)
        return error
    # The name is that of the new file now.
    job.directory_unsynced = sync_directory(job.directory) != 0
    fresh.fd = output.fd
    fresh.size = fresh.written = fresh.allocated = output.offset
    fresh.sealed = True
    job.replacement = fresh
    if index_segment(job.directory, fresh, &damaged) == 0:
        fresh.indexed = True
    return 0


cdef int _write_survivors(Job *job, int source, Segment *fresh, Output *output) noexcept nogil:
    cdef SegmentHead head
    cdef RecordHead *record
    cdef Stretch stretch           # of a compressed source
    cdef uint32_t k, pairs
    cdef uint64_t offset
    cdef int error
    memset(&stretch, 0, sizeof(Stretch))
    fresh.salt = random_salt()
    fresh.first_time = job.segment.first_time
    # Sparse from the start: what is not kept gets no place.
    fresh.deltas = <uint32_t *> malloc((job.survivor_count + 1) * sizeof(uint32_t))
    fresh.offsets = <uint32_t *> malloc((job.survivor_count + 1) * sizeof(uint32_t))
    if fresh.deltas == NULL or fresh.offsets == NULL:
        return ENOMEM
    fresh.capacity = job.survivor_count + 1
    head.number = fresh.number
    head.base_seq = fresh.base_seq
    head.first_seq = job.first_seq
    head.last_time = job.last_time
    head.salt = fresh.salt
    head.plain_size = 0
    write_segment_head(output.data, &head)
    output.size = SEGMENT_HEAD
    k = 0
    while k < job.range_count:
        pairs = job.range_count - k if job.range_count - k < RANGES_PER_RECORD else RANGES_PER_RECORD
        error = _reserve(output, control_length(pairs))
        if error:
            return error
        record = <RecordHead *> (output.data + output.size)
        write_control(record, REMOVED, 0, 0, job.ranges + 2 * k, pairs, fresh.salt)
        output.size += record.length
        k += pairs
    for k in range(job.range_count):
        if add_range(&fresh.removals, job.ranges[2 * k], job.ranges[2 * k + 1]) < 0:
            return ENOMEM
    for k in range(job.survivor_count):
        offset = output.offset + output.size
        error = _copy_record(source, job.segment, job.survivors[2 * k], job.survivors[2 * k + 1], fresh.salt, &stretch,
                             output)
        if error < 0:
            # Never copy bad bytes under a good checksum, and never drop them: the segment stays as it is.
            job.damaged = True
            error = EBADMSG
        if not error:
            record = <RecordHead *> (output.data + (offset - output.offset))
            if add_message(fresh, job.survivors[2 * k], <uint32_t> offset, record.length) < 0:
                error = ENOMEM
        if error:
            free(stretch.data)
            return error
    free(stretch.data)
    return _flush(output)


cdef int _read(int source, const Segment *old, char *data, size_t length, uint64_t offset, Stretch *stretch,
               size_t *got) noexcept nogil:
    """Bytes of a segment, compressed or not."""
    cdef int error
    if old.packing == NULL:
        return read_all(source, data, length, offset, got)
    got[0] = 0
    if not (stretch.start <= offset and offset + length <= stretch.start + stretch.size):
        error = load_blocks(source, old.packing, offset, length, True, stretch)
        if error:
            return error
    if stretch.size and offset + length <= stretch.start + stretch.size:
        memcpy(data, stretch.data + (offset - stretch.start), length)
        got[0] = length
    return 0


cdef int _copy_record(int source, const Segment *old, uint64_t seq, uint64_t offset, uint32_t salt,
                      Stretch *stretch, Output *output) noexcept nogil:
    """Append one message of the old file to the new one. -1: it is damaged."""
    cdef RecordHead head
    cdef RecordHead *record
    cdef size_t got
    cdef int error = _read(source, old, <char *> &head, HEAD_SIZE, offset, stretch, &got)
    if error:
        return error
    if got < HEAD_SIZE or not is_well_formed(&head, old.size - offset) or head.kind != MESSAGE or head.seq != seq:
        return -1
    error = _reserve(output, head.length)
    if error:
        return error
    record = <RecordHead *> (output.data + output.size)
    error = _read(source, old, <char *> record, head.length, offset, stretch, &got)
    if error:
        return error
    if got < head.length or record.length != head.length or not is_intact(record, old.salt):
        return -1
    seal_record(record, salt)
    output.size += record.length
    return 0
