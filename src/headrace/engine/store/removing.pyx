"""Removing messages: one, and many: below a sequence, of some subjects, beyond an age.

To remove a message, its record is read once more: the index needs its subject, the accounting its size. At the head this
happens in sequence, through a window that reads ahead. Each removal is noted for the next group: at the head by first_seq,
elsewhere in groups.removed. Until that group is on disk, no file changes.

A large stream has more messages than the loop's thread may read in one call, so each function for many messages does a
part and returns where to continue. Between two parts others append, read and remove: nothing is remembered but a
sequence, and each part looks at what is there by then. A crash between two parts leaves a log that has lost the first
part and not the second. If little is left after the head, it is cheaper to drop the whole index and to read what is
left. So removing everything below a sequence costs as many reads as there are messages on the smaller side.

If a record cannot be read (OSError), the removal ends there, and may be called again: what was removed until then is
removed and accounted for, and nothing else has changed. A damaged record can be removed: see remove_damaged().

A segment that was found damaged when the log was opened may hold messages that nobody knows: records that are
unreadable today. They are kept in case they can be read again. So first_seq, below which everything is removed for
good, does not pass them on its own when the last message before them goes: that takes a purge, a limit or an age.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from headrace.engine.segments.record cimport HEAD_SIZE, accounted_size
from headrace.engine.segments.segment cimport (
    Segment, add_range, clear_ranges, make_room_for_range, next_place, seq_at,
)
from headrace.engine.basics.audiences cimport Audience
from headrace.engine.store.store cimport FOUND, TIRED, Watcher
from headrace.engine.store.subject_index cimport Entry, SubjectIndex, count_message
from headrace.engine.segments.windows cimport Record, record_length


# -- what nobody knows --------------------------------------------------------------------------------------------------

cdef bint is_incomplete(const Segment *segment) noexcept:
    """Whether it may hold messages that have no place in memory (recovery sets both)."""
    return segment.damaged and segment.given_up


cdef bint is_kept(Store store, uint32_t k) noexcept:
    """Whether a dead segment must stay: a chore on it failed, or it may hold messages that nobody has removed."""
    cdef uint64_t end = store.last_seq + 1
    if k + 1 < store.segment_count:
        end = store.segments[k + 1].base_seq
    if is_incomplete(store.segments[k]):
        return end > store.logged_first
    return store.segments[k].given_up


cdef uint64_t first_kept(Store store, uint64_t seq) noexcept:
    """The first sequence from `seq` on that is a message or may become one again; last_seq + 1 if there is none."""
    cdef uint64_t live = store.next_live(seq)
    cdef uint32_t k
    if store.segment_count == 0:
        return live
    for k in range(store.segment_of(seq), store.segment_count):
        if store.segments[k].base_seq >= live:
            break
        if is_incomplete(store.segments[k]):
            return min(live, max(seq, store.segments[k].base_seq))
    return live


cdef void begin_with(Store store, uint64_t seq) noexcept:
    """Set the next sequence of an empty log, which begins there unless older ones may be readable some day."""
    cdef uint64_t kept = first_kept(store, store.first_seq)
    store.first_seq = seq if kept > store.last_seq else kept


# -- one ----------------------------------------------------------------------------------------------------------------

cdef bint remove_message(Store store, Window window, uint64_t seq) except -1:
    """Remove a message from everything in memory, and note it for the next group. False: it is not there.

    Raises OSError if its record cannot be read, MemoryError if it cannot be noted: then nothing has changed.
    """
    cdef Record record
    cdef uint32_t place
    cdef Segment *segment = store.locate(seq, &place)
    if segment == NULL:
        return False
    # A removal that is not noted would not be written, and the message would come back.
    if not store.in_memory and make_room_for_range(&store.groups.removed) < 0:
        raise MemoryError
    if store.load(window, segment, place, &record):
        remove_record(store, segment, place, &record)
    else:
        remove_damaged(store, segment, place)
    return True


cdef int remove_record(Store store, Segment *segment, uint32_t place, Record *record) except -1:
    segment.offsets[place] = 0
    segment.live -= 1
    segment.live_bytes -= record_length(record)
    store.count -= 1
    store.byte_count -= store.size_of(record.subject_length, record.header_length, record.payload_length)
    if segment != store.active and (segment.live == 0 or 2 * segment.live_bytes < segment.size):
        store.chores_due = True
    if record.seq <= store.committed_seq:
        if store.audiences.unfiltered is not None:
            count_removed(store.audiences.unfiltered, record)
        if store.audiences.by_patterns:
            for audience in store.audiences.matching(record.subject, record.subject_length):
                count_removed(audience, record)
    remove_from_subject(store, record)
    note_removal(store, record.seq)
    return 0


cdef int count_removed(Audience audience, const Record *record) except -1:
    cdef Watcher watcher
    for watcher in audience.watchers:
        watcher.num_pending -= watcher.is_pending(record.seq, record.subject, record.subject_length)
    return 0


cdef int remove_damaged(Store store, Segment *segment, uint32_t place) except -1:
    """The same for a record whose subject and length cannot be trusted.

    Its subject keeps it in its count, unless the index says that this is the subject's first or last message. So
    counts of subjects may be too high after this, until the next start, but never too low: nothing readable is hidden.
    """
    cdef uint64_t seq = seq_at(segment, place), length = extent(segment, place), bytes
    cdef Watcher watcher
    cdef Entry *entry = NULL
    cdef Record record
    if store.probe.peek(segment, segment.offsets[place], &record):
        entry = owner_of(store, seq, record.subject, record.subject_length)
        length = min(length, record_length(&record))
    segment.offsets[place] = 0
    segment.live -= 1
    segment.live_bytes = segment.live_bytes - min(segment.live_bytes, length) if segment.live else 0
    store.count -= 1
    bytes = accounted_size(max(length, <uint64_t> HEAD_SIZE), False)
    store.byte_count = store.byte_count - min(store.byte_count, bytes) if store.count else 0
    if segment != store.active and segment.live == 0:
        store.chores_due = True
    for watcher in store.watchers:
        if seq <= store.committed_seq and watcher.num_pending > 0 and watcher.filter.everything:
            watcher.num_pending -= watcher.is_pending(seq, b"", 0)
    if store.count == 0:
        store.index.clear()
    elif entry != NULL:
        record.seq = seq
        record.previous = 0
        remove_from_subject(store, &record)
    note_removal(store, seq)
    return 0


cdef uint64_t extent(const Segment *segment, uint32_t place) noexcept:
    """The maximum size of a record: up to the next live one."""
    cdef uint32_t k
    for k in range(place + 1, segment.count):
        if segment.offsets[k]:
            return segment.offsets[k] - segment.offsets[place]
    return segment.size - segment.offsets[place]


cdef Entry *owner_of(Store store, uint64_t seq, const char *subject, uint32_t length) noexcept:
    """The entry of a subject that a damaged record names, if that is certain; NULL: it is not."""
    cdef Entry *entry = store.index.find(subject, length)
    if entry != NULL and (entry.first == seq and not entry.first_stale or entry.last == seq and not entry.last_stale):
        return entry
    return NULL


cdef void note_removal(Store store, uint64_t seq) noexcept:
    """Note what the next commit has to write about a removed message."""
    if seq == store.first_seq:
        store.first_seq = first_kept(store, seq + 1)
    elif not store.in_memory:
        add_range(&store.groups.removed, seq, seq)


cdef int remove_from_subject(Store store, Record *record) except -1:
    cdef Entry *entry = store.index.find(record.subject, record.subject_length)
    if entry == NULL:
        return 0
    entry.count -= 1
    if entry.count == 0:
        store.index.discard(entry)
        return 0
    if record.seq == entry.first:
        entry.first = record.seq + 1
        entry.first_stale = True
    if record.seq == entry.last:
        if record.previous and store.is_live(record.previous):
            entry.last = record.previous
            entry.last_stale = False
        else:
            # If the predecessor is gone, too, the last one is before that.
            entry.last = record.previous - 1 if record.previous > entry.first else record.seq - 1
            entry.last_stale = True
    if entry.count == 1:
        if not entry.last_stale:
            entry.first = entry.last
            entry.first_stale = False
        elif not entry.first_stale:
            entry.last = entry.first
            entry.last_stale = False
    return 0


cdef int remove_first(Store store) except -1:
    if remove_message(store, store.head_window, store.first_seq):
        return 0
    # There is no message at first_seq if one may be read there some day, or if files contradict each other (two segments
    # for the same sequences). It still has to move, or removing until there is room would never end.
    store.first_seq = store.next_live(store.first_seq + 1)
    if store.first_seq > store.last_seq:
        store.count = store.byte_count = 0
        store.index.clear()
    return 0


# -- many ---------------------------------------------------------------------------------------------------------------

cdef uint64_t remove_matching(Store store, uint64_t *seq, uint64_t last, Filter filter, uint64_t most,
                              uint64_t looks) except? 0:
    """Remove up to `most` messages from `seq` to `last` that pass; how many. `seq`: where to continue, above last: done."""
    cdef Record record
    cdef uint64_t removed = 0
    cdef int outcome
    while seq[0] <= last:
        if removed == most:
            return removed
        outcome = store.search(store.reader, seq, filter, &looks, &record)
        if outcome == TIRED:
            return removed
        if outcome != FOUND:
            break
        if record.seq > last:
            break
        removed += remove_message(store, store.reader, record.seq)
        seq[0] += 1
    seq[0] = last + 1
    return removed


cdef int remove_below(Store store, uint64_t first_seq, uint64_t most) except -1:
    """Remove messages below a sequence (which is not above last_seq), about as many as `most` reads allow."""
    cdef uint64_t left
    if store.first_seq >= first_seq:
        return 0
    if store.count == 0:
        store.first_seq = first_seq        # below it are only those that cannot be read
        return 0
    left = store.count_live(first_seq, store.last_seq)
    if left < most and left < store.count - left and recount_from(store, first_seq):
        return 0
    while store.first_seq < first_seq and store.count and most:
        if not remove_message(store, store.head_window, store.first_seq):
            store.first_seq = min(first_seq, store.next_live(store.first_seq + 1))
        most -= 1
    if store.count == 0:
        store.first_seq = max(store.first_seq, first_seq)
    return 0


cdef bint recount_from(Store store, uint64_t first_seq) except -1:
    """Remove all that is below a sequence without reading it: everything is recounted from what is left.

    What is left is read first: if that fails, nothing has changed. False: some of it is damaged and cannot be counted.
    """
    cdef Watcher watcher
    cdef Record record
    cdef Entry *entry
    cdef SubjectIndex index = SubjectIndex()
    cdef list live_bytes = [0] * store.segment_count
    cdef uint32_t k
    cdef uint64_t byte_count = 0, seq = store.next_live(first_seq)
    for watcher in store.watchers:
        watcher.recounted = 0
    while seq <= store.last_seq:
        if not store.read(store.reader, seq, &record):
            return False
        entry = index.add(record.subject, record.subject_length)
        count_message(entry, seq)
        byte_count += store.size_of(record.subject_length, record.header_length, record.payload_length)
        live_bytes[store.segment_of(seq)] += record_length(&record)
        if seq <= store.committed_seq:
            if store.audiences.unfiltered is not None:
                count_again(store.audiences.unfiltered, seq)
            for audience in store.audiences.matching(record.subject, record.subject_length):
                count_again(audience, seq)
        seq = store.next_live(seq + 1)
    drop_below(store, first_seq, live_bytes)
    store.index = index
    store.byte_count = byte_count
    for watcher in store.watchers:
        watcher.set_counted(watcher.recounted)
    store.chores_due = True
    store.first_seq = first_kept(store, first_seq)
    return True


cdef int count_again(Audience audience, uint64_t seq) except -1:
    cdef Watcher watcher
    for watcher in audience.watchers:
        watcher.recounted += seq >= watcher.next_seq
    return 0


cdef int drop_below(Store store, uint64_t first_seq, list live_bytes) except -1:
    cdef Segment *segment
    cdef uint32_t k
    cdef uint64_t place
    store.count = 0
    for k in range(store.segment_count):
        segment = store.segments[k]
        if segment.live:
            place = next_place(segment, first_seq)
            memset(segment.offsets, 0, place * sizeof(uint32_t))
            segment.live = 0
            segment.live_bytes = live_bytes[k]
            while place < segment.count:
                segment.live += segment.offsets[place] != 0
                place += 1
            store.count += segment.live
    return 0


cdef uint64_t end_of_aged(Store store, int64_t oldest, uint64_t *seq, uint64_t most) except? 0:
    """The sequence after the messages at the head of the log that are not younger than `oldest`, with `most` reads.

    The first younger one ends the search, as in nats-server. A binary search would be quicker, but relies on times
    growing with sequences: if the clock was set back for a while, it would remove younger messages with the older ones.
    A message that cannot be read counts as old only if one after it is. `seq`: where to continue, 0: done.
    """
    cdef Record record
    cdef uint64_t end = store.first_seq
    seq[0] = store.next_live(max(seq[0], store.first_seq))
    while seq[0] <= store.last_seq:
        if most == 0:
            return end
        most -= 1
        if store.read(store.reader, seq[0], &record):
            if record.time > oldest:
                break
            end = seq[0] + 1
        seq[0] = store.next_live(seq[0] + 1)
    seq[0] = 0
    return end


cdef int remove_all(Store store) except -1:
    """Empty the store; last_seq stays."""
    cdef uint32_t k
    cdef Segment *segment
    cdef Watcher watcher
    for k in range(store.segment_count):
        segment = store.segments[k]
        if segment.live:
            memset(segment.offsets, 0, segment.count * sizeof(uint32_t))
            segment.live = 0
            segment.live_bytes = 0
    store.index.clear()
    store.count = store.byte_count = 0
    store.first_seq = store.last_seq + 1
    clear_ranges(&store.groups.removed)
    for watcher in store.watchers:
        watcher.set_counted(0)
    store.chores_due = True
    return 0
