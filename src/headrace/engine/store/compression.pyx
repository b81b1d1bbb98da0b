"""Writing compressed segments: from a sealed, uncompressed one, or from one in which messages are to be erased.

Both write a new file under a temporary name, sync it, rename it over the old one and sync the directory. After a kill
anywhere in between, there is either the old file or the new one, and both hold the same messages. Salt, positions and
size of the plain segment do not change, so its index file stays right, and readers that have the old file open may
continue to use it.

Every block is decompressed and compared before it is written: the file that it comes from is about to be deleted.

A segment that would not become an eighth smaller stays as it is. A few of its blocks are tried first, so that finding
out is cheap: it has to be found out again after every start.
"""

from libc.errno cimport EBADMSG, EIO, ENOMEM, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.stdio cimport rename
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset
from posix.fcntl cimport O_CLOEXEC, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, open
from posix.unistd cimport close, unlink

from headrace.engine.segments.codec cimport Finder, compress_block, expand_block
from headrace.engine.store.committer cimport Erasure
from headrace.engine.segments.contents cimport Contents, free_contents, scan
from headrace.engine.segments.files cimport (
    PATH_SIZE, file_size, read_all, segment_path, sync_data, sync_directory, write_all,
)
from headrace.engine.segments.packing cimport BLOCK, block_size, new_packing, read_block, table_size
from headrace.engine.segments.record cimport HEAD_SIZE, RecordHead, crc32c, new_erased, prepare_crc32c
from headrace.engine.segments.segment cimport (
    SEGMENT_HEAD, Packing, SegmentHead, free_packing, read_segment_head, write_segment_head,
)

prepare_crc32c()

cdef enum:
    SAMPLES = 8                    # blocks that are tried first
    OUTPUT = 16 * BLOCK            # written at once

cdef struct Packer:
    int source
    int target
    SegmentHead head
    bint is_packed                 # the source
    Packing *packing
    uint32_t done                  # blocks
    char *output
    size_t size                    # of what is in output
    uint64_t offset                # of output in the file
    char *plain                    # a block,
    char *packed                   # the same, compressed,
    char *again                    # and decompressed again
    Finder *finder
    char temporary[PATH_SIZE]
    char path[PATH_SIZE]


cdef void _close(Packer *packer) noexcept nogil:
    if packer == NULL:
        return
    if packer.source >= 0:
        close(packer.source)
    if packer.target >= 0:
        close(packer.target)
        unlink(packer.temporary)       # after a rename there is no such file
    free_packing(packer.packing)
    free(packer.output)
    free(packer.plain)
    free(packer.packed)
    free(packer.again)
    free(packer.finder)
    free(packer)


cdef int _open(const char *directory, uint64_t number, Packer **made) noexcept nogil:
    """Open the file of a segment and get ready to rewrite it. Whatever is returned, _close() follows."""
    cdef Packer *packer = <Packer *> malloc(sizeof(Packer))
    cdef char text[SEGMENT_HEAD]
    cdef uint64_t size = 0
    cdef size_t got = 0
    cdef int error
    made[0] = packer
    if packer == NULL:
        return ENOMEM
    memset(packer, 0, sizeof(Packer))
    packer.source = packer.target = -1
    packer.output = <char *> malloc(OUTPUT)
    packer.plain = <char *> malloc(BLOCK)
    packer.packed = <char *> malloc(BLOCK)
    packer.again = <char *> malloc(BLOCK)
    packer.finder = <Finder *> malloc(sizeof(Finder))
    if packer.output == NULL or packer.plain == NULL or packer.packed == NULL or packer.again == NULL \
            or packer.finder == NULL:
        return ENOMEM
    segment_path(packer.path, directory, number, b"log")
    segment_path(packer.temporary, directory, number, b"log.tmp")
    packer.source = open(packer.path, O_RDONLY | O_CLOEXEC)
    if packer.source < 0:
        return errno
    error = file_size(packer.source, &size)
    if not error:
        error = read_all(packer.source, text, SEGMENT_HEAD, 0, &got)
    if error:
        return error
    if got < SEGMENT_HEAD or not read_segment_head(text, &packer.head) or packer.head.number != number:
        return EIO
    packer.is_packed = packer.head.plain_size != 0
    if not packer.is_packed:
        packer.head.plain_size = size
    packer.packing = new_packing(packer.head.plain_size)
    return ENOMEM if packer.packing == NULL else 0


