# The messages of a log and where they are. The theory is at the top of store.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.store.committer cimport Buffer, JobOwner
from headrace.engine.core.filters cimport Filter
from headrace.engine.store.segments cimport Packing, Segment
from headrace.engine.store.subject_index cimport Entry, SubjectIndex
from headrace.engine.store.windows cimport Record, Window

cdef enum:
    NOTHING = 0                    # what search() says: there is none,
    FOUND = 1                      # here it is,
    TIRED = 2                      # it has looked at as many records as it may

cdef class Watcher:
    # What a consumer's cursor inherits: the log keeps num_pending exact at every commit and removal.
    cdef public uint64_t next_seq
    cdef public long long num_pending
    cdef public Filter filter
    cdef uint64_t uncounted        # from here up to before uncounted_end, messages are not in num_pending so far;
    cdef uint64_t uncounted_end    # count_ahead() is still to read them

    cdef bint is_pending(self, uint64_t seq, const char *subject, uint32_t length) noexcept

cdef class Store(JobOwner):
    cdef readonly uint64_t first_seq, last_seq, committed_seq
    cdef readonly uint64_t count
    cdef readonly uint64_t byte_count
    cdef readonly int64_t last_time
    cdef readonly str directory    # None: in memory
    cdef readonly list damages     # one line for each damage found so far, up to MOST_DAMAGES
    cdef readonly str read_failure # why a file could not be read the last time; None: it could
    cdef uint64_t unread_seq       # and the message that was asked for
    cdef set damaged               # the sequences in `damages`: each is reported once
    cdef bint in_memory
    cdef bytes path                # the directory, for C
    cdef SubjectIndex index
    cdef Segment **segments        # by number, which is by sequence, too
    cdef uint32_t segment_count
    cdef uint32_t segment_capacity
    cdef Segment *active           # the last one; NULL: nothing was written so far
    cdef Segment *graveyard        # memory segments that views may still point into, until the next commit()
    cdef uint32_t open_files       # of sealed segments
    cdef Buffer *pending           # what was written since the last commit()
    cdef Buffer *flight            # what the committer is writing
    cdef list watchers
    cdef Window head_window        # of removals at the head
    cdef Window probe              # of single records here and there
    cdef Window reader             # of next() and of scans
    cdef bint tidy_due             # something became dead

    cdef bint read(self, Window window, uint64_t seq, Record *record) except -1
    cdef bint seek(self, Window window, uint64_t seq, Filter filter, Record *record) except -1
    cdef int search(self, Window window, uint64_t *seq, Filter filter, uint64_t *looks, Record *record) except -1

    cdef int add_segment(self, Segment *segment) except -1
    cdef void drop_segment(self, uint32_t place) noexcept
    cdef uint32_t segment_place(self, uint64_t seq) noexcept
    cdef bint is_live(self, uint64_t seq) noexcept
    cdef uint64_t next_live(self, uint64_t seq) noexcept
    cdef const char *buffered(self, Segment *segment, uint32_t offset) noexcept
    cdef bint load(self, Window window, Segment *segment, uint32_t place, Record *record) except -1
    cdef bint load_file(self, Window window, Segment *segment, uint32_t place, Record *record) except -1
    cdef int open_file(self, Segment *segment) except -1
    cdef void close_idle_files(self) noexcept
    cdef void change_packing(self, Segment *segment, Packing *packing) noexcept
    cdef bint is_in_use(self, Segment *segment) noexcept
    cdef int note_damage(self, Segment *segment, uint32_t place) except -1
    cdef int note_read_failure(self, uint64_t seq, object error) except -1
    cdef int warn(self, str line) except -1
    cdef bint forget(self, Window window, uint64_t seq) except -1
    cdef int forget_record(self, Segment *segment, uint32_t place, Record *record) except -1
    cdef int forget_damaged(self, Segment *segment, uint32_t place) except -1
    cdef uint64_t extent(self, const Segment *segment, uint32_t place) noexcept
    cdef Entry *owner_of(self, uint64_t seq, const char *subject, uint32_t length) noexcept
    cdef int forget_subject(self, Record *record) except -1
    cdef int make_room_for_removal(self) except -1
    cdef void note_removal(self, uint64_t seq) noexcept
    cdef int resolve_first(self, Entry *entry) except -1
    cdef int resolve_last(self, Entry *entry) except -1
    cdef bint find_first(self, Entry *entry, uint64_t limit, uint64_t *steps) except -1
    cdef uint64_t size_of(self, uint32_t subject_length, uint32_t header_length, uint64_t payload_length) noexcept
    cdef int count_committed(self, uint64_t last) except -1
    cdef long long count_live(self, uint64_t first, uint64_t last) noexcept
    cdef long long count_matching(self, uint64_t first, uint64_t last, Filter filter) except -1
