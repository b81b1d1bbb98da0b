"""The writer: appends records to the active segment of a store, and commits them in groups.

    append ─► groups.pending ══ begin_commit(), submit() ══► groups.in_flight ─► write, fdatasync ─► finish_commit()
                   ▲                                                                                      │
                   └────────────────────────────── filled meanwhile ──────────────────────────────────────┘ next commit

Group commit: at most one group is under way. Everything that arrives in the meantime is in the next one: the busier the
disk, the larger the groups.

Every removal becomes a record of the group, so that recovery is pure replay and knows no policy (a change of limits cannot
resurrect anything): at the head as one FIRST record per group, in the middle as one REMOVED record per group.

With a sync_interval a group is committed when it is written, and a SYNC job follows at the end of the interval.

After a failure nothing is appended. After a full disk, and the like, the writer tries again once there is space; after a
failed sync, only once a restart has reopened the log: nobody can know what is on the disk. What happens to the
messages of a failed group is in rollback.pyx.
"""

from libc.errno cimport EOPNOTSUPP, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from headrace.engine.basics.system cimport monotonic, wall_clock
from headrace.engine.store.committer cimport COMMIT, SYNC, hand_over
from headrace.engine.segments.files cimport fallocate, may_pass, random_salt
from headrace.engine.store.groups cimport Buffer, Part
from headrace.engine.segments.record cimport (
    FIRST, HEAD_SIZE, MESSAGE, REMOVED, RecordHead, control_length, prepare_crc32c, seal_record, write_control,
)
from headrace.engine.segments.segment cimport ABSENT, SEGMENT_HEAD, SegmentHead, add_message, add_range, write_segment_head
from headrace.engine.store.removing cimport begin_with
from headrace.engine.store.subject_index cimport count_message
from headrace.engine.store.watching cimport note_committed

import os

prepare_crc32c()

cdef uint64_t FIRST_MEMORY = 16 * 1024
cdef uint64_t LARGEST_MEMORY = 1024 * 1024
cdef uint32_t RANGES_PER_RECORD = 65536
cdef double RETRY_SECONDS = 0.1