cdef int _begin(Packer *packer) noexcept nogil:
    packer.target = open(packer.temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o640)
    packer.offset = SEGMENT_HEAD + table_size(packer.packing.block_count)
    return errno if packer.target < 0 else 0


cdef int _flush(Packer *packer) noexcept nogil:
    cdef int error = write_all(packer.target, packer.output, packer.size, packer.offset)
    packer.offset += packer.size
    packer.size = 0
    return error


cdef int _append_block(Packer *packer, const char *data, uint32_t length) noexcept nogil:
    """The next block, as it is stored in the file."""
    cdef int error = 0
    if packer.size + length > OUTPUT:
        error = _flush(packer)
    packer.packing.starts[packer.done] = <uint32_t> (packer.offset + packer.size)
    packer.done += 1
    memcpy(packer.output + packer.size, data, length)
    packer.size += length
    return error


cdef uint32_t _pack(Packer *packer, uint32_t length) noexcept nogil:
    """Compress packer.plain into packer.packed. 0: it is better left uncompressed."""
    cdef uint32_t packed = compress_block(packer.plain, length, packer.packed, length - 1, packer.finder)
    if packed and expand_block(packer.packed, packed, packer.again, length, length) == length \
            and memcmp(packer.again, packer.plain, length) == 0:
        return packed
    return 0


cdef int _append_plain(Packer *packer, uint32_t length) noexcept nogil:
    """The next block, from packer.plain."""
    cdef uint32_t packed = _pack(packer, length)
    return _append_block(packer, packer.packed, packed) if packed else _append_block(packer, packer.plain, length)


cdef int _finish(Packer *packer, const char *directory, bint *renamed) noexcept nogil:
    """Write both tables and the head, sync, and put the file in the place of the old one."""
    cdef size_t size = table_size(packer.packing.block_count)
    cdef char *front = <char *> malloc(SEGMENT_HEAD + size)
    cdef uint32_t *starts = packer.packing.starts
    cdef uint32_t k, length, crc
    cdef int error
    if front == NULL:
        return ENOMEM
    error = _flush(packer)
    starts[packer.done] = <uint32_t> packer.offset
    write_segment_head(front, &packer.head)
    for k in range(packer.done):
        length = starts[k + 1] - starts[k]
        memcpy(front + SEGMENT_HEAD + 4 * <size_t> k, &length, 4)
    crc = crc32c(packer.head.salt, front + SEGMENT_HEAD, size - 4)
    memcpy(front + SEGMENT_HEAD + size - 4, &crc, 4)
    if not error:
        error = write_all(packer.target, front + SEGMENT_HEAD, size, packer.offset)
    if not error:
        error = write_all(packer.target, front, SEGMENT_HEAD + size, 0)
    free(front)
    if not error:
        error = sync_data(packer.target)
    if not error and rename(packer.temporary, packer.path) < 0:
        error = errno
    if error:
        return error
    renamed[0] = True
    return sync_directory(directory)


# -- compress -----------------------------------------------------------------------------------------------------------

cdef int _read_plain(Packer *packer, uint32_t block, uint32_t *length) noexcept nogil:
    cdef size_t got = 0
    cdef int error
    length[0] = block_size(packer.head.plain_size, block)
    error = read_all(packer.source, packer.plain, length[0], SEGMENT_HEAD + <uint64_t> block * BLOCK, &got)
    return EIO if not error and got < length[0] else error


