"""Opening a log: replay of what its segments say.

1. Temporary files are left-overs of an unfinished rewrite or index: removed.
2. The contents of each segment come from its index file, or, if that is missing, stale or damaged, from a scan.
3. What was removed is the union of all REMOVED records, and everything below the highest FIRST.
4. Messages that are left get their place in memory and in the index of subjects. Where nothing was removed from a
   segment since its index was written, the index has both ready.

Damage is reported, never hidden and never fatal: a torn tail of the last segment is cut off, unreadable places elsewhere
are passed over, a file without a readable head is put aside under another name. Nothing that was readable is lost.
"""

from libc.errno cimport errno
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy
from posix.fcntl cimport O_CLOEXEC, O_RDWR, open
from posix.unistd cimport close

from headrace.engine.store.contents cimport (
    HAS_HEADERS, LENGTH_MASK, Contents, Summary, free_contents, load_places, read_index, scan,
)
from headrace.engine.store.files cimport PATH_SIZE, cut, file_size, read_all, segment_path, sync_data
from headrace.engine.store.packing cimport read_packing
from headrace.engine.store.record cimport HEAD_SIZE
from headrace.engine.store.segments cimport (
    SEGMENT_HEAD, Packing, Ranges, Segment, SegmentHead, add_message, add_range, clear_ranges, free_packing, free_segment,
    new_segment, read_segment_head,
)
from headrace.engine.store.subject_index cimport Entry

import io
import os
import re

SEGMENT_NAME = re.compile(r"(\d{12,20})\.log")


cdef list recover(Log log):
    """Fill an empty log from its directory. One line per damage; raises OSError if the directory cannot be read."""
    cdef list reports = []
    cdef list numbers = []
    cdef Contents *contents = NULL
    cdef uint32_t k, count
    for name in os.listdir(log.directory):
        if name.endswith(".tmp") and name[:12].isdigit():
            os.unlink(os.path.join(log.directory, name))
        elif (match := SEGMENT_NAME.fullmatch(name)) is not None:
            numbers.append(int(match[1]))
    numbers.sort()
    count = <uint32_t> len(numbers)
    contents = <Contents *> malloc((count + 1) * sizeof(Contents))
    if contents == NULL:
        raise MemoryError
    k = 0
    latest = max(numbers, default=0)
    try:
        for number in numbers:
            log.next_number = max(log.next_number, <uint64_t> number + 1)
            if open_segment(log, number, number == latest, &contents[k], reports):
                k += 1
        replay(log, contents)
    finally:
        while k:
            k -= 1
            free_contents(&contents[k])
        free(contents)
    return reports


cdef bint open_segment(Log log, uint64_t number, bint latest, Contents *contents, list reports) except -1:
    """Read one file. False: there is nothing in it."""
    cdef char path[PATH_SIZE]
    cdef char text[SEGMENT_HEAD]
    cdef SegmentHead head
    cdef Segment *segment
    cdef uint64_t size = 0
    cdef size_t got = 0
    cdef int fd, error
    cdef bint indexed
    cdef Packing *packing = NULL
    segment_path(path, log.path, number, b"log")
    fd = open(path, O_RDWR | O_CLOEXEC)
    if fd < 0:
        raise OSError(errno, f"cannot open {os.fsdecode(<bytes> path)}: {os.strerror(errno)}")
    error = file_size(fd, &size)
    if not error:
        error = read_all(fd, text, SEGMENT_HEAD, 0, &got)
    if error:
        close(fd)
        raise OSError(error, f"cannot read {os.fsdecode(<bytes> path)}: {os.strerror(error)}")
    if got < SEGMENT_HEAD or not read_segment_head(text, &head) or head.number != number:
        close(fd)
        set_aside(os.fsdecode(<bytes> path), reports)
        return False
    if head.plain_size:
        error = read_packing(fd, &head, size, &packing)
        if error:
            close(fd)
            raise OSError(error, f"cannot read {os.fsdecode(<bytes> path)}: {os.strerror(error)}")
        if packing == NULL:
            close(fd)
            os.replace(os.fsdecode(<bytes> path), os.fsdecode(<bytes> path) + ".damaged")
            reports.append(f"{os.fsdecode(<bytes> path)}: its table of blocks is damaged in both copies; "
                           "the file was renamed to end in .damaged")
            return False
        size = packing.plain_size
        latest = False             # nothing can be appended to it
    indexed = read_index(log.path, number, head.base_seq, head.salt, size, contents)
    if not indexed:
        with nogil:
            error = scan(fd, packing, head.base_seq, head.salt, contents)
        if error:
            close(fd)
            free_packing(packing)
            raise OSError(error, f"cannot read {os.fsdecode(<bytes> path)}: {os.strerror(error)}")
    segment = new_segment(number, head.base_seq)
    if segment == NULL:
        close(fd)
        free_packing(packing)
        free_contents(contents)
        raise MemoryError
    segment.salt = head.salt
    segment.packing = packing
    segment.indexed = indexed
    segment.sealed = not latest
    segment.limit = log.segment_bytes
    segment.first_time = contents.first_time
    segment.size = segment.written = contents.end
    segment.allocated = size
    if head.first_seq > contents.first_seq:
        contents.first_seq = head.first_seq
    if head.base_seq > contents.next_seq:
        contents.next_seq = head.base_seq
    if head.last_time > contents.last_time:
        contents.last_time = head.last_time
    segment.damaged = contents.damages != 0 or contents.torn and not latest
    if contents.damages:
        reports.append(f"{os.fsdecode(<bytes> path)}: {contents.damaged_bytes} bytes at {contents.damages} places are "
                       f"damaged, the first at byte {contents.damaged_at}: what they held is lost, the rest is kept")
    segment.fd = fd
    if contents.torn and not latest:
        reports.append(f"{os.fsdecode(<bytes> path)}: the last {size - contents.end} bytes are damaged: "
                       "what they held is lost, the rest is kept")
    elif contents.torn:
        reports.append(f"{os.fsdecode(<bytes> path)}: cut back to byte {contents.end}: the last write was torn")
    if latest and contents.end != size:
        # What is behind the last good record must not come back between later ones.
        error = cut(fd, contents.end)
        if not error:
            error = sync_data(fd)
        if error:
            free_segment(segment)
            free_contents(contents)
            raise OSError(error, f"cannot cut {os.fsdecode(<bytes> path)}: {os.strerror(error)}")
        segment.allocated = contents.end
    if not latest:
        close(fd)
        segment.fd = -1
    log.add_segment(segment)
    if latest:
        log.active = segment
    return True


