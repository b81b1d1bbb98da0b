"""Chores: indexing sealed segments, removing dead ones, rewriting those that are mostly dead, compressing the others.

One chore of a log is under way at a time. It is planned when a group is handed over, and started when that group is on
disk: what the plan treats as removed is then removed for good. (Overwriting texts is also a chore: erasing.pyx.)

A segment's REMOVED records are about messages in older segments. They are needed as long as such a message is still in
its file. So the oldest segments can simply be unlinked when all their messages are dead; a dead one in the middle is
unlinked if none of its removals is needed, otherwise rewritten to hold only those.

A segment is rewritten when more than half of it is dead. Dead messages at the very beginning of the log do not count as
long as the beginning keeps moving: a stream that loses its oldest messages is about to lose the whole segment, and
would otherwise copy it again and again until then.

A segment with a damaged record stays as it is until all of it is dead. If it was damaged when the log was opened, nobody
knows what else is in it: it stays, and so do removals of what it may hold, until the log begins after it. After a
transient failure (full disk) chores rest for a minute; after any other the segment is left alone until the next start.

Compressing comes last, and concerns every sealed segment that is not compressed yet, including those written before it
was enabled. If it fails (the disk is full, say), the segment stays as it is, and so do all others for a minute.

A memory store has no chores: a commit frees what is dead and copies what is mostly dead (compact_memory).
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from headrace.engine.basics.system cimport monotonic
from headrace.engine.store.committer cimport COMPRESS, ERASE, INDEX, REWRITE, STAGE_SYNC, UNLINK, hand_over
from headrace.engine.segments.files cimport may_pass, sync_data, truncate_file
from headrace.engine.store.jobs cimport perform
from headrace.engine.store.removing cimport is_incomplete, is_kept
from headrace.engine.segments.record cimport HEAD_SIZE, RecordHead
from headrace.engine.segments.segment cimport (
    ABSENT, SEGMENT_HEAD, Packing, add_message, add_range, clear_ranges, free_packing, free_segment, new_segment, next_place,
    place_of, seq_at,
)

import os

cdef uint64_t WORTH_WHILE = 1024    # bytes that a rewrite must save at least
cdef double PAUSE_SECONDS = 60      # without compressing or rewriting, after it failed
cdef double QUIET_SECONDS = 60      # after which the beginning of the log is assumed to stay where it is


cdef class Chores:
    def __cinit__(self, Store store not None, Writer writer not None):
        self.store = store
        self.writer = writer
        self.erasures = Erasures(store)
        self.epoch = 1
        self.job = <Job *> calloc(1, sizeof(Job))
        if self.job == NULL:
            raise MemoryError
        self.job.directory = store.path

    def __dealloc__(self):
        # A job under way holds a reference to the log, so there is none here.
        if self.job != NULL:
            free(self.job.erasures)
            free(self.job.numbers)
            free(self.job.survivors)
            free(self.job.ranges)
        free(self.job)

    # -- starting -------------------------------------------------------------------------------------------------------

    cdef bint _is_busy(self) noexcept:
        return self.job.under_way or self.planned

    cdef int plan_with_group(self) except -1:
        """A group is about to be written: plan what can be done once it is on disk."""
        if self.store.chores_due and not self._is_busy():
            self.planned = self._plan()
        return 0

    cdef int start_planned(self) except -1:
        """The group is on disk."""
        if self.planned:
            self.planned = False
            hand_over(self.writer.committer, self.job)
        return 0

    cdef int start(self) except -1:
        """Start a chore if there is one and nothing is about to be committed (otherwise it is planned with that group)."""
        if self.store.chores_due and self.writer.failure is None and not self._is_busy() \
                and not self.writer.commit_job.under_way and not self.writer.has_pending() and self._plan():
            hand_over(self.writer.committer, self.job)
        return 0

    cdef int start_erasing(self) except -1:
        """Erase what is due in one segment; if another chore is under way, after that."""
        cdef Segment *segment
        if self.erasures.count == 0 or self._is_busy() or self.writer.failure is not None \
                or monotonic() < self.erasures.retry_at:
            return 0
        segment = self.erasures.next_due(self.job)
        if segment == NULL:
            return self.erasures.report_if_done()      # otherwise their removal is not on disk yet
        if segment.packing != NULL and segment.fd < 0:
            try:
                self.store.open_file(segment)   # another file will have its name before this log is notified
            except OSError as error:
                return self.erasures.postpone(error.strerror)
        self.job.kind = ERASE
        self.job.segment = self.store.chore_segment = segment
        return hand_over(self.writer.committer, self.job)

    cdef void cancel(self) noexcept:
        """Cancel what is planned."""
        if self.planned:
            self.planned = False
            self.store.chore_segment = NULL

    # -- planning -------------------------------------------------------------------------------------------------------

    cdef bint _plan(self) except -1:
        """Fill the job with what is most useful. False: there is nothing to do.

        If there is no memory for the plan, the chore has to wait: nothing else may be held up by it.
        """
        try:
            if not self._plan_something():
                return False
        except MemoryError:
            return False
        # Its file stays open: while it is rewritten, the name may already be the new file's.
        self.store.chore_segment = NULL if self.job.kind == UNLINK else self.job.segment
        return True

    cdef bint _plan_something(self) except -1:
        cdef bint waiting = False
        if self.store.in_memory or self.writer.failure is not None:
            return False
        self.job.directory_first = self.directory_unsynced
        if monotonic() >= self.rewrite_at and self._plan_unlink():
            return True
        self._note_head()
        if self._plan_rewrites(&waiting) or self._plan_index() or self.compress and self._plan_compress():
            return True
        self.store.chores_due = waiting
        return False

    cdef bint _plan_unlink(self) except -1:
        """All dead segments whose removals are no longer needed."""
        cdef Store store = self.store
        cdef uint32_t k, count = 0
        cdef bint oldest = True
        cdef Segment *segment
        cdef void *grown
        grown = realloc(self.job.numbers, (store.segment_count + 1) * sizeof(uint64_t))
        if grown == NULL:
            raise MemoryError
        self.job.numbers = <uint64_t *> grown
        for k in range(store.segment_count):
            segment = store.segments[k]
            if segment.live or not segment.sealed or segment == store.active or is_kept(store, k):
                oldest = False
                continue
            if not oldest:
                # Removals that are needed stay needed until a file goes; do not look again before that.
                if segment.needed_at == self.epoch:
                    continue
                if self._collect_needed(k, NULL):
                    segment.needed_at = self.epoch
                    continue
            self.job.numbers[count] = segment.number
            count += 1
        self.job.number_count = count
        self.job.kind = UNLINK
        return count > 0

    cdef bint _collect_needed(self, uint32_t k, Ranges *needed) except -1:
        """Those removals of a segment whose messages are still in an older file; NULL: only whether there are any."""
        cdef Store store = self.store
        cdef Segment *segment = store.segments[k]
        cdef Segment *older
        cdef uint32_t n, other
        cdef uint64_t first, last, found
        cdef uint64_t begin = max(store.logged_first, store.segments[0].base_seq)
        for n in range(segment.removals.count if k else 0):
            first = max(segment.removals.items[2 * n], begin)
            last = segment.removals.items[2 * n + 1]
            if first > last:
                continue
            for other in range(store.segment_of(first), k):
                older = store.segments[other]
                if older.base_seq > last:
                    break
                found = next_place(older, first)
                if is_incomplete(older) or found < older.count and seq_at(older, found) <= last:
                    if needed == NULL:
                        return True
                    if add_range(needed, first, last) < 0:
                        raise MemoryError
                    break
        return needed != NULL and needed.count > 0

    cdef bint _plan_rewrites(self, bint *waiting) except -1:
        """The first segment that is mostly dead. `waiting`: there is one whose time has not come."""
        cdef Store store = self.store
        cdef bint resting = monotonic() < self.rewrite_at
        cdef uint32_t k
        cdef Segment *segment
        for k in range(store.segment_count):
            segment = store.segments[k]
            if segment.sealed and not segment.given_up and not segment.damaged and segment != store.active \
                    and is_mostly_dead(segment, segment.size):
                if resting or self._is_leaving(segment):
                    waiting[0] = True
                elif self._plan_rewrite(k):
                    return True
        return False

    cdef bint _plan_rewrite(self, uint32_t k) except -1:
        cdef Segment *segment = self.store.segments[k]
        cdef Ranges needed
        cdef uint32_t n, count = 0
        cdef void *grown
        if segment.fd < 0:
            try:
                self.store.open_file(segment)
            except OSError:
                self.rewrite_at = monotonic() + PAUSE_SECONDS
                return False
        grown = realloc(self.job.survivors, (2 * <size_t> segment.live + 1) * sizeof(uint64_t))
        if grown == NULL:
            raise MemoryError
        self.job.survivors = <uint64_t *> grown
        memset(&needed, 0, sizeof(Ranges))
        try:
            self._collect_needed(k, &needed)
        except MemoryError:
            clear_ranges(&needed)
            raise
        for n in range(segment.count):
            if segment.offsets[n]:
                self.job.survivors[2 * count] = seq_at(segment, n)
                self.job.survivors[2 * count + 1] = segment.offsets[n]
                count += 1
        self.job.survivor_count = count
        free(self.job.ranges)
        self.job.ranges = needed.items
        self.job.range_count = needed.count
        self.job.first_seq = self.store.logged_first
        self.job.last_time = self.store.last_time
        self.job.segment = segment
        self.job.kind = REWRITE
        return True

    cdef void _note_head(self) noexcept:
        if self.head_seen and self.head_seen != self.store.first_seq:
            self.head_moved_at = monotonic()
        self.head_seen = self.store.first_seq

    cdef bint _is_leaving(self, const Segment *segment) noexcept:
        """Whether it is the first one, and is mostly dead only because of its first messages."""
        cdef uint32_t place = place_of(segment, self.store.first_seq)
        if place == ABSENT or segment.offsets[place] == 0 or self.head_moved_at + QUIET_SECONDS < monotonic():
            return False
        return not is_mostly_dead(segment, segment.size - segment.offsets[place] + SEGMENT_HEAD)

    cdef bint _plan_index(self) noexcept:
        cdef uint32_t k
        cdef Segment *segment
        for k in range(self.store.segment_count):
            segment = self.store.segments[k]
            if segment.sealed and not segment.indexed and not segment.given_up and segment != self.store.active:
                self.job.kind = INDEX
                self.job.segment = segment
                return True
        return False

    cdef bint _plan_compress(self) except -1:
        cdef uint32_t k
        cdef Segment *segment
        if monotonic() < self.compress_at:
            return False
        for k in range(self.store.segment_count):
            segment = self.store.segments[k]
            if segment.packing != NULL or segment.left_plain or segment.given_up or segment.damaged \
                    or not segment.sealed or segment == self.store.active or segment.live == 0:
                continue
            if segment.fd < 0:
                try:
                    self.store.open_file(segment)
                except OSError:
                    self.compress_at = monotonic() + PAUSE_SECONDS
                    return False
            self.job.segment = segment
            self.job.kind = COMPRESS
            return True
        return False

    # -- finishing ------------------------------------------------------------------------------------------------------

    cdef Outcome finish(self, Job *job) except *:
        """A chore is done: adopt its result."""
        cdef bint valid = True         # the store is still the one that the chore was planned for
        self.store.chore_segment = NULL
        if job.kind in (REWRITE, UNLINK) and job.directory_first and not job.error:
            self.directory_unsynced = False
        if job.directory_unsynced:
            self.directory_unsynced = True
            self.store.reports.warn(
                "the directory cannot be synced: a file that was replaced may be back after a power failure")
        if job.kind == ERASE:
            if job.error and job.stage == STAGE_SYNC:
                return SYNC_FAILED
            valid = self._finish_erase(job)
        elif job.kind == INDEX:
            self._finish_index(job)
        elif job.kind == REWRITE:
            self._finish_rewrite(job)
        elif job.kind == COMPRESS:
            valid = self._finish_compress(job)
        else:
            valid = self._finish_unlink(job)
        free(job.survivors)
        job.survivors = NULL
        return CONTINUE if valid else ROLLED_BACK

    cdef int _finish_index(self, Job *job) except -1:
        job.segment.indexed = True
        job.segment.damaged = job.segment.damaged or job.damaged
        job.segment.given_up = job.error != 0 and not may_pass(job.error)
        return 0

    cdef int _finish_rewrite(self, Job *job) except -1:
        if job.damaged:
            job.segment.damaged = True
            self.store.reports.warn(f"segment {job.segment.number} is damaged and stays as it is")
        elif job.error:
            self.rewrite_at = monotonic() + PAUSE_SECONDS
            job.segment.given_up = not may_pass(job.error)
            self.store.reports.warn(
                f"segment {job.segment.number} cannot be rewritten: {os.strerror(job.error)}")
        else:
            self._replace(job.segment, job.replacement)
        return 0

    cdef int _replace(self, Segment *old, Segment *fresh) except -1:
        """Replace the old segment with the rewritten one; what was removed in the meantime is removed there, too."""
        cdef Store store = self.store
        cdef uint32_t k, place
        cdef uint64_t end
        if not self.writer.wait_for_sync(old):
            free_segment(fresh)
            return 0
        for k in range(fresh.count):
            place = place_of(old, seq_at(fresh, k))
            if place == ABSENT or old.offsets[place] == 0:
                end = fresh.size
                if k + 1 < fresh.count:
                    end = fresh.offsets[k + 1]
                fresh.live_bytes -= end - fresh.offsets[k]
        self.erasures.follow_rewrite(old, fresh)
        # A second pass, as the first one needs all offsets.
        for k in range(fresh.count):
            place = place_of(old, seq_at(fresh, k))
            if place == ABSENT or old.offsets[place] == 0:
                fresh.offsets[k] = 0
                fresh.live -= 1
        for k in range(store.segment_count):
            if store.segments[k] == old:
                self.epoch += 1
                store.segments[k] = fresh
                break
        free_segment(old)
        store.open_files += 1
        return 0

    cdef bint _finish_unlink(self, Job *job) except -1:
        """False: the log was rolled back instead."""
        cdef Store store = self.store
        cdef Segment *segment
        cdef uint32_t k, n
        if job.error:
            store.reports.warn(f"dead segments cannot be removed: {os.strerror(job.error)}")
            self.rewrite_at = monotonic() + PAUSE_SECONDS
            for k in range(store.segment_count):
                if not may_pass(job.error) and store.segments[k].live == 0:
                    store.segments[k].given_up = True
            return True
        for n in range(job.number_count):
            for k in range(store.segment_count):
                segment = store.segments[k]
                if segment.number == job.numbers[n]:
                    if not self.writer.wait_for_sync(segment):
                        return False
                    self.epoch += 1
                    store.drop_segment(k)
                    free_segment(segment)
                    break
        return True

    cdef bint _finish_compress(self, Job *job) except -1:
        """A segment was compressed: read the new file from now on. False: the log was rolled back instead."""
        job.segment.damaged = job.segment.damaged or job.damaged
        if job.error:
            self.compress_at = monotonic() + PAUSE_SECONDS
            job.segment.left_plain = not may_pass(job.error)
            if not self.compress_failing:      # once, until it works again
                self.store.reports.warn(
                    f"a segment cannot be compressed and stays as it is: {os.strerror(job.error)}")
            self.compress_failing = True
            return True
        self.compress_failing = False
        if job.packing == NULL:
            job.segment.left_plain = True
            return True
        return self._adopt_packing(job)

    cdef bint _finish_erase(self, Job *job) except -1:
        """False: the log was rolled back instead."""
        if job.packing != NULL and not self._adopt_packing(job):
            return False
        self.erasures.finish(job)
        return True

    cdef bint _adopt_packing(self, Job *job) except -1:
        """The file of a segment was replaced by a compressed one. False: the log was rolled back instead."""
        cdef Packing *packing = job.packing
        job.packing = NULL
        if not self.writer.wait_for_sync(job.segment):
            free_packing(packing)
            return False
        self.store.change_packing(job.segment, packing)
        return True

    # -- closing --------------------------------------------------------------------------------------------------------

    cdef int write_indexes(self) except -1:
        """For the active segment, and those whose turn did not come. No job is under way."""
        cdef Store store = self.store
        cdef Job job
        cdef uint32_t k
        memset(&job, 0, sizeof(Job))
        job.kind = INDEX
        job.directory = store.path
        if store.active != NULL and store.active.fd >= 0:
            if truncate_file(store.active.fd, store.active.size) or sync_data(store.active.fd):
                return 0
        for k in range(store.segment_count):
            job.segment = store.segments[k]
            if not job.segment.indexed or job.segment == store.active:
                with nogil:
                    perform(&job)
        return 0


cdef bint is_mostly_dead(const Segment *segment, uint64_t size) noexcept:
    cdef uint64_t useful = SEGMENT_HEAD + segment.live_bytes + 16 * <uint64_t> segment.removals.count + HEAD_SIZE
    return 2 * useful < size and size - useful >= WORTH_WHILE


# -- in memory ----------------------------------------------------------------------------------------------------------

cdef int compact_memory(Store store) except -1:
    cdef uint32_t k = 0
    cdef Segment *segment
    store.chores_due = False
    while k < store.segment_count:
        segment = store.segments[k]
        if segment == store.active:
            k += 1
        elif segment.live == 0:
            store.drop_segment(k)
            store.bury(segment)
        else:
            if 2 * (SEGMENT_HEAD + segment.live_bytes) < segment.size:
                store.segments[k] = copy_survivors(segment)
                store.bury(segment)
            k += 1
    return 0


cdef Segment *copy_survivors(const Segment *old) except NULL:
    cdef Segment *fresh = new_segment(old.number, old.base_seq)
    cdef const RecordHead *head
    cdef uint32_t k
    if fresh == NULL:
        raise MemoryError
    fresh.allocated = SEGMENT_HEAD + old.live_bytes
    fresh.memory = <char *> malloc(fresh.allocated)
    fresh.deltas = <uint32_t *> malloc((old.live + 1) * sizeof(uint32_t))
    fresh.offsets = <uint32_t *> malloc((old.live + 1) * sizeof(uint32_t))
    fresh.capacity = old.live + 1
    if fresh.memory == NULL or fresh.deltas == NULL or fresh.offsets == NULL:
        free_segment(fresh)
        raise MemoryError
    fresh.sealed = True
    fresh.first_time = old.first_time
    for k in range(old.count):
        if old.offsets[k]:
            head = <const RecordHead *> (old.memory + old.offsets[k])
            memcpy(fresh.memory + fresh.size, head, head.length)
            add_message(fresh, seq_at(old, k), <uint32_t> fresh.size, head.length)
            fresh.size += head.length
    return fresh
