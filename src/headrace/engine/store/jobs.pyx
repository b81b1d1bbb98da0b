"""The work of the committer's threads: plain C without the GIL, on nothing but what the job points to.

COMMIT   writes and syncs a group: see commit.pyx.
SYNC     syncs a file that was written some time ago (only with a sync_interval).
ROLLBACK re-reads the log after a failed COMMIT: see rollback.pyx.
INDEX    writes the index file of a sealed segment.
REWRITE  rewrites a sealed segment without its dead messages: see compaction.pyx.
UNLINK   removes the files of dead segments, oldest first.
COMPRESS rewrites a sealed segment in compressed form: see compression.pyx.
ERASE    overwrites the texts of removed messages (in a compressed segment: compression.pyx).
"""

from libc.errno cimport ENOENT, ENOMEM, errno
from libc.stdint cimport uint32_t
from libc.stdlib cimport free
from posix.fcntl cimport O_CLOEXEC, O_RDWR, open
from posix.unistd cimport close, unlink

from headrace.engine.segments.files cimport PATH_SIZE, segment_path, sync_data, sync_directory, write_all
from headrace.engine.segments.index_file cimport index_segment
from headrace.engine.segments.record cimport RecordHead, new_erased, prepare_crc32c
from headrace.engine.store.commit cimport commit_group, sync_timed
from headrace.engine.store.committer cimport (
    COMMIT, COMPRESS, ERASE, INDEX, REWRITE, ROLLBACK, STAGE_NONE, STAGE_SYNC, STAGE_WRITE, SYNC, UNLINK, Erasure, JobOwner,
    fail,
)
from headrace.engine.store.compaction cimport rewrite_segment
from headrace.engine.store.compression cimport compress_segment, erase_packed

prepare_crc32c()


cdef void perform(Job *job) noexcept nogil:
    job.error = 0
    job.stage = STAGE_NONE
    job.sync_nanoseconds = 0
    job.damaged = job.directory_unsynced = False
    if job.kind == COMMIT:
        commit_group(job)
    elif job.kind == SYNC:
        fail(job, STAGE_SYNC, sync_timed(job, job.fd))
    elif job.kind == ROLLBACK:
        with gil:
            (<JobOwner> job.owner).work(job)
    elif job.kind == INDEX:
        fail(job, STAGE_WRITE, index_segment(job.directory, job.segment, &job.damaged))
    elif job.kind == REWRITE:
        fail(job, STAGE_WRITE, rewrite_segment(job))
    elif job.kind == UNLINK:
        fail(job, STAGE_WRITE, unlink_segments(job))
    elif job.kind == COMPRESS:
        fail(job, STAGE_WRITE, compress_segment(job))
    elif job.kind == ERASE:
        if job.segment.packing == NULL:
            erase_plain(job)
        else:
            fail(job, STAGE_WRITE, erase_packed(job))


# -- erase --------------------------------------------------------------------------------------------------------------

cdef void erase_plain(Job *job) noexcept nogil:
    """Overwrite records with ERASED ones of the same length that are otherwise empty."""
    cdef char path[PATH_SIZE]
    cdef uint32_t k
    cdef int fd
    segment_path(path, job.directory, job.segment.number, b"log")
    fd = open(path, O_RDWR | O_CLOEXEC)
    if fail(job, STAGE_WRITE, errno if fd < 0 else 0):
        return
    for k in range(job.erasure_count):
        if fail(job, STAGE_WRITE, _overwrite(fd, &job.erasures[k])):
            break
    if not job.error:
        fail(job, STAGE_SYNC, sync_data(fd))
    close(fd)


cdef int _overwrite(int fd, const Erasure *erasure) noexcept nogil:
    cdef RecordHead *head = new_erased(erasure.length, erasure.seq, erasure.salt)
    cdef int error
    if head == NULL:
        return ENOMEM
    error = write_all(fd, <const char *> head, erasure.length, erasure.offset)
    free(head)
    return error


# -- unlink -------------------------------------------------------------------------------------------------------------

cdef int unlink_segments(Job *job) noexcept nogil:
    cdef char path[PATH_SIZE]
    cdef uint32_t k
    cdef int error
    if job.directory_first:
        error = sync_directory(job.directory)
        if error:
            return error
    for k in range(job.number_count):
        segment_path(path, job.directory, job.numbers[k], b"idx")
        unlink(path)
        segment_path(path, job.directory, job.numbers[k], b"log")
        if unlink(path) < 0 and errno != ENOENT:
            return errno
    return sync_directory(job.directory)