cdef int set_aside(str path, list reports) except -1:
    """Rename a file whose head is unreadable; one that was never written is removed."""
    if is_blank(path):
        os.unlink(path)
        return 0
    os.replace(path, path + ".damaged")
    reports.append(f"{path}: its head is damaged in both copies; the file was renamed to end in .damaged")
    return 0


cdef bint is_blank(str path) except -1:
    with io.open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            if chunk.count(0) != len(chunk):
                return False
    return True


# -- replay -------------------------------------------------------------------------------------------------------------

cdef int replay(Log log, Contents *contents) except -1:
    cdef Ranges removed
    cdef uint64_t first_seq = 0, next_seq = 0
    cdef uint32_t k, r
    removed.items = NULL
    removed.count = removed.capacity = 0
    try:
        for k in range(log.segment_count):
            first_seq = max(first_seq, contents[k].first_seq)
            next_seq = max(next_seq, contents[k].next_seq)
            log.last_time = max(log.last_time, contents[k].last_time)
            for r in range(contents[k].removals.count):
                if add_range(&removed, contents[k].removals.items[2 * r],
                             contents[k].removals.items[2 * r + 1]) < 0:
                    raise MemoryError
        sort_ranges(&removed)
        log.last_seq = next_seq - 1 if next_seq else 0
        log.first_seq = 0
        for k in range(log.segment_count):
            if not take_contents(log, log.segments[k], &contents[k], first_seq, &removed):
                # The index lied about itself: read the segment.
                rescan(log, log.segments[k], &contents[k])
                take_contents(log, log.segments[k], &contents[k], first_seq, &removed)
            # The removals stay with the segment, for the day when it is rewritten.
            log.segments[k].removals = contents[k].removals
            contents[k].removals.items = NULL
            contents[k].removals.count = contents[k].removals.capacity = 0
    finally:
        clear_ranges(&removed)
    if log.count == 0 and log.last_seq + first_seq > 0:
        log.first_seq = max(first_seq, log.last_seq + 1)
        log.last_seq = log.first_seq - 1
    log.committed_seq = log.last_seq
    log.logged_first = first_seq
    log.tidy_due = True
    return 0


cdef int rescan(Log log, Segment *segment, Contents *contents) except -1:
    cdef Ranges removals = contents.removals
    cdef int error
    contents.removals.items = NULL
    free_contents(contents)
    segment.indexed = False
    if segment.fd < 0:
        log.open_file(segment)
    with nogil:
        error = scan(segment.fd, segment.packing, segment.base_seq, segment.salt, contents)
    clear_ranges(&contents.removals)
    contents.removals = removals
    if error:
        raise OSError(error, f"cannot read segment {segment.number}: {os.strerror(error)}")
    return 0


