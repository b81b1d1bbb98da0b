"""What can be asked of a log: messages, subjects, counts, times. Nothing here changes what is stored.

The store knows where each message is and reads one at a time; these are the questions that Python asks of it, through the
methods of Log with the same names, which document them. Questions about a literal subject, or about all messages, are
answered from memory. Where a pattern meets the middle of the log, records are read.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.segments.segment cimport Segment, next_place, seq_at
from headrace.engine.store.store cimport FOUND, NOTHING, TIRED
from headrace.engine.store.subject_index cimport Entry
from headrace.engine.segments.windows cimport Record

cdef uint64_t UNLIMITED = <uint64_t> -1
cdef uint32_t ALL = <uint32_t> -1    # places of the index
cdef uint64_t MOST_DAMAGED = 64     # messages to pass over for the time of the first one


cdef class Stored:
    """One message, copied out of the log."""

    def __repr__(self):
        return f"<Stored {self.seq} {self.subject!r}, {len(self.payload)} bytes>"


cdef Stored copy_of(const Record *record):
    cdef Stored stored = Stored.__new__(Stored)
    stored.seq = record.seq
    stored.time = record.time
    stored.subject = record.subject[:record.subject_length]
    stored.headers = record.headers[:record.header_length]
    stored.payload = record.payload[:record.payload_length]
    return stored


# -- figures ----------------------------------------------------------------------------------------------------------

cdef int64_t first_time(Store store) except? -1:
    cdef Record record
    cdef uint64_t seq = store.first_seq, looks = MOST_DAMAGED
    if store.count == 0:
        return 0
    if store.first_time_seq != store.first_seq:
        record.time = store.last_time
        try:
            # A damaged one is taken to be as old as the one behind it: it does not expire before that.
            while seq <= store.last_seq and looks and not store.read(store.probe, seq, &record):
                seq = store.next_live(seq + 1)
                looks -= 1
        except OSError:
            return store.segments[store.segment_of(store.first_seq)].first_time    # it is not older than that
        store.first_time_seq = store.first_seq
        store.first_time_value = record.time
    return store.first_time_value


# -- watchers ---------------------------------------------------------------------------------------------------------

cdef int add_watcher(Store store, Watcher watcher) except -1:
    if watcher.filter is None:
        watcher.filter = Filter(())
    try:
        watcher.num_pending = count_from(store, watcher.next_seq, watcher.filter)
    except OSError:
        # It cannot be read at present. Too many for now: whoever comes to the end finds out.
        watcher.num_pending = store.count_live(max(watcher.next_seq, store.first_seq), store.committed_seq)
    watcher.uncounted = watcher.uncounted_end = 0
    store.watchers.append(watcher)
    return 0


cdef int begin_to_watch(Store store, Watcher watcher) except -1:
    if not must_read(store, watcher.next_seq, watcher.filter):
        return add_watcher(store, watcher)
    watcher.num_pending = 0
    watcher.uncounted = watcher.next_seq
    watcher.uncounted_end = store.committed_seq + 1
    store.watchers.append(watcher)
    return 0


cdef bint count_ahead(Store store, Watcher watcher, uint64_t looks) except -1:
    cdef Record record
    cdef int outcome
    while watcher.uncounted < watcher.uncounted_end:
        outcome = store.search(store.reader, &watcher.uncounted, watcher.filter, &looks, &record)
        if outcome == TIRED:
            return False
        if outcome == NOTHING or record.seq >= watcher.uncounted_end:
            break
        watcher.num_pending += 1
        watcher.uncounted = record.seq + 1
    watcher.uncounted = watcher.uncounted_end = 0
    return True


cdef bint must_read(Store store, uint64_t seq, Filter filter) except -1:
    """Whether a subject that passes may have messages on both sides of a sequence: the index counts only all.

    With a pattern some subject nearly always has, and looking at all of them would take longer than to begin.
    """
    cdef Entry *entry
    if filter is None or filter.everything or seq <= store.first_seq:
        return False
    if not filter.literal:
        return True
    for subject in filter.patterns:
        entry = store.index.find(subject, <uint32_t> len(<bytes> subject))
        if entry != NULL and entry.first < seq <= entry.last:
            return True
    return False


cdef int remove_watcher(Store store, Watcher watcher) except -1:
    cdef Py_ssize_t k
    for k in range(len(store.watchers)):
        if store.watchers[k] is watcher:
            del store.watchers[k]
            break
    return 0


# -- reading ----------------------------------------------------------------------------------------------------------

cdef Stored get(Store store, uint64_t seq):
    cdef Record record
    return copy_of(&record) if store.read(store.probe, seq, &record) else None


cdef Stored next(Store store, uint64_t seq, Filter filter):
    cdef Record record
    return copy_of(&record) if store.seek(store.reader, seq, filter, &record) else None


cdef tuple look_for(Store store, uint64_t seq, Filter filter, uint64_t looks):
    cdef Record record
    cdef int outcome = store.search(store.reader, &seq, filter, &looks, &record)
    return copy_of(&record) if outcome == FOUND else None, seq if outcome == TIRED else 0


cdef uint64_t last(Store store, bytes filter_subject) except? 0:
    cdef Filter filter = Filter((filter_subject,))
    cdef Entry *entry
    cdef uint32_t k
    cdef uint64_t latest = 0
    if filter.literal:
        return last_of_subject(store, filter_subject, <uint32_t> len(filter_subject))
    for k in range(store.index.used):
        entry = &store.index.entries[k]
        # `last` is an upper bound even where it is stale.
        if entry.count and entry.last > latest and filter.accepts(entry.text, entry.length):
            store.resolve_last(entry)
            latest = max(latest, entry.last)
    return latest


cdef uint64_t last_of_subject(Store store, const char *subject, uint32_t length) except? 0:
    """The same for a subject without wildcards."""
    cdef Entry *entry = store.index.find(subject, length)
    if entry == NULL:
        return 0
    store.resolve_last(entry)
    return entry.last


cdef tuple subject_state(Store store, bytes subject):
    cdef Entry *entry = store.index.find(subject, <uint32_t> len(subject))
    if entry == NULL:
        return None
    store.resolve_first(entry)
    store.resolve_last(entry)
    return entry.count, entry.first, entry.last


cdef Entry *next_match(Store store, Filter filter, uint32_t *k, uint32_t end) noexcept:
    """The first subject that passes at the places of the index from `k` up to `end`, and `k` behind it; NULL: none."""
    cdef Entry *entry
    end = min(end, store.index.used)
    while k[0] < end:
        entry = &store.index.entries[k[0]]
        k[0] += 1
        if entry.count and filter.accepts(entry.text, entry.length):
            return entry
    return NULL


cdef dict subjects(Store store, Filter filter):
    cdef dict found = {}
    cdef uint32_t k = 0
    cdef Entry *entry = next_match(store, filter, &k, ALL)
    while entry != NULL:
        store.resolve_first(entry)
        store.resolve_last(entry)
        found[<bytes> entry.text[:entry.length]] = (entry.count, entry.first, entry.last)
        entry = next_match(store, filter, &k, ALL)
    return found


cdef dict last_up_to(Store store, Filter filter, uint64_t up_to):
    cdef dict found = {}
    cdef uint64_t seq
    up_to = min(up_to, store.last_seq)
    seq = first_up_to(store, found, filter, up_to)
    while seq <= up_to:
        seq = note_last(store, found, filter, seq, up_to, UNLIMITED)
    return found


cdef uint64_t first_up_to(Store store, dict found, Filter filter, uint64_t up_to) except? 0:
    cdef uint64_t seq = up_to + 1
    cdef uint32_t k = 0
    cdef Entry *entry = next_match(store, filter, &k, ALL)
    while entry != NULL:
        store.resolve_last(entry)
        if entry.last <= up_to:
            found[<bytes> entry.text[:entry.length]] = entry.last
        elif entry.first <= up_to:
            seq = min(seq, entry.first)    # which may be too low: a few more are read
        entry = next_match(store, filter, &k, ALL)
    return seq


cdef uint64_t note_last(Store store, dict found, Filter filter, uint64_t seq, uint64_t up_to,
                        uint64_t looks) except? 0:
    cdef Record record
    cdef int outcome
    while seq <= up_to:
        outcome = store.search(store.reader, &seq, filter, &looks, &record)
        if outcome == TIRED:
            return seq
        if outcome == NOTHING or record.seq > up_to:
            break
        found[<bytes> record.subject[:record.subject_length]] = record.seq
        seq = record.seq + 1
    return up_to + 1


cdef list last_sequences(Store store, Filter filter):
    cdef list found = []
    cdef uint32_t k = 0
    cdef Entry *entry = next_match(store, filter, &k, ALL)
    while entry != NULL:
        store.resolve_last(entry)
        found.append(entry.last)
        entry = next_match(store, filter, &k, ALL)
    return found


cdef dict count_subjects(Store store, Filter filter, uint32_t start, uint32_t most):
    cdef dict found = {}
    cdef uint32_t end = <uint32_t> min(<uint64_t> start + most, <uint64_t> ALL)
    cdef Entry *entry = next_match(store, filter, &start, end)
    while entry != NULL:
        found[<bytes> entry.text[:entry.length]] = entry.count
        entry = next_match(store, filter, &start, end)
    return found


cdef uint64_t seek_time(Store store, int64_t time) except? 0:
    cdef Record record
    cdef Segment *segment
    cdef uint32_t k = store.segment_count
    cdef uint64_t low, high, middle, at, found
    # The last segment that begins before that time: the answer is in it, or right behind it.
    while k and (store.segments[k - 1].first_time == 0 or store.segments[k - 1].first_time >= time):
        k -= 1
    if k == 0:
        return store.next_live(store.first_seq)
    segment = store.segments[k - 1]
    low = 0
    high = segment.count
    found = segment.count
    while low < high:
        middle = (low + high) // 2
        at = middle
        while at < high and (segment.offsets[at] == 0
                             or not store.load(store.probe, segment, <uint32_t> at, &record)):
            at += 1
        if at == high:
            high = middle
        elif record.time >= time:
            found = at
            high = middle
        else:
            low = at + 1
    if found < segment.count:
        return seq_at(segment, found)
    return store.next_live(store.segments[k].base_seq if k < store.segment_count else store.last_seq + 1)


cdef long long count_from(Store store, uint64_t seq, Filter filter) except -1:
    cdef Entry *entry
    cdef uint32_t k
    cdef long long total = 0, reads = 0
    if seq < store.first_seq:
        seq = store.first_seq
    if store.count == 0 or seq > store.committed_seq:
        return 0
    if filter.everything:
        return store.count_live(seq, store.committed_seq)
    # The index knows how many there are in all. Those before `seq`, or those behind it, have to be read and counted,
    # whichever are fewer, and only where a subject lies on both sides.
    if filter.literal:
        for subject in set(filter.patterns):
            entry = store.index.find(subject, <uint32_t> len(<bytes> subject))
            if entry != NULL and entry.last >= seq:
                total += entry.count
                reads |= entry.first < seq
    else:
        for k in range(store.index.used):
            entry = &store.index.entries[k]
            if entry.count and entry.last >= seq and filter.accepts(entry.text, entry.length):
                total += entry.count
                reads |= entry.first < seq
    if total == 0:
        return 0
    if not reads:
        return total - store.count_matching(store.committed_seq + 1, store.last_seq, filter)
    if seq - store.first_seq < store.committed_seq - seq:
        for k in range(store.index.used):
            entry = &store.index.entries[k]
            if entry.count and entry.last < seq and filter.accepts(entry.text, entry.length):
                total += entry.count
        return total - store.count_matching(store.first_seq, seq - 1, filter) \
            - store.count_matching(store.committed_seq + 1, store.last_seq, filter)
    return store.count_matching(seq, store.committed_seq, filter)


cdef list deleted(Store store, uint64_t seq, uint64_t most):
    cdef list missing = []
    cdef uint64_t place, at, end = store.last_seq + 1
    cdef uint32_t k
    cdef Segment *segment
    if seq < store.first_seq:
        seq = store.first_seq
    if store.count == 0 or store.segment_count == 0 or seq >= end:
        return missing
    if end - seq > most:
        end = seq + most
    for k in range(store.segment_of(seq), store.segment_count):
        segment = store.segments[k]
        if segment.base_seq >= end:
            break
        place = next_place(segment, seq) if segment.live else segment.count
        while place < segment.count:
            if segment.offsets[place]:
                at = seq_at(segment, place)
                if at >= end:
                    break
                if at > seq:
                    missing.extend(range(seq, at))
                seq = at + 1
            place += 1
    missing.extend(range(seq, end))
    return missing


cdef uint64_t seq_from_end(Store store, uint64_t messages) noexcept:
    cdef uint32_t k = store.segment_count
    cdef uint64_t place
    cdef Segment *segment
    if messages >= store.count:
        return store.first_seq
    if messages == 0:
        return store.last_seq + 1
    while k:
        k -= 1
        segment = store.segments[k]
        if segment.live < messages:
            messages -= segment.live
            continue
        place = segment.count
        while messages:
            place -= 1
            messages -= segment.offsets[place] != 0
        return seq_at(segment, place)
    return store.first_seq
