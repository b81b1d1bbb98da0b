"""The messages of a log: where they are, finding and reading them.

    segments   #1 ─ offsets     #2 ─ offsets     #3 ─ offsets          four bytes per message
                 sealed file      sealed file      active file │ in flight │ pending
                                                     written ──┘           │
                                                     committed ────────────┘    what follows is in the groups
    index      subject ─ count, first, last

A memory store is the same with memory instead of files, and needs no groups.

The store knows no writer, no thread and no limit. writer.pyx appends to it, removing.pyx removes from it, chores.pyx
replaces its files, recovery.pyx fills it from a directory.

Errors and damage. If a file cannot be opened or read, the caller gets the OSError, nothing has changed, and the same
call may be repeated. Only a wrong checksum is damage. A damaged message is reported once and skipped by all
readers, but it is still there: it counts, it is never recorded as removed, its segment is neither rewritten nor
compressed. It goes when it is deleted, purged, or beyond a limit, like any other.
"""

from libc.errno cimport EMFILE, ENFILE, errno
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove
from posix.fcntl cimport O_CLOEXEC, O_RDONLY, O_RDWR, open
from posix.unistd cimport close

from headrace.engine.segments.files cimport PATH_SIZE, segment_path
from headrace.engine.segments.packing cimport read_form
from headrace.engine.segments.record cimport HEAD_SIZE, RecordHead, accounted_size
from headrace.engine.segments.segment cimport (
    ABSENT, end_seq, free_packing, free_segment, new_segment, next_place, place_of, seq_at,
)
from headrace.engine.segments.windows cimport view

import os

cdef uint32_t MOST_OPEN_FILES = 64  # of sealed segments, per log
cdef uint32_t FEW_PATTERNS = 8      # of a filter: they are looked up before anything is read
cdef uint64_t HINT_READS = 32       # records that are read first with more patterns
cdef uint32_t FINDS_PER_READ = 16   # subjects that are looked up in the time to read a record
cdef uint32_t ALL = <uint32_t> -1   # places of the index


cdef class Watcher:
    cdef bint is_pending(self, uint64_t seq, const char *subject, uint32_t length) noexcept:
        """Whether a committed message is one of those in num_pending."""
        cdef Entry *entry
        if seq < self.next_seq or self.uncounted <= seq < self.uncounted_end \
                or not self.filter.accepts(subject, length):
            return False
        if self.walked_index is None:
            return True
        entry = self.walked_index.find(subject, length)
        return entry != NULL and self.walked_index.place_of(entry) < self.walked

    cdef bint is_counting(self) noexcept:
        """Whether num_pending is not complete yet."""
        return self.uncounted < self.uncounted_end or self.walked_index is not None

    cdef void set_counted(self, long long num_pending) noexcept:
        self.num_pending = num_pending
        self.uncounted = self.uncounted_end = 0
        self.walked_index = None


