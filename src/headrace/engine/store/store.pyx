"""The messages of a log: finding, reading and forgetting them. What is appended, and when, is decided in log.pyx.

    segments   #1 ─ offsets     #2 ─ offsets     #3 ─ offsets          four bytes per message
                 sealed file      sealed file      active file │ flight │ pending
                                                     written ──┘        │
                                                     committed ─────────┘    what is behind is in the log's buffers
    index      subject ─ count, first, last

A memory store is the same with memory instead of files, and needs no buffers.

To forget a message, its record is read once more: the index needs its subject, the accounting its size. At the head this
goes in sequence, through a window that reads ahead.

Errors and damage. If a file cannot be opened or read, whoever asked gets the OSError, nothing has changed, and the same
question may be asked again. Only a wrong checksum is damage. A damaged message is reported once and passed over by all who
read, but it is still there: it counts, it is never recorded as removed, its segment is neither rewritten nor compressed. It
goes when it is deleted, purged, or beyond a limit, like any other.

Who owns what. The loop's thread owns every field of a log, a segment and a buffer, with these exceptions:

    field                          owner while ...                               returned by
    flight: data, parts            committer, while commit_job is under way      on_done(COMMIT)
    segment.fd, .allocated         committer, from the segment's first part      on_done(COMMIT); sealed: the loop opens and
                                   on, for the segments of `flight`              closes fd, unless is_in_use()
    the file of chore.segment      committer, while the chore is under way:      finish_chore(), which takes over
                                   its name may become another file's            replacement or packing
    chore.* , commit_job.*, ...    committer, while that job is under way        on_done()

The committer reads number, base_seq, salt, packing of a segment at any time: the loop changes none of them while a job with
that segment is under way. Offsets, counts, index and watchers belong to the loop alone.

Finding the new first message of a subject. Every record names its predecessor on the same subject, so from the last one
there is a chain backwards; it takes count - 1 steps, but each may be a read somewhere else in the files. A scan forward
from the old first one is sequential and may be short. So: scan forward a little, then try the chain if it is not long,
and if it is broken (somebody removed a message in the middle of it), scan on.
"""

from libc.errno cimport EMFILE, ENFILE, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memmove
from posix.fcntl cimport O_CLOEXEC, O_RDWR, open
from posix.unistd cimport close

from headrace.engine.store.committer cimport Part
from headrace.engine.store.files cimport PATH_SIZE, segment_path
from headrace.engine.store.record cimport HEAD_SIZE, RecordHead
from headrace.engine.store.segments cimport (
    ABSENT, end_seq, free_packing, free_segment, next_place, place_of, seq_at,
)
from headrace.engine.store.windows cimport view

import os

MOST_DAMAGES = 100                  # that are listed
cdef uint32_t MOST_OPEN_FILES = 64  # of sealed segments, per log
cdef uint64_t SCAN_STEPS = 8        # records to scan before the chain is tried
cdef uint64_t LONGEST_CHAIN = 1024


cdef class Watcher:
    cdef bint is_pending(self, uint64_t seq, const char *subject, uint32_t length) noexcept:
        """Whether a committed message is one of those in num_pending."""
        return seq >= self.next_seq and not self.uncounted <= seq < self.uncounted_end \
            and self.filter.accepts(subject, length)


