"""Erasing: the text of a deleted message is overwritten, so that nobody finds it in the files.

    remove(seq, erase=True) ─► removed from memory, and queued here
    the group that says so is on disk ─► an ERASE job, as soon as no other chore is under way ─► when_erased()

An erasure never holds up the loop, a publish or the removal itself. If it fails, the message stays removed and the stream
continues: a compressed segment is rewritten as a whole, for which a full disk has no space. The callbacks that wait get
the error, it is reported once, and the erasure is tried again (unless the segment is damaged, or the like: then it
never will be). The queue is in memory only: what is not erased when the log is closed is reported, and goes when its
segment is rewritten or removed.

The segment may be rewritten first: a copy planned before the removal still has the text, at another place.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from headrace.engine.basics.system cimport monotonic
from headrace.engine.segments.files cimport may_pass
from headrace.engine.store.reports cimport call_all
from headrace.engine.segments.segment cimport ABSENT, place_of
from headrace.engine.segments.windows cimport Record, record_length

import os

cdef double PAUSE_SECONDS = 1.0     # before an erasure that failed is tried again


cdef class Erasures:
    def __cinit__(self, Store store not None):
        self.store = store
        self.waiting = []

    def __dealloc__(self):
        free(self.queue)

    cdef int add(self, uint64_t seq) except -1:
        """Queue the text of a message that is about to be removed. Raises OSError if its record cannot be read."""
        cdef Store store = self.store
        cdef uint32_t place
        cdef Segment *segment = store.locate(seq, &place)
        cdef Record record
        cdef Erasure *erasure
        cdef void *grown
        if segment == NULL:
            return 0
        if not store.load(store.probe, segment, place, &record):
            return store.reports.warn(f"message {seq} is damaged: it is removed, but its text is not overwritten")
        if store.in_memory:
            memset(<void *> record.headers, 0, record.header_length + record.payload_length)
            return 0
        if self.count == self.capacity:
            grown = realloc(self.queue, (2 * self.capacity + 2) * sizeof(Erasure))
            if grown == NULL:
                raise MemoryError
            self.queue = <Erasure *> grown
            self.capacity = 2 * self.capacity + 2
        erasure = &self.queue[self.count]
        erasure.number = segment.number
        erasure.salt = segment.salt
        erasure.offset = segment.offsets[place]
        erasure.length = <uint32_t> record_length(&record)
        erasure.seq = seq
        erasure.group = store.groups.submitted + 1
        self.count += 1
        self.retry_at = 0          # a caller waits for it: there may be space by now
        return 0

    cdef Segment *next_due(self, Job *job) except? NULL:
        """Fill a job with what is due in one segment; NULL: nothing is. Texts no longer in any file are dropped."""
        cdef Segment *segment = NULL
        cdef Segment *found
        cdef Erasure *erasure
        cdef uint32_t k, kept = 0, due = 0
        cdef void *grown = realloc(job.erasures, self.count * sizeof(Erasure))
        if grown == NULL:
            raise MemoryError
        job.erasures = <Erasure *> grown
        for k in range(self.count):
            erasure = &self.queue[k]
            found = self._segment_of(erasure)
            if found == NULL:
                continue
            self.queue[kept] = erasure[0]
            kept += 1
            if erasure.group <= self.store.groups.committed and (segment == NULL or segment == found):
                segment = found
                job.erasures[due] = erasure[0]
                due += 1
        self.count = kept
        job.erasure_count = due
        return segment

    cdef Segment *_segment_of(self, const Erasure *erasure) noexcept:
        cdef Segment *segment
        cdef uint32_t k
        for k in range(self.store.segment_count):
            segment = self.store.segments[k]
            if segment.number == erasure.number:
                return segment if segment.salt == erasure.salt else NULL
        return NULL

    cdef int finish(self, Job *job) except -1:
        """The texts of a job are overwritten, or could not be."""
        cdef uint32_t k
        self._remove(job)
        if not job.error:
            return self.report_if_done()
        if may_pass(job.error):
            # After the others, which may be in segments where it works.
            for k in range(job.erasure_count):
                self.queue[self.count] = job.erasures[k]
                self.count += 1
            return self.postpone(os.strerror(job.error))
        self.store.reports.warn(
            f"the text of deleted message {job.erasures[0].seq} cannot be overwritten: {os.strerror(job.error)}")
        return self._report(os.strerror(job.error))

    cdef void _remove(self, const Job *job) noexcept:
        """Take the erasures of a job out of the queue. (There is then room for them at its end.)"""
        cdef uint32_t k, n, kept = 0
        cdef bint found
        for k in range(self.count):
            found = False
            for n in range(job.erasure_count):
                found = found or job.erasures[n].seq == self.queue[k].seq
            if not found:
                self.queue[kept] = self.queue[k]
                kept += 1
        self.count = kept

    cdef int report_if_done(self) except -1:
        if self.count:
            return 0
        self.failure = None
        return self._report(None)

    cdef int postpone(self, str reason) except -1:
        self.retry_at = monotonic() + PAUSE_SECONDS
        if self.failure is None:
            self.store.reports.warn(
                f"the text of deleted message {self.queue[0].seq} cannot be overwritten so far: {reason}")
        self.failure = reason
        return self._report(reason)

    cdef int _report(self, str failure) except -1:
        return call_all(self.take_callbacks(), failure)

    cdef list take_callbacks(self):
        """Returns all waiting callbacks, for the caller to call."""
        cdef list callbacks = self.waiting
        self.waiting = []
        return callbacks

    cdef void follow_rewrite(self, const Segment *old, const Segment *fresh) noexcept:
        """A segment was rewritten: a message that was removed in the meantime is in the new file, too."""
        cdef uint32_t k, place
        for k in range(self.count):
            if self.queue[k].number == old.number and self.queue[k].salt == old.salt:
                place = place_of(fresh, self.queue[k].seq)
                if place != ABSENT:
                    self.queue[k].salt = fresh.salt
                    self.queue[k].offset = fresh.offsets[place]

    cdef void drop_uncommitted(self) noexcept:
        """Drop the erasures of messages whose removal is not on disk: it was rolled back."""
        cdef uint32_t k, kept = 0
        for k in range(self.count):
            if self.queue[k].group <= self.store.groups.committed:
                self.queue[kept] = self.queue[k]
                kept += 1
        self.count = kept
