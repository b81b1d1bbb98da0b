"""A group could not be written: its messages vanish, with those pending after it, and what it removed is back.

    COMMIT fails ─► no more writes ─► no job is under way any more ─► ROLLBACK ─► finish()
                                                                         │            │
                                                            a second store reads   its state is adopted,
                                                            the files, in a thread  the callbacks get the failure

The files are the one thing that is certain to agree with what was acknowledged, so the log is re-read from them. That may
take long, and is done by a thread of the committer into a second store, while the first one still answers: readers see
what is committed. If the files cannot be read either (no descriptors, say), the rollback is tried again later.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from headrace.engine.store.committer cimport ROLLBACK, hand_over
from headrace.engine.store.recovery cimport recover
from headrace.engine.segments.segment cimport ABSENT, Segment, place_of, seq_at
from headrace.engine.store.store cimport Watcher
from headrace.engine.segments.windows cimport Record

cdef uint64_t MOST_RECOUNTED = 5000     # messages read, in the loop's thread, to find out who waits for them


cdef class Rollback:
    def __cinit__(self, Store store not None):
        self.store = store
        self.waiting = []
        self.job = <Job *> calloc(1, sizeof(Job))
        if self.job == NULL:
            raise MemoryError
        self.job.kind = ROLLBACK

    def __dealloc__(self):
        # A job under way holds a reference to the log, so there is none here.
        free(self.job)

    cdef int start(self, Committer committer) except -1:
        """No other job of the log is under way."""
        self.replacement = Store(self.store.directory, self.store.segment_bytes)
        self.found = self.error = None
        return hand_over(committer, self.job)

    cdef void read_files(self) noexcept:
        """In a thread. It touches nothing of the store that is in use."""
        try:
            self.found = recover(self.replacement)
        except Exception as error:     # the edge of a thread: whatever it is, the log stays as it is and reports it
            self.error = str(error) or repr(error)

    cdef bint finish(self) except -1:
        """Adopt what the thread has read. False: it could not read the files."""
        cdef Store replacement = self.replacement
        self.replacement = None
        if self.error is not None:
            self.store.reports.warn(f"cannot go back to what is on disk so far: {self.error}")
            return False
        self.store.reports.add_damages(self.found)
        recount(self.store, replacement)
        self.store.adopt(replacement)
        self.due = False
        return True

    cdef list take_callbacks(self):
        """Returns all waiting callbacks, for the caller to call."""
        cdef list callbacks = self.waiting
        self.waiting = []
        return callbacks


cdef int recount(Store store, Store replacement) except -1:
    """Messages that a group had removed are back: tell the readers that wait for them."""
    cdef uint32_t k, n, place
    cdef bint known
    cdef uint64_t seq
    cdef Segment *old
    cdef Segment *fresh
    cdef Record record
    cdef Watcher watcher
    cdef uint64_t looks = MOST_RECOUNTED
    record.subject = b""
    record.subject_length = 0
    for k in range(replacement.segment_count if store.watchers else 0):
        fresh = replacement.segments[k]
        old = store.segments[store.segment_of(fresh.base_seq)] if store.segment_count else NULL
        if old != NULL and old.number != fresh.number:
            old = NULL
        if old != NULL and old.sealed and old.live == fresh.live:
            continue
        for n in range(fresh.count):
            seq = seq_at(fresh, n)
            if fresh.offsets[n] == 0 or seq > store.committed_seq:
                continue
            place = place_of(old, seq) if old != NULL else ABSENT
            if place != ABSENT and old.offsets[place]:
                continue
            known = looks > 0 and is_readable(replacement, fresh, n, &record)
            looks -= looks > 0
            for watcher in store.watchers:
                if watcher.filter.everything or known:
                    watcher.num_pending += watcher.is_pending(seq, record.subject, record.subject_length)
                else:
                    watcher.num_pending += seq >= watcher.next_seq     # perhaps: corrected at the end
    return 0


cdef bint is_readable(Store store, Segment *segment, uint32_t place, Record *record) except -1:
    try:
        return store.load(store.reader, segment, place, record)
    except (OSError, MemoryError):
        return False
