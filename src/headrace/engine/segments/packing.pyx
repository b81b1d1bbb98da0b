"""Compressed segments: the same records in blocks that are compressed each for itself.

    ┌──────────────┬───────┬────────┬────────┬─────┬────────┬───────┐
    │ head, twice  │ table │ block  │ block  │ ... │ block  │ table │
    └──────────────┴───────┴────────┴────────┴─────┴────────┴───────┘
    0             128

    head    that of the plain segment, with the size that it had
    table   the compressed length of each block, four bytes each, and a CRC-32C of them that starts from the salt.
            Stored twice, as far apart as possible: without it no block can be found
    block   BLOCK bytes of the plain segment behind its head, in the format of codec.pyx; as they were where that does not
            make them shorter

Only what is sealed is compressed, so nothing here is ever appended to or changed in place. Everybody else uses
the positions of the plain segment: the offsets in memory, the index file, the scan. A block is a fixed number of plain
bytes, so the block of a position is a division away; records may begin in one and end in the next.

Blocks have no checksum, because the records in them have: each is checked whenever it is read, against the checksum that
it was published with. From a damaged block comes whatever can be expanded, and bytes of 0xFF for the rest (which never
pass for a record or for free space), and the records that are hit fail their checks as in a plain segment.
"""

from libc.errno cimport ENOMEM, ESTALE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove, memset
from posix.unistd cimport close

from headrace.engine.segments.codec cimport expand_block
from headrace.engine.segments.files cimport file_size as size_of_file, read_all
from headrace.engine.segments.record cimport crc32c, prepare_crc32c
from headrace.engine.segments.segment cimport free_packing, read_segment_head

prepare_crc32c()

cdef uint64_t LARGEST_SEGMENT = 0xFFFFFFFF     # offsets are four bytes


cdef Packing *new_packing(uint64_t plain_size) noexcept nogil:
    """Without starts so far. NULL: no memory."""
    cdef Packing *packing = <Packing *> malloc(sizeof(Packing))
    if packing == NULL:
        return NULL
    packing.plain_size = plain_size
    packing.block_count = block_count_of(plain_size)
    packing.starts = <uint32_t *> malloc((<size_t> packing.block_count + 1) * sizeof(uint32_t))
    if packing.starts == NULL:
        free(packing)
        return NULL
    return packing


cdef bint _read_table(const uint32_t *lengths, uint32_t salt, Packing *packing) noexcept nogil:
    """Turn a copy of the table into starts. False: it is damaged."""
    cdef uint32_t k, crc
    cdef uint64_t at = SEGMENT_HEAD + table_size(packing.block_count)
    memcpy(&crc, lengths + packing.block_count, 4)
    if crc32c(salt, lengths, 4 * <size_t> packing.block_count) != crc:
        return False
    for k in range(packing.block_count):
        if lengths[k] == 0 or lengths[k] > block_size(packing.plain_size, k):
            return False
        packing.starts[k] = <uint32_t> at
        at += lengths[k]
        if at > LARGEST_SEGMENT:
            return False
    packing.starts[packing.block_count] = <uint32_t> at
    return True


cdef int read_packing(int fd, const SegmentHead *head, uint64_t file_size, Packing **packing) noexcept nogil:
    """Find out where the blocks are. 0 or an errno; NULL: both copies of the table are damaged."""
    cdef uint32_t copy
    cdef size_t size, got = 0
    cdef uint32_t *lengths
    cdef Packing *found
    cdef bint good = False
    cdef int error = 0
    packing[0] = NULL
    if head.plain_size <= SEGMENT_HEAD or head.plain_size > LARGEST_SEGMENT:
        return 0
    size = table_size(block_count_of(head.plain_size))
    if file_size < SEGMENT_HEAD + size:
        return 0
    found = new_packing(head.plain_size)
    lengths = <uint32_t *> malloc(size)
    if found == NULL or lengths == NULL:
        error = ENOMEM
    for copy in range(2):
        if not error and not good:
            error = read_all(fd, <char *> lengths, size, file_size - size if copy else SEGMENT_HEAD, &got)
            good = not error and got == size and _read_table(lengths, head.salt, found)
    free(lengths)
    if good:
        packing[0] = found
    else:
        free_packing(found)
    return error