cdef int _try_some(Packer *packer, bint *pays) noexcept nogil:
    cdef uint32_t k, length = 0, packed
    cdef uint64_t before = 0, after = 0
    cdef int error
    for k in range(<uint32_t> SAMPLES):
        error = _read_plain(packer, <uint32_t> (<uint64_t> k * packer.packing.block_count // SAMPLES), &length)
        if error:
            return error
        packed = _pack(packer, length)
        before += length
        after += packed if packed else length
    pays[0] = 8 * after <= 7 * before
    return 0


cdef int _check(Packer *packer, Job *job) noexcept nogil:
    """Whether all records are intact: what the disk returns wrongly now it may return correctly later."""
    cdef Contents contents
    cdef int error = scan(packer.source, NULL, packer.head.base_seq, packer.head.salt, &contents)
    if not error:
        job.damaged = contents.damages != 0 or contents.end != contents.file_size
        free_contents(&contents)
    return error


cdef int compress_segment(Job *job) noexcept nogil:
    """Returns 0 or an errno. On error, or if it does not pay, job.packing is NULL and the file is unchanged."""
    cdef Packer *packer = NULL
    cdef uint32_t k, length = 0
    cdef bint pays = True, renamed = False
    cdef int error = _open(job.directory, job.segment.number, &packer)
    job.packing = NULL
    if not error and (packer.is_packed or packer.head.plain_size <= SEGMENT_HEAD):
        pays = False
    if not error and pays:
        error = _check(packer, job)
        pays = not job.damaged
    if not error and pays and packer.packing.block_count > 2 * SAMPLES:
        error = _try_some(packer, &pays)
    if not error and pays:
        error = _begin(packer)
        for k in range(packer.packing.block_count):
            if not error:
                error = _read_plain(packer, k, &length)
            if not error:
                error = _append_plain(packer, length)
        pays = 8 * (packer.offset + packer.size) <= 7 * packer.head.plain_size
        if not error and pays:
            error = _finish(packer, job.directory, &renamed)
    if renamed:
        # If the directory could not be synced, the old file may be back after a power failure: it is just as good.
        error = 0
        job.packing = packer.packing
        packer.packing = NULL
    _close(packer)
    return error


# -- erase --------------------------------------------------------------------------------------------------------------

cdef void _overwrite(Packer *packer, uint32_t block, uint32_t length, const Erasure *erasure,
                     const RecordHead *head) noexcept nogil:
    """Overwrite the part of an erased record that lies in packer.plain: its head, and zeros."""
    cdef uint64_t begin = SEGMENT_HEAD + <uint64_t> block * BLOCK, at = erasure.offset
    cdef uint64_t end = at + erasure.length, head_end = at + HEAD_SIZE
    end = end if end < begin + length else begin + length
    head_end = head_end if head_end < end else end
    at = at if at > begin else begin
    memset(packer.plain + (at - begin), 0, end - at)
    if at < head_end:
        memcpy(packer.plain + (at - begin), <const char *> head + (at - erasure.offset), head_end - at)


cdef bint _touches(const Erasure *erasure, uint32_t block, uint32_t length) noexcept nogil:
    cdef uint64_t begin = SEGMENT_HEAD + <uint64_t> block * BLOCK
    return erasure.offset < begin + length and <uint64_t> erasure.offset + erasure.length > begin


cdef int _copy_block(Packer *packer, uint32_t block, const Job *job) noexcept nogil:
    """A block as it was, or, if an erased message is in it, compressed again without it."""
    cdef const Packing *old = job.segment.packing
    cdef RecordHead *head
    cdef uint32_t k, made = 0, length = block_size(old.plain_size, block)
    cdef size_t got = 0
    cdef bint touched = False, damaged = False
    cdef int error
    for k in range(job.erasure_count):
        if not _touches(&job.erasures[k], block, length):
            continue
        if not touched:
            touched = True
            error = read_block(packer.source, old, block, length, packer.plain, packer.packed, &made, &damaged)
            if error or damaged:
                return error if error else EBADMSG     # others in this block may be readable again one day
        head = new_erased(job.erasures[k].length, job.erasures[k].seq, job.erasures[k].salt)
        if head == NULL:
            return ENOMEM
        _overwrite(packer, block, length, &job.erasures[k], head)
        free(head)
    if touched:
        return _append_plain(packer, length)
    length = old.starts[block + 1] - old.starts[block]
    error = read_all(packer.source, packer.packed, length, old.starts[block], &got)
    if not error and got < length:
        error = EBADMSG            # the file was truncated
    return error if error else _append_block(packer, packer.packed, length)


cdef int erase_packed(Job *job) noexcept nogil:
    """Rewrite a compressed segment without the contents of all erasures in it. Blocks without one are copied as they are.

    Returns 0 or an errno. Once the new file has the name, job.packing says where its blocks are.
    """
    cdef const Packing *old = job.segment.packing
    cdef Packer *packer = NULL
    cdef uint32_t k
    cdef bint renamed = False
    cdef int error = _open(job.directory, job.segment.number, &packer)
    job.packing = NULL
    if not error:
        error = _begin(packer)
    if not error and (not packer.is_packed or packer.packing.block_count != old.block_count):
        error = EIO
    for k in range(old.block_count):
        if not error:
            error = _copy_block(packer, k, job)
    if not error:
        error = _finish(packer, job.directory, &renamed)
    if renamed:
        job.directory_unsynced = error != 0
        error = 0
        job.packing = packer.packing
        packer.packing = NULL
    _close(packer)
    return error
