"""A group could not be written: its messages vanish, with those that are pending behind it, and what it removed is back.

    on_done(COMMIT) with an error ─► fail() ─► no job is under way any more ─► ROLLBACK ─► finish_rollback()
                                      │                                          │              │
                              failure: no more writes                 a second log reads    its state is taken over,
                                                                      the files, in a thread  the callbacks are told

The files are the one thing that is certain to agree with what was acknowledged, so the log is re-read from them. That may
take long, and is done by a thread of the committer into a second log, while this one goes on answering: readers see
what is committed. If the files cannot be read either (no descriptors, say), that is tried again later.

After a full disk, and the like, the log takes writes again once there is space. After a failed sync it takes none until it is
reopened by a restart: nobody can know what is on the disk.
"""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.store.chores cimport may_pass
from headrace.engine.store.committer cimport hand_over
from headrace.engine.store.erasing cimport forget_erasures
from headrace.engine.store.recovery cimport recover
from headrace.engine.store.segments cimport ABSENT, Segment, place_of, seq_at
from headrace.engine.store.store cimport Watcher
from headrace.engine.store.subject_index cimport SubjectIndex
from headrace.engine.core.system cimport monotonic
from headrace.engine.store.windows cimport Record

import os

cdef double RETRY_SECONDS = 0.1
cdef uint64_t MOST_RECOUNTED = 5000     # messages that are read, in the loop's thread, to find out who waits for them


cdef int fail(Log log, int error, bint final) except -1:
    if log.failure is not None:
        return 0
    log.failure = f"cannot {'sync' if final else 'write'}: {os.strerror(error)}"
    log.recovers = not final and may_pass(error)
    log.retryable = False
    log.rolling_back = True
    log.wants_commit = log.chore_planned = log.sync_due = False
    log.waiting_failed = log.waiting_flight + log.waiting + log.waiting_erased
    log.waiting = []
    log.waiting_erased = []
    log.waiting_flight = []
    return roll_back(log)


cdef int roll_back(Log log) except -1:
    """Begin, unless a job is under way: then on_done() comes back here."""
    if log.sync_job.under_way:
        log.committer.hurry()
    if log.commit_job.under_way or log.chore.under_way or log.sync_job.under_way or log.rollback_job.under_way:
        return 0
    log.shadow = Log(log.directory, segment_bytes=log.plain_segment_bytes,
                     compression="s2" if log.compress else "none")
    return hand_over(log.committer, log.rollback_job)


cdef void read_again(Log log) noexcept:
    """In a thread. It touches nothing but the second log."""
    cdef Log shadow = log.shadow
    try:
        shadow.found = recover(shadow)
    except Exception as error:     # the edge of a thread: whatever it is, the log stays as it is, and says so
        shadow.failure = str(error) or repr(error)


cdef int finish_rollback(Log log) except -1:
    cdef Log shadow = log.shadow
    cdef list callbacks = log.waiting_failed
    log.shadow = None
    log.waiting_failed = []
    log.retry_at = monotonic() + RETRY_SECONDS
    if shadow.failure is None:
        log._note_found(shadow.found)
        recount(log, shadow)
        take_over(log, shadow)
        log.rolling_back = False
        log.retryable = log.recovers
    else:
        log.warn(f"cannot go back to what is on disk so far: {shadow.failure}")
    return log._call(callbacks, log.failure)


cdef int recount(Log log, Log shadow) except -1:
    """Messages that a group had removed are there again: those who wait for them have to know."""
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
    for k in range(shadow.segment_count if log.watchers else 0):
        fresh = shadow.segments[k]
        old = log.segments[log.segment_place(fresh.base_seq)] if log.segment_count else NULL
        if old != NULL and old.number != fresh.number:
            old = NULL
        if old != NULL and old.sealed and old.live == fresh.live:
            continue
        for n in range(fresh.count):
            seq = seq_at(fresh, n)
            if fresh.offsets[n] == 0 or seq > log.committed_seq:
                continue
            place = place_of(old, seq) if old != NULL else ABSENT
            if place != ABSENT and old.offsets[place]:
                continue
            known = looks > 0 and is_readable(shadow, fresh, n, &record)
            looks -= looks > 0
            for watcher in log.watchers:
                if watcher.filter.everything or known:
                    watcher.num_pending += watcher.is_pending(seq, record.subject, record.subject_length)
                else:
                    watcher.num_pending += seq >= watcher.next_seq     # perhaps: whoever comes to the end finds out
    return 0


cdef bint is_readable(Log shadow, Segment *segment, uint32_t place, Record *record) except -1:
    try:
        return shadow.load(shadow.reader, segment, place, record)
    except (OSError, MemoryError):
        return False


cdef int take_over(Log log, Log shadow) except -1:
    """What the second log has read becomes the state of this one; the second log frees what was."""
    cdef Segment **segments = log.segments
    cdef uint32_t count = log.segment_count, capacity = log.segment_capacity
    cdef SubjectIndex index = log.index
    log.clear_unwritten()
    log.segments, log.segment_count, log.segment_capacity = shadow.segments, shadow.segment_count, shadow.segment_capacity
    shadow.segments, shadow.segment_count, shadow.segment_capacity = segments, count, capacity
    log.index, shadow.index = shadow.index, index
    log.active = shadow.active
    log.open_files = shadow.open_files
    log.first_seq, log.last_seq, log.committed_seq = shadow.first_seq, shadow.last_seq, shadow.committed_seq
    log.count, log.byte_count = shadow.count, shadow.byte_count
    log.last_time, log.logged_first, log.next_number = shadow.last_time, shadow.logged_first, shadow.next_number
    log.first_time_seq = log.enforced_seq = 0
    forget_erasures(log, log.groups_done)
    log.groups = log.groups_done
    log.tidy_due = True
    return 0