cdef int read_form(Segment *segment) noexcept nogil:
    """For a reader that has opened a segment by its name again: whether its file is compressed, and how, may have changed.

    0 or an errno, and then the file is closed. ESTALE: it is another one by now, with other positions or none.
    """
    cdef char text[SEGMENT_HEAD]
    cdef SegmentHead head
    cdef Packing *packing = NULL
    cdef uint64_t size = 0
    cdef size_t got = 0
    cdef int error = size_of_file(segment.fd, &size)
    if not error:
        error = read_all(segment.fd, text, SEGMENT_HEAD, 0, &got)
    if not error and (got < SEGMENT_HEAD or not read_segment_head(text, &head) or head.salt != segment.salt):
        error = ESTALE
    if not error and head.plain_size:
        error = read_packing(segment.fd, &head, size, &packing)
        if not error and packing == NULL:
            error = ESTALE
    if error:
        close(segment.fd)
        segment.fd = -1
        return error
    free_packing(segment.packing)
    segment.packing = packing
    return 0


cdef int read_block(int fd, const Packing *packing, uint32_t block, uint32_t enough, char *output, char *scratch,
                    uint32_t *made, bint *damaged) noexcept nogil:
    """At least `enough` plain bytes of a block (which has that many), and how many there are in the end.

    `output` and `scratch` have BLOCK bytes. 0 or an errno; damage is none, but noted.
    """
    cdef uint32_t plain = block_size(packing.plain_size, block)
    cdef uint32_t length = packing.starts[block + 1] - packing.starts[block]
    cdef char *target = output if length == plain else scratch
    cdef size_t got = 0
    cdef int error = read_all(fd, target, length, packing.starts[block], &got)
    if error:
        return error
    if length != plain:
        got = expand_block(scratch, <uint32_t> got, output, plain, enough)
    if got < enough:
        memset(output + got, 0xFF, plain - got)
        got = plain
        damaged[0] = True
    made[0] = <uint32_t> got
    return 0


cdef int load_blocks(int fd, const Packing *packing, uint64_t offset, size_t wanted, bint whole,
                     Stretch *stretch) noexcept nogil:
    """Make a stretch hold the bytes from `offset` on: `wanted` of them, or up to the end. 0 or an errno; then it is empty.

    `whole`: all of each block. What the stretch already holds is kept then, so that whoever reads in sequence expands
    every block once. Who looks at single records here and there needs no more than what is up to them.
    """
    cdef uint64_t end = stretch.start + stretch.size, target = offset + wanted
    cdef uint32_t block, last, enough, made = 0
    cdef size_t kept = 0, needed
    cdef char *data
    cdef char *scratch
    cdef bint damaged = False      # the checksums of its records tell
    cdef int error = 0
    if target > packing.plain_size:
        target = packing.plain_size
    if offset < SEGMENT_HEAD or offset >= target:
        stretch.size = 0
        return 0
    last = <uint32_t> ((target - 1 - SEGMENT_HEAD) // BLOCK)
    # (What was read before the segment was compressed, or not as a whole, may end anywhere.)
    if stretch.size and stretch.start <= offset < end < target and (end - SEGMENT_HEAD) % BLOCK == 0:
        kept = end - offset
        block = <uint32_t> ((end - SEGMENT_HEAD) // BLOCK)
    else:
        block = <uint32_t> ((offset - SEGMENT_HEAD) // BLOCK)
        offset = SEGMENT_HEAD + <uint64_t> block * BLOCK
    needed = kept + (<size_t> last - block + 1) * BLOCK
    if needed > stretch.capacity or stretch.capacity > 8 * BLOCK and needed <= 2 * BLOCK:
        data = <char *> malloc(needed)
        if data == NULL:
            stretch.size = 0
            return ENOMEM
        if kept:
            memcpy(data, stretch.data + (offset - stretch.start), kept)
        free(stretch.data)
        stretch.data = data
        stretch.capacity = needed
    elif kept:
        memmove(stretch.data, stretch.data + (offset - stretch.start), kept)
    stretch.start = offset
    stretch.size = kept
    scratch = <char *> malloc(BLOCK)
    if scratch == NULL:
        error = ENOMEM
    while not error and block <= last:
        enough = block_size(packing.plain_size, block)
        if block == last and not whole:
            enough = <uint32_t> (target - SEGMENT_HEAD - <uint64_t> block * BLOCK)
        error = read_block(fd, packing, block, enough, stretch.data + stretch.size, scratch, &made, &damaged)
        stretch.size += made
        block += 1
    free(scratch)
    if error:
        stretch.size = 0
    return error