cdef bint take_contents(Log log, Segment *segment, Contents *contents, uint64_t first_seq,
                        const Ranges *removed) except -1:
    """Give the messages that are left their places. False: the arrays of the index cannot be used."""
    cdef uint32_t r = first_range(removed, contents.base_seq)
    cdef bint whole = contents.base_seq >= first_seq \
        and (r == removed.count or removed.items[2 * r] >= contents.next_seq)
    cdef const char *path = log.path
    cdef bint good
    if contents.next_seq <= first_seq or contents.count == 0:
        return True                # all dead: the FIRST record says so, nobody asks for their places
    if contents.indexed:
        with nogil:
            good = load_places(path, segment.number, contents, not whole)
        if not good:
            return False
    if whole:
        take_all(log, segment, contents)
    else:
        take_some(log, segment, contents, first_seq, removed, r)
    return True


cdef uint32_t first_range(const Ranges *removed, uint64_t seq) noexcept:
    """The first range that does not end below a sequence."""
    cdef uint32_t low = 0, high = removed.count, middle
    while low < high:
        middle = (low + high) // 2
        if removed.items[2 * middle + 1] < seq:
            low = middle + 1
        else:
            high = middle
    return low


cdef Entry *entry_of(Log log, const Contents *contents, uint32_t place) except NULL:
    cdef const char *subject = contents.text + contents.subjects[place]
    cdef uint16_t length
    memcpy(&length, subject, 2)
    return log.index.add(subject + 2, length)


cdef int take_all(Log log, Segment *segment, Contents *contents) except -1:
    """Nothing was removed: the arrays are taken over as they are, and the subjects are added up."""
    cdef uint32_t k
    cdef Entry *entry
    cdef const Summary *summary
    segment.offsets = contents.offsets
    contents.offsets = NULL
    if not contents.dense:
        segment.deltas = contents.deltas
        contents.deltas = NULL
    segment.count = segment.live = contents.count
    segment.capacity = contents.capacity
    segment.live_bytes = contents.record_bytes
    if log.count == 0:
        log.first_seq = contents.base_seq + (segment.deltas[0] if segment.deltas != NULL else 0)
    log.count += contents.count
    log.byte_count += contents.accounted_bytes
    for k in range(contents.subject_count):
        entry = entry_of(log, contents, k)
        summary = &contents.summaries[k]
        if entry.count == 0:
            entry.first = summary.first
        entry.count += summary.count
        entry.last = summary.last
    return 0


cdef int take_some(Log log, Segment *segment, const Contents *contents, uint64_t first_seq, const Ranges *removed,
                   uint32_t r) except -1:
    """One by one. `r` is how far in the removed ranges we are."""
    cdef uint32_t k, length, place
    cdef uint64_t seq
    cdef Entry *entry
    cdef uint32_t *places           # of the segment's subjects in the log's index, plus 1
    cdef bint dead
    places = <uint32_t *> calloc(contents.subject_count + 1, sizeof(uint32_t))
    if places == NULL:
        raise MemoryError
    try:
        for k in range(contents.count):
            seq = contents.base_seq + (contents.deltas[k] if contents.deltas != NULL else k)
            while r < removed.count and removed.items[2 * r + 1] < seq:
                r += 1
            dead = seq < first_seq or r < removed.count and removed.items[2 * r] <= seq
            length = contents.lengths[k] & LENGTH_MASK
            if add_message(segment, seq, 0 if dead else contents.offsets[k], length) < 0:
                raise MemoryError
            if dead:
                continue
            place = contents.subject_places[k]
            if places[place] == 0:
                entry = entry_of(log, contents, place)
                places[place] = <uint32_t> (entry - log.index.entries) + 1
            else:
                entry = &log.index.entries[places[place] - 1]
            if entry.count == 0:
                entry.first = seq
            entry.count += 1
            entry.last = seq
            if log.count == 0:
                log.first_seq = seq
            log.count += 1
            # nats-server's size of a message, from the length of its record: see Store.size_of.
            log.byte_count += length - HEAD_SIZE + 30 + (4 if contents.lengths[k] & HAS_HEADERS else 0)
    finally:
        free(places)
    return 0


cdef int compare(const void *one, const void *other) noexcept nogil:
    cdef uint64_t first = (<const uint64_t *> one)[0], second = (<const uint64_t *> other)[0]
    return (first > second) - (first < second)


cdef void sort_ranges(Ranges *ranges) noexcept:
    """By their beginning, and those that touch made one."""
    cdef uint32_t k, kept = 0
    cdef uint64_t *items = ranges.items
    if ranges.count == 0:
        return
    qsort(items, ranges.count, 2 * sizeof(uint64_t), compare)
    for k in range(1, ranges.count):
        if items[2 * k] <= items[2 * kept + 1] + 1:
            items[2 * kept + 1] = max(items[2 * kept + 1], items[2 * k + 1])
        else:
            kept += 1
            items[2 * kept] = items[2 * k]
            items[2 * kept + 1] = items[2 * k + 1]
    ranges.count = kept + 1