cdef class Store:
    def __cinit__(self, str directory, uint64_t segment_bytes):
        """`directory` None: in memory."""
        self.directory = directory
        self.in_memory = directory is None
        self.path = b"" if directory is None else os.fsencode(directory)
        if len(self.path) > PATH_SIZE - 64:
            raise ValueError("the path of the log is too long")
        self.segment_bytes = segment_bytes
        self.groups = Groups()
        self.reports = Reports()
        self.index = SubjectIndex()
        self.watchers = []
        self.audiences = Audiences()
        self.head_window = Window(65536)
        self.probe = Window(1024, 16384)
        self.reader = Window(65536)
        self.next_number = 1
        self.syncing_fd = -1
        self.wanted_last = <uint64_t> -1

    def __dealloc__(self):
        cdef uint32_t k
        for k in range(self.segment_count):
            free_segment(self.segments[k])
        free(self.segments)
        self.free_graveyard()

    cdef void reset(self) noexcept:
        """Forget everything that is in memory. No job is under way."""
        cdef uint32_t k
        for k in range(self.segment_count):
            free_segment(self.segments[k])
        self.free_graveyard()
        self.segment_count = 0
        self.open_files = 0
        self.active = NULL
        self.index.clear()
        self.first_seq = self.last_seq = self.committed_seq = 0
        self.count = self.byte_count = 0
        self.last_time = 0
        self.first_time_seq = 0
        self.logged_first = 0
        self.chores_due = False
        self.reloads += 1
        self._release()

    cdef int adopt(self, Store other) except -1:
        """Adopt what another store has read from the same files; the other one frees the old state."""
        self._release()
        self.segments, other.segments = other.segments, self.segments
        self.segment_count, other.segment_count = other.segment_count, self.segment_count
        self.segment_capacity, other.segment_capacity = other.segment_capacity, self.segment_capacity
        self.index, other.index = other.index, self.index
        self.active = other.active
        self.open_files = other.open_files
        self.first_seq, self.last_seq, self.committed_seq = other.first_seq, other.last_seq, other.committed_seq
        self.count, self.byte_count = other.count, other.byte_count
        self.last_time, self.logged_first, self.next_number = other.last_time, other.logged_first, other.next_number
        self.first_time_seq = 0
        self.chores_due = True
        self.reloads += 1
        for watcher in self.watchers:
            if (<Watcher> watcher).walked_index is not None:    # the places have changed: start again
                (<Watcher> watcher).walked_index = self.index
                (<Watcher> watcher).walked = 0
                (<Watcher> watcher).num_pending = 0
        return 0

    cdef void _release(self) noexcept:
        """Forget what is not on disk, and what was read ahead."""
        self.groups.clear()
        self.head_window.release()
        self.probe.release()
        self.reader.release()

    # -- segments -------------------------------------------------------------------------------------------------------

    cdef Segment *add_segment(self, uint64_t seq) except NULL:
        """A new one, empty, at the end of the list."""
        cdef Segment *segment = new_segment(self.next_number, seq)
        if segment == NULL:
            raise MemoryError
        try:
            self.append_segment(segment)
        except MemoryError:
            free_segment(segment)
            raise
        self.next_number += 1
        return segment

    cdef int append_segment(self, Segment *segment) except -1:
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

    cdef void drop_segment(self, uint32_t k) noexcept:
        """Remove a segment from the list; the caller frees it."""
        self.segment_count -= 1
        memmove(self.segments + k, self.segments + k + 1, (self.segment_count - k) * sizeof(Segment *))

    cdef void bury(self, Segment *segment) noexcept:
        """Free a memory segment at the next commit: until then, views may point into it."""
        segment.next_dead = self.graveyard
        self.graveyard = segment

    cdef void free_graveyard(self) noexcept:
        cdef Segment *following
        while self.graveyard != NULL:
            following = self.graveyard.next_dead
            free_segment(self.graveyard)
            self.graveyard = following

    # -- look-ups -------------------------------------------------------------------------------------------------------

    cdef uint32_t segment_of(self, uint64_t seq) noexcept:
        """Which segment may hold a sequence: the last one that begins at or before it, or else the first."""
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

    cdef Segment *locate(self, uint64_t seq, uint32_t *place) noexcept:
        """The segment of a live message, and its place there; NULL: there is no such message."""
        cdef Segment *segment
        if self.segment_count == 0 or seq < self.first_seq or seq > self.last_seq:
            return NULL
        segment = self.segments[self.segment_of(seq)]
        place[0] = place_of(segment, seq)
        return segment if place[0] != ABSENT and segment.offsets[place[0]] != 0 else NULL

    cdef bint is_live(self, uint64_t seq) noexcept:
        cdef uint32_t place
        return self.locate(seq, &place) != NULL

    cdef uint64_t next_live(self, uint64_t seq) noexcept:
        """The first message at or after a sequence; last_seq + 1 if there is none."""
        cdef uint32_t k
        cdef uint64_t place
        cdef Segment *segment
        if self.count == 0 or self.segment_count == 0:
            return self.last_seq + 1
        for k in range(self.segment_of(seq), self.segment_count):
            segment = self.segments[k]
            if segment.live == 0:
                continue
            place = next_place(segment, seq)
            while place < segment.count:
                if segment.offsets[place]:
                    return seq_at(segment, place)
                place += 1
        return self.last_seq + 1

    cdef uint64_t previous_live(self, uint64_t seq) noexcept:
        """The last message at or before a sequence; 0 if there is none."""
        cdef uint32_t k
        cdef uint64_t place
        cdef Segment *segment
        if self.count == 0 or self.segment_count == 0:
            return 0
        k = self.segment_of(seq) + 1
        while k:
            k -= 1
            segment = self.segments[k]
            if segment.live == 0 or segment.base_seq > seq:
                continue
            place = segment.count if seq >= end_seq(segment) else next_place(segment, seq + 1)
            while place:
                place -= 1
                if segment.offsets[place]:
                    return seq_at(segment, place)
        return 0

    cdef long long count_live(self, uint64_t first, uint64_t last) noexcept:
        cdef uint32_t k
        cdef uint64_t place
        cdef long long live = 0
        cdef Segment *segment
        if self.segment_count == 0 or first > last:
            return 0
        for k in range(self.segment_of(first), self.segment_count):
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
        return self.count_at_places(first, last, filter, 0, ALL)

    cdef long long count_at_places(self, uint64_t first, uint64_t last, Filter filter, uint32_t start,
                                   uint32_t end) except -1:
        """The same for subjects at the places of the index from `start` up to `end`."""
        cdef Record record
        cdef Entry *entry
        cdef uint32_t k
        cdef uint64_t place
        cdef long long matching = 0
        cdef Segment *segment
        if self.segment_count == 0 or first > last:
            return 0
        k = self.segment_of(first)
        while k < self.segment_count:
            segment = self.segments[k]
            place = next_place(segment, first)
            while place < segment.count and seq_at(segment, place) <= last:
                if segment.offsets[place] and self.load(self.reader, segment, <uint32_t> place, &record) \
                        and filter.accepts(record.subject, record.subject_length):
                    entry = NULL if end == ALL else self.index.find(record.subject, record.subject_length)
                    matching += entry == NULL or start <= self.index.place_of(entry) < end
                place += 1
            if place < segment.count:
                break
            k += 1
        return matching

    cdef uint64_t size_of(self, uint32_t subject_length, uint32_t header_length, uint64_t payload_length) noexcept:
        """The size that a message counts for, as in nats-server: limits and figures use these bytes."""
        if self.in_memory:
            return 16 + <uint64_t> subject_length + header_length + payload_length
        return accounted_size(HEAD_SIZE + <uint64_t> subject_length + header_length + payload_length, header_length != 0)

    # -- reading --------------------------------------------------------------------------------------------------------

    cdef bint read(self, Window window, uint64_t seq, Record *record) except -1:
        """View a message, committed or not. False: it is not there."""
        cdef uint32_t place
        cdef Segment *segment = self.locate(seq, &place)
        return segment != NULL and self.load(window, segment, place, record)

    cdef bint load(self, Window window, Segment *segment, uint32_t place, Record *record) except -1:
        """View the message at a place of a segment. False: it is damaged. Raises OSError if it cannot be read."""
        cdef uint32_t offset = segment.offsets[place]
        cdef const char *data
        if segment.memory != NULL:
            view(<const RecordHead *> (segment.memory + offset), record)
            return True
        if offset >= segment.written:
            data = self.groups.find(segment, offset)
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
                window.invalidate()    # look again, at the file: what the window holds may be older than a repair
                good = window.load(segment, segment.offsets[place], record, True) and record.seq == seq
            if not good:
                window.invalidate()
        except (OSError, MemoryError) as error:
            self.reports.note_read_failure(seq, error)
            raise
        self.reports.note_read(seq)
        if not good:
            self.reports.note_damage(segment, place)
        return good

    cdef bint seek(self, Window window, uint64_t seq, Filter filter, Record *record) except -1:
        """View the first live and committed message at or after a sequence whose subject passes. False: none."""
        cdef uint64_t looks = <uint64_t> -1
        return self.search(window, &seq, filter, &looks, record) == FOUND

    cdef int search(self, Window window, uint64_t *seq, Filter filter, uint64_t *looks, Record *record) except -1:
        """The same, but reads no more than `looks` records, and deducts those that it did read.

        FOUND: `seq` is the message's. TIRED: there is none before `seq`, where to continue.
        """
        cdef uint32_t k
        cdef uint64_t place, at, unread = <uint64_t> -1
        cdef Segment *segment
        if seq[0] < self.first_seq:
            seq[0] = self.first_seq
        if self.count == 0 or seq[0] > self.committed_seq:
            return NOTHING
        if filter.literal:
            # The index knows where to begin, or that there is no need to. With many patterns it is consulted only if
            # the next few records match none of them.
            unread = HINT_READS if filter.count > FEW_PATTERNS else 0
        k = self.segment_of(seq[0])
        while k < self.segment_count:
            if unread == 0:
                unread = <uint64_t> -1
                looks[0] -= min(looks[0], <uint64_t> (filter.count // FINDS_PER_READ))
                seq[0] = self._nearest(seq[0], filter)
                if seq[0] == 0:
                    return NOTHING
                k = self.segment_of(seq[0])
            segment = self.segments[k]
            place = next_place(segment, seq[0]) if segment.live else segment.count
            while place < segment.count and unread:
                if segment.offsets[place]:
                    at = seq_at(segment, place)
                    if at > self.committed_seq:
                        return NOTHING
                    if looks[0] == 0:
                        seq[0] = at
                        return TIRED
                    looks[0] -= 1
                    unread -= 1
                    if self.load(window, segment, <uint32_t> place, record) \
                            and filter.accepts(record.subject, record.subject_length):
                        seq[0] = at
                        return FOUND
                    looks[0] -= min(looks[0], <uint64_t> filter.effort)
                    if unread == 0:
                        seq[0] = at + 1
                place += 1
            k += unread != 0
        return NOTHING

    cdef uint64_t _nearest(self, uint64_t seq, Filter filter) noexcept:
        """The sequence, from `seq` on, before which nothing passes a literal filter; 0: nothing passes at all."""
        cdef uint32_t p
        cdef uint64_t at, nearest = 0
        cdef Entry *entry
        for p in range(filter.count):
            entry = self.index.find(filter.compiled[p].text, filter.compiled[p].length)
            if entry != NULL and entry.last >= seq:
                at = entry.first if entry.first > seq else seq
                if nearest == 0 or at < nearest:
                    nearest = at
        return nearest

    # -- files ----------------------------------------------------------------------------------------------------------

    cdef int open_file(self, Segment *segment) except -1:
        """Open a sealed segment, and close others if there are too many open, here or in the whole process."""
        cdef char path[PATH_SIZE]
        cdef int how = (O_RDONLY if self.read_only else O_RDWR) | O_CLOEXEC
        cdef int error = 0
        if self.open_files >= MOST_OPEN_FILES:
            self.close_idle_files()
        segment_path(path, self.path, segment.number, b"log")
        segment.fd = open(path, how)
        if segment.fd < 0 and errno in (EMFILE, ENFILE) and self.open_files:
            self.close_idle_files()
            segment.fd = open(path, how)
        if segment.fd < 0:
            error = errno
        elif self.read_only:
            error = read_form(segment)     # a server may have replaced it
        if error:
            raise OSError(error, f"cannot open segment {segment.number}: {os.strerror(error)}")
        self.open_files += 1
        return 0

    cdef void close_idle_files(self) noexcept:
        cdef uint32_t k
        cdef Segment *segment
        self.open_files = 0
        for k in range(self.segment_count):
            segment = self.segments[k]
            if segment.fd >= 0 and segment.sealed:
                if segment == self.chore_segment or segment.fd == self.syncing_fd:
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