cdef class Writer:
    def __cinit__(self, Store store not None, Committer committer):
        self.store = store
        self.groups = store.groups
        self.committer = committer
        self.waiting = []
        self.waiting_in_flight = []
        self.commit_job = <Job *> calloc(1, sizeof(Job))
        self.sync_job = <Job *> calloc(1, sizeof(Job))
        if self.commit_job == NULL or self.sync_job == NULL:
            raise MemoryError
        self.commit_job.kind = COMMIT
        self.sync_job.kind = SYNC
        self.commit_job.directory = self.sync_job.directory = store.path

    def __dealloc__(self):
        # A job under way holds a reference to the log, so there is none here.
        free(self.commit_job)
        free(self.sync_job)

    # -- appending ------------------------------------------------------------------------------------------------------

    cdef Entry *append_message(self, const char *subject, uint32_t subject_length, const char *body,
                               uint32_t header_length, Py_ssize_t size, int64_t time, uint64_t seq) except NULL:
        """Append a message: `body` is the headers and the payload, `size` bytes in all. Its subject's entry in the index."""
        cdef size_t length = HEAD_SIZE + <size_t> subject_length + <size_t> size
        cdef RecordHead *head
        cdef Segment *active
        cdef Entry *entry = self.store.index.add(subject, subject_length)
        try:
            head = <RecordHead *> self._room(seq, length)
            active = self.store.active
            if add_message(active, seq, <uint32_t> (active.size - length), <uint32_t> length) < 0:
                self._withdraw(length)
                raise MemoryError
        except MemoryError:
            if entry.count == 0:
                self.store.index.discard(entry)
            raise
        head.length = <uint32_t> length
        head.seq = seq
        head.time = time if time else wall_clock()
        head.previous = entry.last if entry.count and not entry.last_stale else 0
        head.header_length = header_length
        head.subject_length = subject_length
        head.kind = MESSAGE
        head.flags = 0
        memcpy(<char *> head + HEAD_SIZE, subject, subject_length)
        memcpy(<char *> head + HEAD_SIZE + subject_length, body, size)
        if not self.store.in_memory:
            seal_record(head, active.salt)
        if active.first_time == 0:
            active.first_time = head.time
        count_message(entry, seq)
        entry.last_stale = False
        if self.store.count == 0:
            begin_with(self.store, seq)
        self.store.count += 1
        self.groups.pending.messages += 1
        self.store.byte_count += self.store.size_of(subject_length, header_length, size - header_length)
        self.store.last_seq = seq
        self.store.last_time = head.time
        return entry

    cdef char *_room(self, uint64_t seq, size_t length) except NULL:
        """Room for a record in the active segment, which may be a new one."""
        cdef Segment *active = self.store.active
        cdef Buffer *pending = self.groups.pending
        cdef char *data
        if self.store.in_memory:
            return self._room_in_memory(seq, length)
        if active == NULL or active.size + length > self.store.segment_bytes and active.size > SEGMENT_HEAD \
                or seq >= active.base_seq + ABSENT:
            self._begin_segment(seq)
            active = self.store.active
        if pending.part_count == 0 or pending.parts[pending.part_count - 1].segment != active:
            self.groups.begin_part(active, active.size, False)
        data = self.groups.reserve(length)
        pending.parts[pending.part_count - 1].length += length
        pending.size += length
        active.size += length
        return data

    cdef void _withdraw(self, size_t length) noexcept:
        """Give back the last _room(), which was not used."""
        cdef Buffer *pending = self.groups.pending
        self.store.active.size -= length
        if not self.store.in_memory:
            pending.size -= length
            pending.parts[pending.part_count - 1].length -= length

    cdef char *_room_in_memory(self, uint64_t seq, size_t length) except NULL:
        cdef Store store = self.store
        cdef Segment *segment = store.active
        cdef uint64_t capacity = FIRST_MEMORY
        cdef char *memory
        if segment == NULL or segment.size + length > segment.allocated or seq >= segment.base_seq + ABSENT:
            if segment != NULL:
                capacity = min(2 * segment.allocated, LARGEST_MEMORY)
            if capacity < SEGMENT_HEAD + length:
                capacity = SEGMENT_HEAD + length
            memory = <char *> malloc(capacity)
            if memory == NULL:
                raise MemoryError
            try:
                segment = store.add_segment(seq)
            except MemoryError:
                free(memory)
                raise
            segment.memory = memory
            segment.allocated = capacity
            if store.active != NULL:
                store.active.sealed = True
                if 2 * store.active.live_bytes < store.active.size:
                    store.chores_due = True
            store.active = segment
        segment.size += length
        return segment.memory + segment.size - length

    cdef int _begin_segment(self, uint64_t seq) except -1:
        """Seal the active segment and begin the next one. Both happen on disk when the group is written."""
        cdef Store store = self.store
        cdef SegmentHead head
        cdef Segment *segment
        cdef Part *part
        # Allocate all memory first: half a segment in the list would lose what is appended to it.
        self.groups.reserve_parts(2)
        self.groups.reserve(SEGMENT_HEAD)
        segment = store.add_segment(seq)
        segment.limit = store.segment_bytes
        segment.salt = random_salt()
        if store.active != NULL:
            part = self.groups.part_of(store.active)
            part.seal = True
        store.active = segment
        head.number = segment.number
        head.base_seq = seq
        head.first_seq = store.first_seq
        head.last_time = store.last_time
        head.salt = segment.salt
        head.plain_size = 0
        part = self.groups.begin_part(segment, 0, True)
        write_segment_head(self.groups.reserve(SEGMENT_HEAD), &head)
        part.length = SEGMENT_HEAD
        self.groups.pending.size += SEGMENT_HEAD
        return 0

    cdef int append_control(self, int kind, uint64_t seq, const uint64_t *ranges, uint32_t count) except -1:
        """Append a record about other messages: FIRST, REMOVED or SKIP."""
        cdef char *room = self._room(self.store.last_seq + 1, control_length(count))
        write_control(<RecordHead *> room, kind, seq, self.store.last_time, ranges, count, self.store.active.salt)
        return 0

    cdef int _append_removals(self) except -1:
        """Write what was removed since the last group as records."""
        cdef Store store = self.store
        cdef uint32_t k, kept = 0, some
        cdef uint64_t *items = self.groups.removed.items
        if self._first_moved():
            self.append_control(FIRST, store.first_seq, NULL, 0)
            store.logged_first = store.first_seq
        for k in range(self.groups.removed.count):
            if items[2 * k + 1] >= store.first_seq:
                items[2 * kept] = items[2 * k]
                items[2 * kept + 1] = items[2 * k + 1]
                kept += 1
        k = 0
        while k < kept:
            some = kept - k if kept - k < RANGES_PER_RECORD else RANGES_PER_RECORD
            self.append_control(REMOVED, store.last_seq, items + 2 * k, some)
            # As long as the file with this record exists, it has to keep the record: see chores.pyx.
            while some:
                if add_range(&store.active.removals, items[2 * k], items[2 * k + 1]) < 0:
                    raise MemoryError
                k += 1
                some -= 1
        self.groups.removed.count = 0
        return 0

    # -- committing -----------------------------------------------------------------------------------------------------

    cdef bint has_pending(self) noexcept:
        """Whether something was appended or removed since the last commit."""
        return self.groups.pending.size != 0 or self.groups.removed.count != 0 or self._first_moved()

    cdef bint _first_moved(self) noexcept:
        """Whether the disk does not know yet where the log begins. (A log that begins with 1 need not say so.)"""
        return self.store.first_seq > self.store.logged_first and self.store.first_seq > 1

    cdef bint begin_commit(self) except -1:
        """Close the group that is pending. False: there is none, or the committer is busy with the last one."""
        self.wants_commit = self.commit_job.under_way
        if self.wants_commit or not self.has_pending():
            return False
        self._append_removals()
        self.groups.submit(self.store.last_seq)
        self.waiting_in_flight = self.waiting
        self.waiting = []
        return True

    cdef int submit(self) except -1:
        """Hand the group in flight to the committer."""
        self.commit_job.buffer = self.groups.in_flight
        self.commit_job.sync = self.committer is None or self.committer.sync_interval <= 0
        return hand_over(self.committer, self.commit_job)

    cdef list finish_commit(self):
        """The group in flight is on disk. The callbacks that waited for it."""
        cdef list callbacks = self.waiting_in_flight
        cdef Buffer *group = self.groups.in_flight
        cdef Part *part
        cdef uint32_t k
        note_committed(self.store, group.last_seq)
        for k in range(group.part_count):
            part = &group.parts[k]
            part.segment.written = part.offset + part.length
            if part.seal:
                part.segment.sealed = True
                part.segment.indexed = False
                self.store.open_files += 1
                self.store.chores_due = True
        self.groups.finish()
        if not self.commit_job.sync:
            self.sync_due = True
            self.sync_later()
        self.waiting_in_flight = []
        return callbacks

    cdef int sync_later(self) except -1:
        """With a sync_interval: sync what has been written, with the current sync or the next one."""
        cdef Segment *active = self.store.active
        if self.sync_job.under_way:
            self.sync_due = True
        elif self.sync_due and active != NULL and active.fd >= 0:
            self.sync_due = False
            self.sync_job.fd = self.store.syncing_fd = active.fd
            self.committer.submit(self.sync_job)
        return 0

    cdef bint wait_for_sync(self, const Segment *segment) except -1:
        """Its file is about to be closed. False: the sync failed, so the log was rolled back; the segment is gone."""
        cdef bint failing = self.failure is not None   # a rollback waits for the caller
        while self.sync_job.under_way and self.sync_job.fd == segment.fd:
            self.committer.wait_for(self.sync_job)
            if self.failure is not None and not failing:
                return False
        return True

    cdef list take_callbacks(self):
        """Returns all waiting callbacks, for the caller to call."""
        cdef list callbacks = self.waiting_in_flight + self.waiting
        self.waiting = []
        self.waiting_in_flight = []
        return callbacks

    # -- failure --------------------------------------------------------------------------------------------------------

    cdef int fail(self, int error, bint final) except -1:
        """Write nothing more; `final`: not before a restart."""
        self.failure = f"cannot {'sync' if final else 'write'}: {os.strerror(error)}"
        self.recovers = not final and may_pass(error)
        self.retryable = False
        self.wants_commit = self.sync_due = False
        return 0

    cdef void rolled_back(self) noexcept:
        """The store agrees with the disk again."""
        self.retryable = self.recovers

    cdef void pause(self) noexcept:
        self.retry_at = monotonic() + RETRY_SECONDS

    cdef bint try_again(self) except -1:
        """After a full disk: whether there is space again."""
        cdef Segment *active = self.store.active
        cdef uint64_t wanted
        if not self.retryable or monotonic() < self.retry_at:
            return False
        self.pause()
        if active != NULL and active.fd >= 0:
            wanted = active.size + min(self.store.segment_bytes, <uint64_t> 65536)
            if fallocate(active.fd, 0, 0, wanted) < 0:
                if errno != EOPNOTSUPP:
                    return False
            elif active.allocated < wanted:
                active.allocated = wanted
        self.failure = None
        self.retryable = False
        return True
