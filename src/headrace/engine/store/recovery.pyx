"""Opening a log: replay of what its segments say.

1. Temporary files are left-overs of an unfinished rewrite or index: removed.
2. The contents of each segment come from its index file, or, if that is missing, stale or damaged, from a scan.
3. What was removed is the union of all REMOVED records, and everything below the highest FIRST.
4. Messages that are left get their place in memory and in the index of subjects. Where nothing was removed from a
   segment since its index was written, the index has both ready.

Damage is reported, never hidden and never fatal: a torn tail of the last segment is cut off, unreadable places elsewhere
are skipped, a file without a readable head is set aside under another name. Nothing that was readable is lost. Whatever
was not may be readable at the next start (the disk returned wrong bytes): its file stays, and the log still begins there.

A read_only store (snapshot.pyx) is filled in the same way, but nothing in the directory changes: what would be
removed, cut or renamed is skipped.
"""

from libc.errno cimport errno
from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort
from libc.string cimport memcpy, memset
from posix.fcntl cimport O_CLOEXEC, O_RDONLY, O_RDWR, open
from posix.unistd cimport close

from headrace.engine.segments.contents cimport HAS_HEADERS, LENGTH_MASK, Contents, Summary, free_contents, scan
from headrace.engine.segments.files cimport PATH_SIZE, file_size, read_all, segment_path, sync_data, truncate_file
from headrace.engine.segments.index_file cimport load_places, read_index
from headrace.engine.segments.packing cimport read_packing
from headrace.engine.segments.record cimport accounted_size
from headrace.engine.segments.segment cimport (
    SEGMENT_HEAD, Ranges, Segment, SegmentHead, add_message, add_range, clear_ranges, free_segment, new_segment,
    read_segment_head,
)
from headrace.engine.store.removing cimport first_kept
from headrace.engine.store.subject_index cimport Entry, count_message

import io
import os
import re

SEGMENT_NAME = re.compile(r"(\d{12,20})\.log")


cdef list recover(Store store):
    """Fill an empty store from its directory. Returns one line per damage; raises OSError if it cannot be read."""
    cdef list reports = []
    cdef list numbers = list_numbers(store)
    cdef Contents *contents = NULL
    cdef uint32_t k, count
    while store.read_only and numbers != (again := list_numbers(store)):
        numbers = again            # a file that is replaced while its directory is listed may be missing (btrfs, tmpfs)
    # A server may be at work in a directory that is only read. It drops the removal of a message after the message
    # itself, which is in an older segment: reading the newest first never shows the message without its removal.
    if store.read_only:
        numbers.reverse()
    count = <uint32_t> len(numbers)
    contents = <Contents *> malloc((count + 1) * sizeof(Contents))
    if contents == NULL:
        raise MemoryError
    k = 0
    latest = max(numbers, default=0)
    try:
        for number in numbers:
            store.next_number = max(store.next_number, <uint64_t> number + 1)
            if open_segment(store, number, number == latest, &contents[k], reports):
                k += 1
        if store.read_only:
            turn_around(store, contents)
        replay(store, contents)
    finally:
        while k:
            k -= 1
            free_contents(&contents[k])
        free(contents)
    return reports


cdef list list_numbers(Store store):
    """The numbers of the segments, in order. Left-overs from a rewrite or an index are removed."""
    cdef list numbers = []
    for name in os.listdir(store.directory):
        if name.endswith(".tmp") and name[:12].isdigit():
            if not store.read_only:
                os.unlink(os.path.join(store.directory, name))
        elif (match := SEGMENT_NAME.fullmatch(name)) is not None:
            numbers.append(int(match[1]))
    numbers.sort()
    return numbers


