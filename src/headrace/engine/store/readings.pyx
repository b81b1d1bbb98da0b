"""What can be asked of a log: messages, subjects, counts, times. Nothing here changes what is stored.

The store knows where each message is and reads one at a time; this is what Python asks of it. Questions about a literal
subject, or about all messages, are answered from memory. Where a pattern meets the middle of the log, records are read.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.core.filters cimport Filter
from headrace.engine.store.segments cimport Segment, next_place, seq_at
from headrace.engine.store.store cimport FOUND, NOTHING, TIRED, Store, Watcher
from headrace.engine.store.subject_index cimport Entry
from headrace.engine.store.windows cimport Record

cdef uint64_t MOST_DAMAGED = 64     # messages to pass over for the time of the first one


cdef class Stored:
    """One message, copied out of the log."""
    cdef readonly uint64_t seq
    cdef readonly int64_t time
    cdef readonly bytes subject
    cdef readonly bytes headers
    cdef readonly bytes payload

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


cdef class Readings(Store):
    # -- figures --------------------------------------------------------------------------------------------------------

    @property
    def first_time(self):
        """The time of the first message; 0: there is none."""
        cdef Record record
        cdef uint64_t seq = self.first_seq, looks = MOST_DAMAGED
        if self.count == 0:
            return 0
        if self.first_time_seq != self.first_seq:
            record.time = self.last_time
            try:
                # A damaged one is taken to be as old as the one behind it: it does not expire before that.
                while seq <= self.last_seq and looks and not self.read(self.probe, seq, &record):
                    seq = self.next_live(seq + 1)
                    looks -= 1
            except OSError:
                return self.segments[self.segment_place(self.first_seq)].first_time    # it is not older than that
            self.first_time_seq = self.first_seq
            self.first_time_value = record.time
        return self.first_time_value

    @property
    def num_deleted(self):
        """Sequences between the first and the last message that have none."""
        return self.last_seq - self.first_seq + 1 - self.count if self.count else 0

    @property
    def num_subjects(self):
        return self.index.count

    @property
    def segment_files(self):
        """How many pieces the log is cut into at the moment."""
        return self.segment_count

    # -- watchers -------------------------------------------------------------------------------------------------------

    def add_watcher(self, Watcher watcher not None):
        """Count for a reader how many messages it has ahead of it, from now on."""
        if watcher.filter is None:
            watcher.filter = Filter(())
        try:
            watcher.num_pending = self.count_from(watcher.next_seq, watcher.filter)
        except OSError:
            # It cannot be read at present. Too many for now: whoever comes to the end finds out.
            watcher.num_pending = self.count_live(max(watcher.next_seq, self.first_seq), self.committed_seq)
        watcher.uncounted = watcher.uncounted_end = 0
        self.watchers.append(watcher)

    def begin_to_watch(self, Watcher watcher not None):
        """The same, but where records have to be read to count them this is left to count_ahead()."""
        if not self.must_read(watcher.next_seq, watcher.filter):
            return self.add_watcher(watcher)
        watcher.num_pending = 0
        watcher.uncounted = watcher.next_seq
        watcher.uncounted_end = self.committed_seq + 1
        self.watchers.append(watcher)

    def count_ahead(self, Watcher watcher not None, uint64_t looks):
        """Go on counting, reading at most `looks` records. Whether num_pending is complete."""
        cdef Record record
        cdef int outcome
        while watcher.uncounted < watcher.uncounted_end:
            outcome = self.search(self.reader, &watcher.uncounted, watcher.filter, &looks, &record)
            if outcome == TIRED:
                return False
            if outcome == NOTHING or record.seq >= watcher.uncounted_end:
                break
            watcher.num_pending += 1
            watcher.uncounted = record.seq + 1
        watcher.uncounted = watcher.uncounted_end = 0
        return True

    cdef bint must_read(self, uint64_t seq, Filter filter) except -1:
        """Whether a subject that passes may have messages on both sides of a sequence: the index counts only all.

        With a pattern some subject nearly always has, and looking at all of them would take longer than to begin.
        """
        cdef Entry *entry
        if filter is None or filter.everything or seq <= self.first_seq:
            return False
        if not filter.literal:
            return True
        for subject in filter.patterns:
            entry = self.index.find(subject, <uint32_t> len(<bytes> subject))
            if entry != NULL and entry.first < seq <= entry.last:
                return True
        return False

    def remove_watcher(self, Watcher watcher not None):
        for place, known in enumerate(self.watchers):
            if known is watcher:
                del self.watchers[place]
                return

    # -- reading --------------------------------------------------------------------------------------------------------

    def get(self, uint64_t seq):
        """A message, committed or not; None if it is not there."""
        cdef Record record
        return copy_of(&record) if self.read(self.probe, seq, &record) else None

    def has(self, uint64_t seq):
        """Whether there is such a message, committed or not; reads nothing."""
        return self.is_live(seq)

    def next(self, uint64_t seq, Filter filter not None):
        """The first committed message at or after a sequence that passes the filter."""
        cdef Record record
        return copy_of(&record) if self.seek(self.reader, seq, filter, &record) else None

    def look_for(self, uint64_t seq, Filter filter not None, uint64_t looks):
        """The same, reading at most `looks` records: (the message or None, 0 or the sequence from which to go on)."""
        cdef Record record
        cdef int outcome = self.search(self.reader, &seq, filter, &looks, &record)
        return copy_of(&record) if outcome == FOUND else None, seq if outcome == TIRED else 0

    def last(self, bytes filter_subject not None):
        """The last sequence of a subject, or of all that match a pattern; 0: none."""
        cdef Filter filter = Filter((filter_subject,))
        cdef Entry *entry
        cdef uint32_t k
        cdef uint64_t latest = 0
        if filter.literal:
            entry = self.index.find(filter_subject, <uint32_t> len(filter_subject))
            if entry == NULL:
                return 0
            self.resolve_last(entry)
            return entry.last if self.count else 0
        for k in range(self.index.used):
            entry = &self.index.entries[k]
            # `last` is an upper bound even where it is stale.
            if entry.count and entry.last > latest and filter.accepts(entry.text, entry.length):
                self.resolve_last(entry)
                if self.count == 0:
                    return 0           # all that was left is damaged: see lost(), which has emptied the index
                latest = max(latest, entry.last)
        return latest

    def subject_state(self, bytes subject not None):
        """(count, first, last) of a literal subject; None: it has no message."""
        cdef Entry *entry = self.index.find(subject, <uint32_t> len(subject))
        if entry == NULL:
            return None
        self.resolve_first(entry)
        self.resolve_last(entry)
        return (entry.count, entry.first, entry.last) if self.count else None

    def subjects(self, Filter filter not None):
        """Subject -> (count, first, last) of all that pass."""
        cdef dict found = {}
        cdef Entry *entry
        cdef uint32_t k
        for k in range(self.index.used):
            entry = &self.index.entries[k]
            if entry.count and filter.accepts(entry.text, entry.length):
                self.resolve_first(entry)
                self.resolve_last(entry)
                if self.count == 0:
                    return {}          # all that was left is damaged: see lost(), which has emptied the index
                found[<bytes> entry.text[:entry.length]] = (entry.count, entry.first, entry.last)
        return found

    def last_up_to(self, Filter filter not None, uint64_t up_to):
        """Subject -> last sequence, none above `up_to`, of all subjects that pass and have one."""
        cdef dict found = {}
        cdef uint64_t seq
        up_to = min(up_to, self.last_seq)
        seq = self.first_up_to(found, filter, up_to)
        while seq <= up_to:
            seq = self.note_last(found, filter, seq, up_to, <uint64_t> -1)
        return found

    def first_up_to(self, dict found not None, Filter filter not None, uint64_t up_to):
        """The easy part of last_up_to(): note what the index knows. Where note_last() has to begin for the rest.

        `up_to` is at most last_seq, so that there is a sequence behind it.
        """
        cdef Entry *entry
        cdef uint32_t k
        cdef uint64_t seq = up_to + 1
        for k in range(self.index.used):
            entry = &self.index.entries[k]
            if entry.count and filter.accepts(entry.text, entry.length):
                self.resolve_last(entry)
                if self.count == 0:
                    found.clear()          # all that was left is damaged: see lost(), which has emptied the index
                    return up_to + 1
                if entry.last <= up_to:
                    found[<bytes> entry.text[:entry.length]] = entry.last
                elif entry.first <= up_to:
                    seq = min(seq, entry.first)   # which may be too low: a few more are read
        return seq

    def note_last(self, dict found not None, Filter filter not None, uint64_t seq, uint64_t up_to, uint64_t looks):
        """Note those that pass from `seq` on, reading at most `looks` records. Where to go on; above `up_to`: done."""
        cdef Record record
        cdef int outcome
        while seq <= up_to:
            outcome = self.search(self.reader, &seq, filter, &looks, &record)
            if outcome == TIRED:
                return seq
            if outcome == NOTHING or record.seq > up_to:
                break
            found[<bytes> record.subject[:record.subject_length]] = record.seq
            seq = record.seq + 1
        return up_to + 1

    def last_sequences(self, Filter filter not None):
        """The last sequences of all subjects that pass, in no order."""
        cdef list found = []
        cdef Entry *entry
        cdef uint32_t k
        for k in range(self.index.used):
            entry = &self.index.entries[k]
            if entry.count and filter.accepts(entry.text, entry.length):
                self.resolve_last(entry)
                if self.count == 0:
                    return []
                found.append(entry.last)
        return found

    def count_subjects(self, Filter filter not None, uint32_t start=0, uint32_t most=<uint32_t> -1):
        """Subject -> count of all that pass among `most` places of the index; reads nothing from disk."""
        cdef dict found = {}
        cdef Entry *entry
        cdef uint64_t k = start, end = min(<uint64_t> start + most, <uint64_t> self.index.used)
        while k < end:
            entry = &self.index.entries[k]
            if entry.count and filter.accepts(entry.text, entry.length):
                found[<bytes> entry.text[:entry.length]] = entry.count
            k += 1
        return found

    @property
    def subject_places(self):
        """How many places the index has, of which some may be empty."""
        return self.index.used

    def seek_time(self, int64_t time):
        """The first sequence whose message is not older; last_seq + 1 if there is none."""
        cdef Record record
        cdef Segment *segment
        cdef uint32_t k = self.segment_count
        cdef uint64_t low, high, middle, at, found
        # The last segment that begins before that time: the answer is in it, or right behind it.
        while k and (self.segments[k - 1].first_time == 0 or self.segments[k - 1].first_time >= time):
            k -= 1
        if k == 0:
            return self.next_live(self.first_seq)
        segment = self.segments[k - 1]
        low = 0
        high = segment.count
        found = segment.count
        while low < high:
            middle = (low + high) // 2
            at = middle
            while at < high and (segment.offsets[at] == 0
                                 or not self.load(self.probe, segment, <uint32_t> at, &record)):
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
        return self.next_live(self.segments[k].base_seq if k < self.segment_count else self.last_seq + 1)

    def count_from(self, uint64_t seq, Filter filter not None):
        """Committed messages from a sequence on that pass the filter."""
        cdef Entry *entry
        cdef uint32_t k
        cdef long long total = 0, reads = 0
        if seq < self.first_seq:
            seq = self.first_seq
        if self.count == 0 or seq > self.committed_seq:
            return 0
        if filter.everything:
            return self.count_live(seq, self.committed_seq)
        # The index tells how many there are in all. Those before `seq`, or those behind it, have to be read and counted,
        # whichever are fewer, and only where a subject lies on both sides.
        if filter.literal:
            for subject in set(filter.patterns):
                entry = self.index.find(subject, <uint32_t> len(<bytes> subject))
                if entry != NULL and entry.last >= seq:
                    total += entry.count
                    reads |= entry.first < seq
        else:
            for k in range(self.index.used):
                entry = &self.index.entries[k]
                if entry.count and entry.last >= seq and filter.accepts(entry.text, entry.length):
                    total += entry.count
                    reads |= entry.first < seq
        if total == 0:
            return 0
        if not reads:
            return total - self.count_matching(self.committed_seq + 1, self.last_seq, filter)
        if seq - self.first_seq < self.committed_seq - seq:
            for k in range(self.index.used):
                entry = &self.index.entries[k]
                if entry.count and entry.last < seq and filter.accepts(entry.text, entry.length):
                    total += entry.count
            return total - self.count_matching(self.first_seq, seq - 1, filter) \
                - self.count_matching(self.committed_seq + 1, self.last_seq, filter)
        return self.count_matching(seq, self.committed_seq, filter)

    def deleted(self, uint64_t seq=0, uint64_t most=<uint64_t> -1):
        """The sequences between the first and the last message that have none; those of `most` from `seq` on."""
        cdef list missing = []
        cdef uint64_t place, at, end = self.last_seq + 1
        cdef uint32_t k
        cdef Segment *segment
        if seq < self.first_seq:
            seq = self.first_seq
        if self.count == 0 or self.segment_count == 0 or seq >= end:
            return missing
        if end - seq > most:
            end = seq + most
        for k in range(self.segment_place(seq), self.segment_count):
            segment = self.segments[k]
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

    def seq_from_end(self, uint64_t messages):
        """The sequence of the last message but so many less one: from it on there are `messages`. first_seq: fewer."""
        cdef uint32_t k = self.segment_count
        cdef uint64_t place
        cdef Segment *segment
        if messages >= self.count:
            return self.first_seq
        if messages == 0:
            return self.last_seq + 1
        while k:
            k -= 1
            segment = self.segments[k]
            if segment.live < messages:
                messages -= segment.live
                continue
            place = segment.count
            while messages:
                place -= 1
                messages -= segment.offsets[place] != 0
            return seq_at(segment, place)
        return self.first_seq
