# The messages of a log and where they are. The theory is at the top of store.pyx.

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.basics.filters cimport Filter
from headrace.engine.basics.audiences cimport Audiences
from headrace.engine.store.groups cimport Groups
from headrace.engine.store.reports cimport Reports
from headrace.engine.segments.segment cimport Packing, Segment
from headrace.engine.store.subject_index cimport Entry, SubjectIndex
from headrace.engine.segments.windows cimport Record, Window

cdef enum:
    NOTHING = 0                    # what search() returns: there is none,
    FOUND = 1                      # here it is,
    TIRED = 2                      # it has looked at as many records as it may

cdef class Watcher:
    # The base of a consumer's cursor: the log keeps num_pending exact at every commit and removal.
    cdef public uint64_t next_seq
    cdef public long long num_pending
    cdef public Filter filter      # may change only while it is not one of a log's watchers
    cdef uint64_t uncounted        # from here up to before uncounted_end, messages are not in num_pending yet;
    cdef uint64_t uncounted_end    # count_ahead() is still to read them
    cdef SubjectIndex walked_index # None: no walk is under way. Subjects at its places from `walked` on are not in
    cdef uint32_t walked           # num_pending yet; count_ahead() has still to reach them
    cdef long long recounted       # the new num_pending, while it is being recounted

    cdef bint is_counting(self) noexcept
    cdef void set_counted(self, long long num_pending) noexcept
    cdef bint is_pending(self, uint64_t seq, const char *subject, uint32_t length) noexcept

@cython.final
cdef class Store:
    cdef str directory             # None: in memory
    cdef bytes path                # the directory, for C
    cdef bint in_memory
    cdef bint read_only            # somebody else's directory: nothing in it may change
    cdef uint64_t wanted_first, wanted_last    # a reader's: segments without any of these are not loaded
    cdef Groups groups             # what is not in the files yet
    cdef Reports reports
    cdef uint64_t first_seq, last_seq, committed_seq
    cdef uint64_t count            # messages
    cdef uint64_t byte_count       # of these, as in nats-server
    cdef int64_t last_time
    cdef uint64_t logged_first     # what the last FIRST record, or the head of the last segment, said
    cdef SubjectIndex index
    cdef Segment **segments        # by number, which is by sequence, too
    cdef uint32_t segment_count
    cdef uint32_t segment_capacity
    cdef uint64_t segment_bytes    # a segment is sealed before it becomes larger
    cdef uint64_t next_number      # of a segment
    cdef Segment *active           # the last one; NULL: nothing has been written yet
    cdef Segment *graveyard        # memory segments that views may still point into, until the next commit
    cdef uint32_t open_files       # of sealed segments
    cdef Segment *chore_segment    # its file has to stay open: a chore works on it, or is about to; NULL: none does
    cdef int syncing_fd            # the same, because of a sync under way; -1: there is none
    cdef uint64_t reloads          # how often its state was replaced: closed, or rolled back
    cdef bint chores_due             # something became dead since the chores last looked
    cdef list watchers
    cdef Audiences audiences       # the same, by what they ask for
    cdef Window head_window        # of removals at the head
    cdef Window probe              # of single records at random places
    cdef Window reader             # of next() and of scans
    cdef uint64_t first_time_seq   # the message whose time first_time_value is
    cdef int64_t first_time_value

    cdef void reset(self) noexcept
    cdef int adopt(self, Store other) except -1
    cdef void _release(self) noexcept
    cdef Segment *add_segment(self, uint64_t seq) except NULL
    cdef int append_segment(self, Segment *segment) except -1
    cdef void drop_segment(self, uint32_t k) noexcept
    cdef void bury(self, Segment *segment) noexcept
    cdef void free_graveyard(self) noexcept

    cdef uint32_t segment_of(self, uint64_t seq) noexcept
    cdef Segment *locate(self, uint64_t seq, uint32_t *place) noexcept
    cdef bint is_live(self, uint64_t seq) noexcept
    cdef uint64_t next_live(self, uint64_t seq) noexcept
    cdef uint64_t previous_live(self, uint64_t seq) noexcept
    cdef long long count_live(self, uint64_t first, uint64_t last) noexcept
    cdef long long count_matching(self, uint64_t first, uint64_t last, Filter filter) except -1
    cdef long long count_at_places(self, uint64_t first, uint64_t last, Filter filter, uint32_t start,
                                   uint32_t end) except -1
    cdef uint64_t size_of(self, uint32_t subject_length, uint32_t header_length, uint64_t payload_length) noexcept

    cdef bint read(self, Window window, uint64_t seq, Record *record) except -1
    cdef bint seek(self, Window window, uint64_t seq, Filter filter, Record *record) except -1
    cdef int search(self, Window window, uint64_t *seq, Filter filter, uint64_t *looks, Record *record) except -1
    cdef uint64_t _nearest(self, uint64_t seq, Filter filter) noexcept
    cdef bint load(self, Window window, Segment *segment, uint32_t place, Record *record) except -1
    cdef bint load_file(self, Window window, Segment *segment, uint32_t place, Record *record) except -1

    cdef int open_file(self, Segment *segment) except -1
    cdef void close_idle_files(self) noexcept
    cdef void change_packing(self, Segment *segment, Packing *packing) noexcept
