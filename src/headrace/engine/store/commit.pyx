"""COMMIT: one group of messages onto the disk, by a thread of the committer.

The buffer of the group is written, then the files are synced. If anything cannot be written, the whole group is taken
back: files are cut back to where it began, and new ones removed. A failed sync is different: nobody can know what is on
the disk after it, so nothing is tried again.
"""

from libc.errno cimport errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDWR, O_TRUNC, open
from posix.unistd cimport close, fsync, unlink

from headrace.engine.basics.system cimport monotonic_nanoseconds
from headrace.engine.segments.files cimport (
    PATH_SIZE, fallocate, open_directory, segment_path, sync_data, truncate_file, write_all,
)
from headrace.engine.segments.segment cimport Segment
from headrace.engine.store.committer cimport STAGE_SYNC, STAGE_WRITE, fail
from headrace.engine.store.groups cimport Buffer, Part

cdef uint64_t FIRST_ALLOCATION = 256 * 1024
cdef uint64_t LARGEST_ALLOCATION = 8 * 1024 * 1024
cdef uint64_t SMALL_PART = 64 * 1024
cdef uint64_t MOST_ZEROS = 512 * 1024
cdef char ZEROS[65536]


cdef void commit_group(Job *job) noexcept nogil:
    cdef Buffer *buffer = job.buffer
    cdef Part *part
    cdef uint32_t k, done = 0
    cdef int directory = -1
    for k in range(buffer.part_count):
        part = &buffer.parts[k]
        # Opened before the file is created: if there is no descriptor for it, nothing is written; that is not a failed
        # sync.
        if part.create and directory < 0:
            directory = open_directory(job.directory)
            if directory < 0:
                fail(job, STAGE_WRITE, errno)
                break
        done = k + 1
        if fail(job, STAGE_WRITE, _write_part(job, part, buffer.data + part.start)):
            break
        if (job.sync or part.seal) and fail(job, STAGE_SYNC, sync_timed(job, part.segment.fd)):
            break
    if directory >= 0:
        if not job.error and fsync(directory) < 0:
            fail(job, STAGE_SYNC, errno)
        close(directory)
    if job.error:
        while done:
            done -= 1
            _undo_part(job, &buffer.parts[done])


cdef int sync_timed(Job *job, int fd) noexcept nogil:
    """Sync a file, and add how long that took to the job's time."""
    cdef int64_t began = monotonic_nanoseconds()
    cdef int error = sync_data(fd)
    job.sync_nanoseconds += max(monotonic_nanoseconds() - began, 1)
    return error


cdef int _write_part(Job *job, Part *part, const char *data) noexcept nogil:
    cdef char path[PATH_SIZE]
    cdef Segment *segment = part.segment
    cdef uint64_t end = part.offset + part.length
    cdef int error
    if part.create:
        segment_path(path, job.directory, segment.number, b"log")
        segment.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o640)
        if segment.fd < 0:
            return errno
    if end > segment.allocated and not part.seal:
        _allocate(segment, end)
    error = write_all(segment.fd, data, part.length, part.offset)
    if error:
        return error
    if end > segment.zeroed and part.length <= SMALL_PART and job.sync and not part.seal:
        _write_zeros(segment, end)
    if part.seal:
        # The space behind the last record is released. The sync of this part covers it.
        error = truncate_file(segment.fd, end)
        segment.allocated = end
    return error


cdef void _allocate(Segment *segment, uint64_t end) noexcept nogil:
    """Reserve space ahead, so that most appends do not change the size of the file: their sync is a third cheaper."""
    cdef uint64_t wanted = 2 * segment.allocated
    if wanted < FIRST_ALLOCATION:
        wanted = FIRST_ALLOCATION
    if wanted > segment.allocated + LARGEST_ALLOCATION:
        wanted = segment.allocated + LARGEST_ALLOCATION
    if wanted > segment.limit:
        wanted = segment.limit
    if wanted < end:
        wanted = end
    # If it cannot be reserved, there may still be room for what is needed now: the write itself will tell.
    if fallocate(segment.fd, 0, 0, wanted) < 0:
        wanted = end
    segment.allocated = wanted


cdef void _write_zeros(Segment *segment, uint64_t end) noexcept nogil:
    """Write zeros to some of the space ahead, which reads as zeros anyway.

    The first write to a block that was only allocated is recorded in the journal of the file system, and a sync waits for
    that, too. If zeros were written before, it is not (rows kv-put and stream-1-always of the benchmark). At most as
    many as the file already has, so that small streams stay small.
    """
    cdef uint64_t until = min(end + min(end, MOST_ZEROS), segment.allocated)
    cdef uint64_t step
    segment.zeroed = end
    while segment.zeroed < until:
        step = min(until - segment.zeroed, <uint64_t> sizeof(ZEROS))
        if write_all(segment.fd, ZEROS, step, segment.zeroed):
            return                 # no loss; if the disk is full, the next group finds out
        segment.zeroed += step


cdef void _undo_part(Job *job, Part *part) noexcept nogil:
    cdef char path[PATH_SIZE]
    cdef Segment *segment = part.segment
    if part.create:
        if segment.fd >= 0:
            close(segment.fd)
            segment.fd = -1
        segment_path(path, job.directory, segment.number, b"log")
        unlink(path)
    elif truncate_file(segment.fd, part.offset):
        job.stage = STAGE_SYNC     # what follows the last good record is not known: as bad as a failed sync
    segment.allocated = segment.zeroed = part.offset