cdef void turn_around(Store store, Contents *contents) noexcept:
    """They were read newest first: put them in order."""
    cdef uint32_t k, other
    for k in range(store.segment_count // 2):
        other = store.segment_count - 1 - k
        store.segments[k], store.segments[other] = store.segments[other], store.segments[k]
        contents[k], contents[other] = contents[other], contents[k]


cdef bint open_segment(Store store, uint64_t number, bint latest, Contents *contents, list reports) except -1:
    """Read one file and add it to the store. False: there is nothing in it."""
    cdef Segment *segment = new_segment(number, 0)
    cdef SegmentHead head
    cdef str path = segment_name(store, number)
    cdef bint added = False
    if segment == NULL:
        raise MemoryError
    memset(contents, 0, sizeof(Contents))
    try:
        if not open_file(store, segment, path, &head, reports):
            return False
        latest = latest and segment.packing == NULL    # nothing can be appended to a compressed one
        segment.sealed = not latest
        segment.limit = store.segment_bytes
        find_contents(store, segment, path, &head, contents)
        # What it held is not known, so chores leave it alone: see is_incomplete().
        segment.damaged = segment.given_up = contents.damages != 0 or contents.torn and not latest
        report_damage(store, segment, path, contents, reports)
        if latest:
            truncate_tail(store, segment, path)
        else:
            close(segment.fd)
            segment.fd = -1
        store.append_segment(segment)
        added = True
    finally:
        if not added:
            free_segment(segment)
            free_contents(contents)
    if latest:
        store.active = segment
    return True


cdef str segment_name(Store store, uint64_t number):
    cdef char path[PATH_SIZE]
    segment_path(path, store.path, number, b"log")
    return os.fsdecode(<bytes> path)


cdef bint open_file(Store store, Segment *segment, str path, SegmentHead *head, list reports) except -1:
    """Open a file and read its head, and its table of blocks if it is compressed. False: it is no longer a segment."""
    cdef char text[SEGMENT_HEAD]
    cdef bytes name = os.fsencode(path)
    cdef size_t got = 0
    cdef int error
    segment.fd = open(name, (O_RDONLY if store.read_only else O_RDWR) | O_CLOEXEC)
    if segment.fd < 0:
        raise OSError(errno, f"cannot open {path}: {os.strerror(errno)}")
    error = file_size(segment.fd, &segment.allocated)
    if not error:
        error = read_all(segment.fd, text, SEGMENT_HEAD, 0, &got)
    if error:
        raise OSError(error, f"cannot read {path}: {os.strerror(error)}")
    if got < SEGMENT_HEAD or not read_segment_head(text, head) or head.number != segment.number:
        set_aside(store, path, reports)
        return False
    segment.base_seq = head.base_seq
    segment.salt = head.salt
    if head.plain_size == 0:
        return True
    error = read_packing(segment.fd, head, segment.allocated, &segment.packing)
    if error:
        raise OSError(error, f"cannot read {path}: {os.strerror(error)}")
    if segment.packing == NULL:
        put_aside(store, path, "its table of blocks is damaged in both copies", reports)
        return False
    segment.allocated = segment.packing.plain_size
    return True


cdef int find_contents(Store store, Segment *segment, str path, const SegmentHead *head, Contents *contents) except -1:
    """What the segment holds, from its index or from a scan."""
    cdef int error
    segment.indexed = read_index(store.path, segment.number, head.base_seq, head.salt, segment.allocated, contents)
    if not segment.indexed:
        with nogil:
            error = scan(segment.fd, segment.packing, head.base_seq, head.salt, contents)
        if error:
            raise OSError(error, f"cannot read {path}: {os.strerror(error)}")
    segment.first_time = contents.first_time
    segment.size = segment.written = contents.end
    contents.first_seq = max(contents.first_seq, head.first_seq)
    contents.next_seq = max(contents.next_seq, head.base_seq)
    contents.last_time = max(contents.last_time, head.last_time)
    return 0


cdef int report_damage(Store store, const Segment *segment, str path, const Contents *contents, list reports) except -1:
    if contents.damages:
        reports.append(f"{path}: {contents.damaged_bytes} bytes at {contents.damages} places are "
                       f"damaged, the first at byte {contents.damaged_at}: what they held is lost, the rest is kept")
    if contents.torn and segment.sealed:
        reports.append(f"{path}: the last {segment.allocated - contents.end} bytes are damaged: "
                       "what they held is lost, the rest is kept")
    elif contents.torn and not store.read_only:
        reports.append(f"{path}: cut back to byte {contents.end}: the last write was torn")
    return 0


cdef int truncate_tail(Store store, Segment *segment, str path) except -1:
    """Anything after the last good record must not come back between later ones."""
    cdef int error
    if segment.size == segment.allocated or store.read_only:
        return 0
    error = truncate_file(segment.fd, segment.size)
    if not error:
        error = sync_data(segment.fd)
    if error:
        raise OSError(error, f"cannot cut {path}: {os.strerror(error)}")
    segment.allocated = segment.size
    return 0


cdef int set_aside(Store store, str path, list reports) except -1:
    """Rename a file whose head is unreadable; one that was never written is removed."""
    if not is_blank(path):
        put_aside(store, path, "its head is damaged in both copies", reports)
    elif not store.read_only:
        os.unlink(path)
    return 0


cdef int put_aside(Store store, str path, str reason, list reports) except -1:
    if store.read_only:
        reports.append(f"{path}: {reason}")
        return 0
    os.replace(path, path + ".damaged")
    reports.append(f"{path}: {reason}; the file was renamed to end in .damaged")
    return 0


cdef bint is_blank(str path) except -1:
    with io.open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            if chunk.count(0) != len(chunk):
                return False
    return True


cdef int delete_files(str directory) except -1:
    """Delete the files of a log, and the directory if it is then empty."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return 0
    for name in names:
        if name.endswith((".log", ".idx", ".tmp", ".damaged")) and name[:12].isdigit():
            os.unlink(os.path.join(directory, name))
    if len(os.listdir(directory)) == 0:
        os.rmdir(directory)
    return 0


# -- replay -------------------------------------------------------------------------------------------------------------

cdef int replay(Store store, Contents *contents) except -1:
    cdef Ranges removed
    cdef uint64_t first_seq = 0, next_seq = 0
    cdef uint32_t k, r
    removed.items = NULL
    removed.count = removed.capacity = 0
    try:
        for k in range(store.segment_count):
            first_seq = max(first_seq, contents[k].first_seq)
            next_seq = max(next_seq, contents[k].next_seq)
            store.last_time = max(store.last_time, contents[k].last_time)
            for r in range(contents[k].removals.count):
                if add_range(&removed, contents[k].removals.items[2 * r],
                             contents[k].removals.items[2 * r + 1]) < 0:
                    raise MemoryError
        sort_ranges(&removed)
        store.last_seq = next_seq - 1 if next_seq else 0
        store.first_seq = 0
        for k in range(store.segment_count):
            if not load_contents(store, store.segments[k], &contents[k], first_seq, &removed):
                # The index contradicts itself: read the segment.
                rescan(store, store.segments[k], &contents[k])
                load_contents(store, store.segments[k], &contents[k], first_seq, &removed)
            # The removals stay with the segment, for the day when it is rewritten.
            store.segments[k].removals = contents[k].removals
            contents[k].removals.items = NULL
            contents[k].removals.count = contents[k].removals.capacity = 0
    finally:
        clear_ranges(&removed)
    if store.count == 0 and (store.last_seq or first_seq):
        store.first_seq = max(first_seq, store.last_seq + 1)
        store.last_seq = store.first_seq - 1
    # What is unreadable at the beginning was not removed: the next commit must not say that it was.
    store.first_seq = min(store.first_seq, first_kept(store, max(first_seq, 1)))
    store.committed_seq = store.last_seq
    store.logged_first = first_seq
    store.chores_due = True
    return 0


cdef int rescan(Store store, Segment *segment, Contents *contents) except -1:
    cdef Ranges removals = contents.removals
    cdef int error
    contents.removals.items = NULL
    free_contents(contents)
    segment.indexed = False
    if segment.fd < 0:
        store.open_file(segment)
    with nogil:
        error = scan(segment.fd, segment.packing, segment.base_seq, segment.salt, contents)
    clear_ranges(&contents.removals)
    contents.removals = removals
    if error:
        raise OSError(error, f"cannot read segment {segment.number}: {os.strerror(error)}")
    return 0


cdef bint load_contents(Store store, Segment *segment, Contents *contents, uint64_t first_seq,
                        const Ranges *removed) except -1:
    """Give the messages that are left their places in memory. False: the arrays of the index cannot be used."""
    cdef uint32_t r = first_range(removed, contents.base_seq)
    cdef bint whole = contents.base_seq >= first_seq \
        and (r == removed.count or removed.items[2 * r] >= contents.next_seq)
    cdef const char *path = store.path
    cdef bint good
    if contents.next_seq <= first_seq or contents.count == 0:
        return True                # all dead: the FIRST record says so, nobody needs their places
    if contents.next_seq <= store.wanted_first or contents.base_seq > store.wanted_last:
        return True
    if contents.indexed:
        with nogil:
            good = load_places(path, segment.number, contents, not whole)
        if not good:
            return False
    if whole:
        load_all(store, segment, contents)
    else:
        load_survivors(store, segment, contents, first_seq, removed, r)
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


cdef Entry *entry_of(Store store, const Contents *contents, uint32_t place) except NULL:
    cdef const char *subject = contents.text + contents.subjects[place]
    cdef uint16_t length
    memcpy(&length, subject, 2)
    return store.index.add(subject + 2, length)


cdef int load_all(Store store, Segment *segment, Contents *contents) except -1:
    """Nothing was removed: the arrays are adopted as they are, and the subjects are added up."""
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
    if store.count == 0:
        store.first_seq = contents.base_seq + (segment.deltas[0] if segment.deltas != NULL else 0)
    store.count += contents.count
    store.byte_count += contents.accounted_bytes
    for k in range(contents.subject_count):
        entry = entry_of(store, contents, k)
        summary = &contents.summaries[k]
        if entry.count == 0:
            entry.first = summary.first
        entry.count += summary.count
        entry.last = summary.last
    return 0


cdef int load_survivors(Store store, Segment *segment, const Contents *contents, uint64_t first_seq, const Ranges *removed,
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
                entry = entry_of(store, contents, place)
                places[place] = <uint32_t> (entry - store.index.entries) + 1
            else:
                entry = &store.index.entries[places[place] - 1]
            count_message(entry, seq)
            if store.count == 0:
                store.first_seq = seq
            store.count += 1
            store.byte_count += accounted_size(length, contents.lengths[k] & HAS_HEADERS != 0)
    finally:
        free(places)
    return 0


cdef int compare(const void *one, const void *other) noexcept nogil:
    cdef uint64_t first = (<const uint64_t *> one)[0], second = (<const uint64_t *> other)[0]
    return (first > second) - (first < second)


cdef void sort_ranges(Ranges *ranges) noexcept:
    """Sort ranges by their beginning, and join those that touch."""
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
