"""The queries on a log: messages, subjects, counts, times. Nothing here changes what is stored.

The store knows where each message is and reads one at a time; these are the queries that Python makes, through the
methods of Log with the same names, which document them. Queries about a literal subject, or about all messages, are
answered from memory. If a pattern meets the middle of the log, records are read.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.segments.segment cimport Segment, next_place, seq_at
from headrace.engine.store.reports cimport Reports
from headrace.engine.store.resolving cimport resolve_first, resolve_last
from headrace.engine.store.store cimport FOUND, NOTHING, TIRED
from headrace.engine.store.subject_index cimport Entry
from headrace.engine.segments.windows cimport Record

cdef uint64_t UNLIMITED = <uint64_t> -1
cdef uint32_t ALL = <uint32_t> -1    # places of the index
cdef int FEW_NEWER = 16             # messages of a subject to step back over
cdef uint64_t MOST_DAMAGED = 64     # messages to skip when looking for the time of the first one


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
            # A damaged one is assumed to be as old as the next one: it does not expire before that.
            while seq <= store.last_seq and looks and not store.read(store.probe, seq, &record):
                seq = store.next_live(seq + 1)
                looks -= 1
        except OSError:
            return store.segments[store.segment_of(store.first_seq)].first_time    # it is not older than that
        store.first_time_seq = store.first_seq
        store.first_time_value = record.time
    return store.first_time_value


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
    cdef uint64_t latest = 0, looks = UNLIMITED
    if filter.literal:
        last_of_subject(store, filter_subject, <uint32_t> len(filter_subject), &looks, &latest)
        return latest
    return look_for_last(store, filter, 0, 0, UNLIMITED)[0]


cdef bint last_of_subject(Store store, const char *subject, uint32_t length, uint64_t *looks, uint64_t *seq) except -1:
    """The same for a subject without wildcards. False: it takes more than `looks` reads; the next call continues."""
    cdef Entry *entry = store.index.find(subject, length)
    seq[0] = 0
    if entry == NULL:
        return True
    if not resolve_last(store, entry, looks):
        return False
    seq[0] = entry.last
    return True


cdef bint settle(Store store, bytes subject, uint64_t looks) except -1:
    cdef uint64_t seq
    return last_of_subject(store, subject, <uint32_t> len(subject), &looks, &seq)


cdef tuple look_for_last(Store store, Filter filter, uint32_t place, uint64_t latest, uint64_t looks):
    cdef Entry *entry
    cdef uint32_t at = place
    while next_match(store, filter, &place, &at, &looks, &entry):
        # `last` is an upper bound even if it is stale.
        if entry.last > latest:
            if not resolve_last(store, entry, &looks):
                return latest, at
            latest = max(latest, entry.last)
    return latest, place


cdef tuple subject_state(Store store, bytes subject):
    cdef uint64_t looks = UNLIMITED
    cdef Entry *entry = store.index.find(subject, <uint32_t> len(subject))
    if entry == NULL:
        return None
    resolve_first(store, entry)
    resolve_last(store, entry, &looks)
    return entry.count, entry.first, entry.last


# -- subjects ---------------------------------------------------------------------------------------------------------
#
# The subjects that pass are found at places: with a filter without wildcards, the places of its subjects, which are
# looked up; otherwise those of the index. Each function takes a place to start at and returns the one to continue at,
# which is places() when all is done.

cdef uint32_t places(Store store, Filter filter) noexcept:
    return filter.count if filter.literal else store.index.used


cdef bint next_match(Store store, Filter filter, uint32_t *place, uint32_t *at, uint64_t *looks, Entry **entry) noexcept:
    """The first subject that passes from `place` on: `at` is its place, `place` the next. False: none, or TIRED."""
    cdef uint32_t end = places(store, filter)
    while place[0] < end and looks[0]:
        at[0] = place[0]
        place[0] += 1
        looks[0] -= 1
        if filter.literal:
            entry[0] = store.index.find(filter.compiled[at[0]].text, filter.compiled[at[0]].length)
            if entry[0] != NULL:
                return True
            continue
        entry[0] = &store.index.entries[at[0]]
        if entry[0].count and filter.accepts(entry[0].text, entry[0].length):
            looks[0] -= min(looks[0], <uint64_t> filter.effort)
            return True
        looks[0] -= min(looks[0], <uint64_t> filter.effort)
    return False


cdef dict subjects(Store store, Filter filter):
    cdef dict found = {}
    cdef uint32_t place = 0, at = 0
    cdef uint64_t looks = UNLIMITED
    cdef Entry *entry
    while next_match(store, filter, &place, &at, &looks, &entry):
        resolve_first(store, entry)
        resolve_last(store, entry, &looks)
        found[<bytes> entry.text[:entry.length]] = (entry.count, entry.first, entry.last)
    return found


cdef dict last_up_to(Store store, Filter filter, uint64_t up_to):
    cdef dict found = {}
    cdef uint64_t seq
    up_to = min(up_to, store.last_seq)
    seq = first_up_to(store, found, filter, up_to, 0, UNLIMITED)[0]
    while seq <= up_to:
        seq = note_last(store, found, filter, seq, up_to, UNLIMITED)
    return found


cdef tuple first_up_to(Store store, dict found, Filter filter, uint64_t up_to, uint32_t place, uint64_t looks):
    cdef uint64_t seq = up_to + 1, last
    cdef uint32_t at = place
    cdef Entry *entry
    while next_match(store, filter, &place, &at, &looks, &entry):
        if not resolve_last(store, entry, &looks):
            return seq, at
        last = step_back(store, entry, up_to)
        if last:
            found[<bytes> entry.text[:entry.length]] = last
        elif entry.first <= up_to:
            seq = min(seq, entry.first)    # which may be too low: then a few more are read
    return seq, place


cdef uint64_t step_back(Store store, const Entry *entry, uint64_t up_to) except? 0:
    """The last message of a subject that is not above a sequence, if few follow it; 0: it has to be searched for."""
    cdef Record record
    cdef uint64_t at = entry.last
    cdef int k
    for k in range(FEW_NEWER):
        if at <= up_to:
            return at
        if not store.read(store.probe, at, &record) or record.previous == 0 or not store.is_live(record.previous):
            return 0
        at = record.previous
    return 0


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


cdef tuple last_sequences(Store store, Filter filter, uint64_t up_to, uint32_t place, uint64_t looks):
    cdef list found = []
    cdef uint32_t at = place
    cdef Entry *entry
    while next_match(store, filter, &place, &at, &looks, &entry):
        if not resolve_last(store, entry, &looks):
            return found, at
        if entry.last <= up_to:
            found.append(entry.last)
    return found, place


cdef dict count_subjects(Store store, Filter filter, uint32_t start, uint32_t most):
    cdef dict found = {}
    cdef uint32_t end = <uint32_t> min(<uint64_t> start + most, <uint64_t> ALL)
    cdef Entry *entry
    while start < min(end, store.index.used):
        entry = &store.index.entries[start]
        if entry.count and filter.accepts(entry.text, entry.length):
            found[<bytes> entry.text[:entry.length]] = entry.count
        start += 1
    return found


cdef uint64_t seek_time(Store store, int64_t time) except? 0:
    cdef Record record
    cdef Segment *segment
    cdef uint32_t k = store.segment_count
    cdef uint64_t low, high, middle, at, found
    # The last segment that begins before that time: the answer is in it, or right after it.
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


cdef str check_reading(Store store, bint opened):
    cdef Record record
    cdef Reports reports = store.reports
    if reports.read_failure is not None and opened:
        if not store.is_live(reports.unread_seq):
            reports.read_failure = None
        else:
            try:
                store.read(store.probe, reports.unread_seq, &record)
            except (OSError, MemoryError):
                pass               # read_failure says so
    return reports.read_failure
