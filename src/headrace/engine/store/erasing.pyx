"""Erasing: the text of a deleted message is overwritten, so that nobody finds it in the files.

    remove(seq, erase=True) ─► removed from memory, and queued here
    the group that says so is on disk ─► an ERASE job, as soon as no other chore is under way ─► when_erased()

An erasure never holds up the loop, a publish or the removal itself. If it fails, the message stays removed and the stream
goes on: a compressed segment is rewritten as a whole, for which a full disk has no space. Whoever waits is told, it is
said once, and tried again (unless the segment is damaged, or the like: then it never will be). The queue is in memory only: what is not erased when the log is closed is reported, and goes when
its segment is rewritten or removed.

Meanwhile the segment may be rewritten: a copy that was planned before the removal has the text, too, at another place.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from headrace.engine.store.chores cimport may_pass, wait_for_sync
from headrace.engine.store.committer cimport ERASE, STAGE_SYNC, Erasure, hand_over
from headrace.engine.store.failing cimport fail
from headrace.engine.store.record cimport HEAD_SIZE
from headrace.engine.store.segments cimport ABSENT, Packing, free_packing, place_of
from headrace.engine.core.system cimport monotonic
from headrace.engine.store.windows cimport Record

import os

cdef double PAUSE_SECONDS = 1.0     # before an erasure that failed is tried again


cdef int plan_erasure(Log log, uint64_t seq) except -1:
    """Queue the text of a message that is about to be removed. Raises OSError if its record cannot be read."""
    cdef Segment *segment = log.segments[log.segment_place(seq)]
    cdef uint32_t place = place_of(segment, seq)
    cdef Record record
    cdef Erasure *erasure
    cdef void *grown
    if not log.load(log.probe, segment, place, &record):
        log.warn(f"message {seq} is damaged: it is removed, but its text is not overwritten")
        return 0
    if log.in_memory:
        memset(<void *> record.headers, 0, record.header_length + record.payload_length)
        return 0
    if log.unerased_count == log.unerased_capacity:
        grown = realloc(log.unerased, (2 * log.unerased_capacity + 2) * sizeof(Erasure))
        if grown == NULL:
            raise MemoryError
        log.unerased = <Erasure *> grown
        log.unerased_capacity = 2 * log.unerased_capacity + 2
    erasure = &log.unerased[log.unerased_count]
    erasure.number = segment.number
    erasure.salt = segment.salt
    erasure.offset = segment.offsets[place]
    erasure.length = <uint32_t> (HEAD_SIZE + record.subject_length + record.header_length + record.payload_length)
    erasure.seq = seq
    erasure.group = log.groups + 1
    log.unerased_count += 1
    log.erase_at = 0               # somebody waits for it: there may be space by now
    return 0


cdef int start_erasing(Log log) except -1:
    """Erase what is due in one segment, unless another chore is under way: then it follows that."""
    cdef Segment *segment
    if log.unerased_count == 0 or log.chore.under_way or log.chore_planned or log.failure is not None \
            or monotonic() < log.erase_at:
        return 0
    segment = next_segment(log)
    if segment == NULL:
        if log.unerased_count:
            return 0               # their removal is not on disk so far
        log.erase_failure = None
        return tell(log, None)
    log.chore.segment = segment
    if segment.packing != NULL and segment.fd < 0:
        try:
            log.open_file(segment)  # its name will be that of another file before we hear of it
        except OSError as error:
            return postpone(log, error.strerror)
    log.chore.kind = ERASE
    return hand_over(log.committer, log.chore)


cdef Segment *next_segment(Log log) except? NULL:
    """Fill log.chore with the first segment that has something due. What is in no file any more is dropped."""
    cdef Segment *segment = NULL
    cdef Segment *found
    cdef Erasure *erasure
    cdef uint32_t k, kept = 0, count = 0
    cdef void *grown = realloc(log.chore.erasures, log.unerased_count * sizeof(Erasure))
    if grown == NULL:
        raise MemoryError
    log.chore.erasures = <Erasure *> grown
    for k in range(log.unerased_count):
        erasure = &log.unerased[k]
        found = segment_of(log, erasure)
        if found == NULL:
            continue
        log.unerased[kept] = erasure[0]
        kept += 1
        if erasure.group <= log.groups_done and (segment == NULL or segment == found):
            segment = found
            log.chore.erasures[count] = erasure[0]
            count += 1
    log.unerased_count = kept
    log.chore.erasure_count = count
    return segment


cdef Segment *segment_of(Log log, const Erasure *erasure) noexcept:
    cdef uint32_t k
    for k in range(log.segment_count):
        if log.segments[k].number == erasure.number:
            return log.segments[k] if log.segments[k].salt == erasure.salt else NULL
    return NULL


cdef int finish_erasing(Log log, Job *job) except -1:
    cdef Packing *packing = job.packing
    cdef uint32_t k
    job.packing = NULL
    if job.error:
        if job.stage == STAGE_SYNC:
            return fail(log, job.error, True)
        take_out(log, job)
        if may_pass(job.error):
            # Behind the others, which may be in segments where it works.
            for k in range(job.erasure_count):
                log.unerased[log.unerased_count] = job.erasures[k]
                log.unerased_count += 1
            return postpone(log, os.strerror(job.error))
        log.warn(f"the text of deleted message {job.erasures[0].seq} cannot be overwritten: {os.strerror(job.error)}")
        return tell(log, os.strerror(job.error))
    if packing != NULL:
        if not wait_for_sync(log, job.segment):
            free_packing(packing)
            return 0
        log.change_packing(job.segment, packing)
    take_out(log, job)
    if log.unerased_count == 0:
        log.erase_failure = None
        return tell(log, None)
    return 0


cdef void take_out(Log log, const Job *job) noexcept:
    """The erasures of a job are not in the queue any more. (There is room for them at its end.)"""
    cdef uint32_t k, n, kept = 0
    cdef bint found
    for k in range(log.unerased_count):
        found = False
        for n in range(job.erasure_count):
            found = found or job.erasures[n].seq == log.unerased[k].seq
        if not found:
            log.unerased[kept] = log.unerased[k]
            kept += 1
    log.unerased_count = kept


cdef int postpone(Log log, str reason) except -1:
    log.erase_at = monotonic() + PAUSE_SECONDS
    if log.erase_failure is None:
        log.warn(f"the text of deleted message {log.unerased[0].seq} cannot be overwritten so far: {reason}")
    log.erase_failure = reason
    return tell(log, reason)


cdef int tell(Log log, object failure) except -1:
    cdef list callbacks = log.waiting_erased
    log.waiting_erased = []
    return log._call(callbacks, failure)


cdef int follow_rewrite(Log log, const Segment *old, Segment *fresh) except -1:
    """A segment was rewritten: a message that was removed meanwhile is in the new file, too."""
    cdef uint32_t k, place
    for k in range(log.unerased_count):
        if log.unerased[k].number == old.number and log.unerased[k].salt == old.salt:
            place = place_of(fresh, log.unerased[k].seq)
            if place != ABSENT:
                log.unerased[k].salt = fresh.salt
                log.unerased[k].offset = fresh.offsets[place]
    return 0


cdef void forget_erasures(Log log, uint64_t after) noexcept:
    """Those of messages whose removal was in a group after that one: it was taken back."""
    cdef uint32_t k, kept = 0
    for k in range(log.unerased_count):
        if log.unerased[k].group <= after:
            log.unerased[kept] = log.unerased[k]
            kept += 1
    log.unerased_count = kept