cdef class Store(JobOwner):
    def __dealloc__(self):
        cdef uint32_t k
        cdef Segment *following
        for k in range(self.segment_count):
            free_segment(self.segments[k])
        free(self.segments)
        while self.graveyard != NULL:
            following = self.graveyard.next_dead
            free_segment(self.graveyard)
            self.graveyard = following

    # -- segments -------------------------------------------------------------------------------------------------------

    cdef int add_segment(self, Segment *segment) except -1:
        cdef void *grown
        if self.segment_count == self.segment_capacity:
            grown = realloc(self.segments, (2 * self.segment_capacity + 4) * sizeof(Segment *))
            if grown == NULL:
                raise MemoryError
            self.segments = <Segment **> grown
            self.segment_capacity = 2 * self.segment_capacity + 4
        self.segments[self.segment_count] = segment
        self.segment_count += 1
        return 0

    cdef void drop_segment(self, uint32_t place) noexcept:
        """Take a segment out of the list; somebody else frees it."""
        self.segment_count -= 1
        memmove(self.segments + place, self.segments + place + 1,
                (self.segment_count - place) * sizeof(Segment *))

    cdef uint32_t segment_place(self, uint64_t seq) noexcept:
        """The place of the segment that may hold a sequence: the last one that begins at or before it, else the first."""
        cdef uint32_t low = 0, high = self.segment_count, middle
        if high and self.segments[high - 1].base_seq <= seq:
            return high - 1
        while low < high:
            middle = (low + high) // 2
            if self.segments[middle].base_seq <= seq:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low else 0

    cdef bint is_live(self, uint64_t seq) noexcept:
        cdef Segment *segment
        cdef uint32_t place
        if self.segment_count == 0 or seq < self.first_seq or seq > self.last_seq:
            return False
        segment = self.segments[self.segment_place(seq)]
        place = place_of(segment, seq)
        return place != ABSENT and segment.offsets[place] != 0

    cdef uint64_t next_live(self, uint64_t seq) noexcept:
        """The first message at or after a sequence; last_seq + 1 if there is none."""
        cdef uint32_t k
        cdef uint64_t place
        cdef Segment *segment
        if self.count == 0 or self.segment_count == 0:
            return self.last_seq + 1
        for k in range(self.segment_place(seq), self.segment_count):
            segment = self.segments[k]
            if segment.live == 0:
                continue
            place = next_place(segment, seq)
            while place < segment.count:
                if segment.offsets[place]:
                    return seq_at(segment, place)
                place += 1
        return self.last_seq + 1

    # -- reading --------------------------------------------------------------------------------------------------------

    cdef bint read(self, Window window, uint64_t seq, Record *record) except -1:
        """View a message, committed or not. False: it is not there."""
        cdef Segment *segment
        cdef uint32_t place
        if self.segment_count == 0 or seq < self.first_seq or seq > self.last_seq:
            return False
        segment = self.segments[self.segment_place(seq)]
        place = place_of(segment, seq)
        if place == ABSENT or segment.offsets[place] == 0:
            return False
        return self.load(window, segment, place, record)

    cdef const char *buffered(self, Segment *segment, uint32_t offset) noexcept:
        """A record that is not in its file so far."""
        cdef Buffer *buffer
        cdef Part *part
        cdef int which
        cdef uint32_t k
        for which in range(2):
            buffer = self.flight if which == 0 else self.pending
            k = buffer.part_count
            while k:
                k -= 1
                part = &buffer.parts[k]
                if part.segment == segment and part.offset <= offset < part.offset + part.length:
                    return buffer.data + part.start + (offset - part.offset)
        return NULL

    cdef bint load(self, Window window, Segment *segment, uint32_t place, Record *record) except -1:
        """View the message at a place of a segment. False: it is damaged. Raises OSError if it cannot be read."""
        cdef uint32_t offset = segment.offsets[place]
        cdef const char *data
        if segment.memory != NULL:
            view(<const RecordHead *> (segment.memory + offset), record)
            return True
        if offset >= segment.written:
            data = self.buffered(segment, offset)
            assert data != NULL
            view(<const RecordHead *> data, record)
            return True
        if segment.fd >= 0 and window.load(segment, offset, record, False) and record.seq == seq_at(segment, place):
            return True            # usually it is in the window already
        return self.load_file(window, segment, place, record)

    cdef bint load_file(self, Window window, Segment *segment, uint32_t place, Record *record) except -1:
        cdef uint64_t seq = seq_at(segment, place)
        cdef bint good
        try:
            if segment.fd < 0:
                self.open_file(segment)
            good = window.load(segment, segment.offsets[place], record, True) and record.seq == seq
            if not good:
                window.forget()    # a second look, at the file: what the window holds may be older than a repair
                good = window.load(segment, segment.offsets[place], record, True) and record.seq == seq
            if not good:
                window.forget()
        except (OSError, MemoryError) as error:
            self.note_read_failure(seq, error)
            raise
        if self.read_failure is not None and self.unread_seq == seq:
            self.read_failure = None
        if not good:
            self.note_damage(segment, place)
        return good

    cdef int note_damage(self, Segment *segment, uint32_t place) except -1:
        """Report a damaged record, once. It stays where it is: its bytes may be readable again, or elsewhere."""
        cdef uint64_t seq = seq_at(segment, place)
        segment.damaged = True
        if seq in self.damaged or len(self.damages) >= MOST_DAMAGES:
            return 0
        self.damaged.add(seq)
        line = f"segment {segment.number}: message {seq} at byte {segment.offsets[place]} is damaged"
        if len(self.damages) == MOST_DAMAGES - 1:
            line += "; further damage is not listed"
        self.damages.append(line)
        return self.warn(line)

    cdef int note_read_failure(self, uint64_t seq, object error) except -1:
        """Say that a file cannot be read, once until it can."""
        cdef bint known = self.read_failure is not None
        self.unread_seq = seq
        self.read_failure = f"message {seq}: {error.strerror if isinstance(error, OSError) else 'out of memory'}"
        return 0 if known else self.warn(self.read_failure)

    cdef int warn(self, str line) except -1:
        return 0

    cdef int open_file(self, Segment *segment) except -1:
        """Open a sealed segment, and close others if there are too many open, here or in the whole process."""
        cdef char path[PATH_SIZE]
        if self.open_files >= MOST_OPEN_FILES:
            self.close_idle_files()
        segment_path(path, self.path, segment.number, b"log")
        segment.fd = open(path, O_RDWR | O_CLOEXEC)
        if segment.fd < 0 and errno in (EMFILE, ENFILE) and self.open_files:
            self.close_idle_files()
            segment.fd = open(path, O_RDWR | O_CLOEXEC)
        if segment.fd < 0:
            raise OSError(errno, f"cannot open segment {segment.number}: {os.strerror(errno)}")
        self.open_files += 1
        return 0

    cdef void close_idle_files(self) noexcept:
        cdef uint32_t k
        cdef Segment *segment
        self.open_files = 0
        for k in range(self.segment_count):
            segment = self.segments[k]
            if segment.fd >= 0 and segment.sealed:
                if self.is_in_use(segment):
                    self.open_files += 1
                else:
                    close(segment.fd)
                    segment.fd = -1

    cdef void change_packing(self, Segment *segment, Packing *packing) noexcept:
        """The file of a segment was replaced by a compressed one with the same content."""
        if segment.fd >= 0:
            close(segment.fd)
            segment.fd = -1
            if self.open_files:
                self.open_files -= 1
        free_packing(segment.packing)
        segment.packing = packing

    cdef bint is_in_use(self, Segment *segment) noexcept:
        """Whether the file of a sealed segment has to stay open."""
        return False

    cdef bint seek(self, Window window, uint64_t seq, Filter filter, Record *record) except -1:
        """View the first live and committed message at or after a sequence whose subject passes. False: none."""
        cdef uint64_t looks = <uint64_t> -1
        return self.search(window, &seq, filter, &looks, record) == FOUND

    cdef int search(self, Window window, uint64_t *seq, Filter filter, uint64_t *looks, Record *record) except -1:
        """The same, but reads no more than `looks` records, of which it takes off those that it did read.

        FOUND: `seq` is the message's. TIRED: there is none before `seq`, where to go on.
        """
        cdef uint32_t k, p
        cdef uint64_t place, at, nearest = 0
        cdef Segment *segment
        cdef Entry *entry
        if seq[0] < self.first_seq:
            seq[0] = self.first_seq
        if self.count == 0 or seq[0] > self.committed_seq:
            return NOTHING
        if filter.literal:
            # The index knows where to begin, or that there is no need to.
            for p in range(filter.count):
                entry = self.index.find(filter.compiled[p].text, filter.compiled[p].length)
                if entry != NULL and entry.last >= seq[0]:
                    at = entry.first if entry.first > seq[0] else seq[0]
                    if nearest == 0 or at < nearest:
                        nearest = at
            if nearest == 0:
                return NOTHING
            seq[0] = nearest
        k = self.segment_place(seq[0])
        while k < self.segment_count:
            segment = self.segments[k]
            place = next_place(segment, seq[0]) if segment.live else segment.count
            while place < segment.count:
                if segment.offsets[place]:
                    at = seq_at(segment, place)
                    if at > self.committed_seq:
                        return NOTHING
                    if looks[0] == 0:
                        seq[0] = at
                        return TIRED
                    looks[0] -= 1
                    if self.load(window, segment, <uint32_t> place, record) \
                            and filter.accepts(record.subject, record.subject_length):
                        seq[0] = at
                        return FOUND
                place += 1
            k += 1
        return NOTHING

    # -- forgetting -----------------------------------------------------------------------------------------------------

    cdef uint64_t size_of(self, uint32_t subject_length, uint32_t header_length, uint64_t payload_length) noexcept:
        """What a message counts, as in nats-server: its limits and its figures are in these bytes."""
        if self.in_memory:
            return 16 + <uint64_t> subject_length + header_length + payload_length
        return 30 + <uint64_t> subject_length + payload_length + (4 + <uint64_t> header_length if header_length else 0)

    cdef bint forget(self, Window window, uint64_t seq) except -1:
        """Take a message out of everything. What is to be written about it is the caller's business.

        Raises OSError if its record cannot be read, MemoryError if it cannot be noted: then nothing has changed.
        """
        cdef Record record
        cdef Segment *segment
        cdef uint32_t place
        if self.segment_count == 0 or seq < self.first_seq or seq > self.last_seq:
            return False
        segment = self.segments[self.segment_place(seq)]
        place = place_of(segment, seq)
        if place == ABSENT or segment.offsets[place] == 0:
            return False
        self.make_room_for_removal()
        if self.load(window, segment, place, &record):
            self.forget_record(segment, place, &record)
        else:
            self.forget_damaged(segment, place)
        return True

    cdef int forget_record(self, Segment *segment, uint32_t place, Record *record) except -1:
        cdef Watcher watcher
        segment.offsets[place] = 0
        segment.live -= 1
        segment.live_bytes -= HEAD_SIZE + record.subject_length + record.header_length + record.payload_length
        self.count -= 1
        self.byte_count -= self.size_of(record.subject_length, record.header_length, record.payload_length)
        if segment != self.active and (segment.live == 0 or 2 * segment.live_bytes < segment.size):
            self.tidy_due = True
        if record.seq <= self.committed_seq:
            for watcher in self.watchers:
                watcher.num_pending -= watcher.is_pending(record.seq, record.subject, record.subject_length)
        self.forget_subject(record)
        self.note_removal(record.seq)
        return 0

    cdef int forget_damaged(self, Segment *segment, uint32_t place) except -1:
        """The same for a record whose subject and length cannot be trusted.

        Its subject keeps it in its count, unless the index says that this is the subject's first or last message. So
        counts of subjects may be too high after this, until the next start, but never too low: nothing readable is hidden.
        """
        cdef uint64_t seq = seq_at(segment, place), length = self.extent(segment, place), bytes
        cdef Watcher watcher
        cdef Entry *entry = NULL
        cdef Record record
        if self.probe.peek(segment, segment.offsets[place], &record):
            entry = self.owner_of(seq, record.subject, record.subject_length)
            length = min(length, HEAD_SIZE + record.subject_length + record.header_length + <uint64_t> record.payload_length)
        segment.offsets[place] = 0
        segment.live -= 1
        segment.live_bytes = segment.live_bytes - min(segment.live_bytes, length) if segment.live else 0
        self.count -= 1
        bytes = length - HEAD_SIZE + 30 if length > HEAD_SIZE else 30
        self.byte_count = self.byte_count - min(self.byte_count, bytes) if self.count else 0
        if segment != self.active and segment.live == 0:
            self.tidy_due = True
        for watcher in self.watchers:
            if seq <= self.committed_seq and watcher.num_pending > 0 and watcher.filter.everything:
                watcher.num_pending -= watcher.is_pending(seq, b"", 0)
        if self.count == 0:
            self.index.clear()
        elif entry != NULL:
            record.seq = seq
            record.previous = 0
            self.forget_subject(&record)
        self.note_removal(seq)
        return 0

    cdef uint64_t extent(self, const Segment *segment, uint32_t place) noexcept:
        """How many bytes a record has at most: up to the next live one."""
        cdef uint32_t k
        for k in range(place + 1, segment.count):
            if segment.offsets[k]:
                return segment.offsets[k] - segment.offsets[place]
        return segment.size - segment.offsets[place]

    cdef Entry *owner_of(self, uint64_t seq, const char *subject, uint32_t length) noexcept:
        """The entry of a subject that a damaged record names, if that is certain; NULL: it is not."""
        cdef Entry *entry = self.index.find(subject, length)
        if entry != NULL and (entry.first == seq and not entry.first_stale or entry.last == seq and not entry.last_stale):
            return entry
        return NULL

    cdef int make_room_for_removal(self) except -1:
        return 0

    cdef void note_removal(self, uint64_t seq) noexcept:
        pass

    cdef int forget_subject(self, Record *record) except -1:
        cdef Entry *entry = self.index.find(record.subject, record.subject_length)
        if entry == NULL:
            return 0
        entry.count -= 1
        if entry.count == 0:
            self.index.discard(entry)
            return 0
        if record.seq == entry.first:
            entry.first = record.seq + 1
            entry.first_stale = True
        if record.seq == entry.last:
            if record.previous and self.is_live(record.previous):
                entry.last = record.previous
                entry.last_stale = False
            else:
                entry.last = record.seq - 1
                entry.last_stale = True
        if entry.count == 1:
            if not entry.last_stale:
                entry.first = entry.last
                entry.first_stale = False
            elif not entry.first_stale:
                entry.last = entry.first
                entry.last_stale = False
        return 0

    # -- subjects -------------------------------------------------------------------------------------------------------

    cdef bint find_first(self, Entry *entry, uint64_t limit, uint64_t *steps) except -1:
        """Scan forward from entry.first for at most `limit` messages, moving entry.first along."""
        cdef Record record
        cdef uint64_t seq = entry.first if entry.first > self.first_seq else self.first_seq
        cdef bint passed_damage = False
        while steps[0] < limit:
            seq = self.next_live(seq)
            if seq > self.last_seq:
                return False
            steps[0] += 1
            if not self.read(self.reader, seq, &record):
                passed_damage = True
            elif record.subject_length == entry.length and memcmp(record.subject, entry.text, entry.length) == 0:
                # What is damaged does not tell its subject, but its successor does.
                entry.first = record.previous if passed_damage and self.is_live(record.previous) else seq
                entry.first_stale = False
                return True
            seq += 1
            if not passed_damage:
                entry.first = seq
        return False

    cdef int resolve_first(self, Entry *entry) except -1:
        """Make entry.first exact, or that of the first message that can be read."""
        cdef Record record
        cdef uint64_t steps = 0, at, k
        if not entry.first_stale:
            return 0
        if self.find_first(entry, SCAN_STEPS, &steps):
            return 0
        if not entry.last_stale and entry.count <= LONGEST_CHAIN:
            at = entry.last
            for k in range(entry.count - 1):
                if not self.is_live(at) or not self.read(self.probe, at, &record) or record.previous == 0 \
                        or not self.is_live(record.previous):
                    break
                at = record.previous
            else:
                entry.first = at
                entry.first_stale = False
                return 0
        if not self.find_first(entry, <uint64_t> -1, &steps):
            # All that is left of it is damaged, and entry.first stands before that.
            at = self.next_live(entry.first)
            entry.first = at if at <= self.last_seq else entry.last
            entry.first_stale = False
        return 0

    cdef int resolve_last(self, Entry *entry) except -1:
        """Make entry.last exact, or that of the last message that can be read."""
        cdef Record record
        cdef uint64_t seq = entry.last, damaged = 0
        if not entry.last_stale:
            return 0
        while seq >= entry.first and seq >= self.first_seq and seq:
            if self.is_live(seq):
                if not self.read(self.probe, seq, &record):
                    damaged = damaged if damaged else seq
                elif record.subject_length == entry.length and memcmp(record.subject, entry.text, entry.length) == 0:
                    damaged = 0
                    break
            seq -= 1
        entry.last = damaged if damaged else seq   # if none can be read, the last of the damaged ones will do
        entry.last_stale = False
        return 0

    # -- counting -------------------------------------------------------------------------------------------------------

    cdef int count_committed(self, uint64_t last) except -1:
        """Tell the watchers of the messages up to `last`, which are committed now."""
        cdef uint64_t first = self.committed_seq + 1
        cdef long long live = -1
        cdef Watcher watcher
        for watcher in self.watchers:
            if watcher.next_seq > last:
                continue
            if not watcher.filter.everything:
                watcher.num_pending += self.count_matching(max(first, watcher.next_seq), last, watcher.filter)
            elif watcher.next_seq > first:
                watcher.num_pending += self.count_live(watcher.next_seq, last)
            else:
                if live < 0:
                    live = self.count_live(first, last)
                watcher.num_pending += live
        return 0

    cdef long long count_live(self, uint64_t first, uint64_t last) noexcept:
        cdef uint32_t k
        cdef uint64_t place
        cdef long long live = 0
        cdef Segment *segment
        if self.segment_count == 0 or first > last:
            return 0
        for k in range(self.segment_place(first), self.segment_count):
            segment = self.segments[k]
            if segment.live == 0:
                continue
            if segment.base_seq > last:
                break
            if first <= segment.base_seq and end_seq(segment) <= last + 1:
                live += segment.live
                continue
            place = next_place(segment, first)
            while place < segment.count and seq_at(segment, place) <= last:
                live += segment.offsets[place] != 0
                place += 1
        return live

    cdef long long count_matching(self, uint64_t first, uint64_t last, Filter filter) except -1:
        """Read them all and count."""
        cdef Record record
        cdef uint32_t k
        cdef uint64_t place
        cdef long long matching = 0
        cdef Segment *segment
        if self.segment_count == 0 or first > last:
            return 0
        k = self.segment_place(first)
        while k < self.segment_count:
            segment = self.segments[k]
            place = next_place(segment, first)
            while place < segment.count and seq_at(segment, place) <= last:
                if segment.offsets[place] and self.load(self.reader, segment, <uint32_t> place, &record):
                    matching += filter.accepts(record.subject, record.subject_length)
                place += 1
            if place < segment.count:
                break
            k += 1
        return matching
