"""Chores: indexing sealed segments, removing dead ones, rewriting those that are mostly dead, compressing the others.

One chore of a log is under way at a time. It is planned when a group is handed over, and started when that group is on
disk: everything that the plan takes for removed is then removed for good. (Overwriting texts is one, too: erasing.pyx.)

A segment's REMOVED records speak of messages in older segments. They are needed as long as such a message is still in
its file. So the oldest segments can simply be unlinked when all their messages are dead; a dead one in the middle is
unlinked if none of its removals is needed, else rewritten to hold only those.

A segment is rewritten when more than half of it is dead. What is dead at the very beginning of the log does not count as long
as the beginning moves: a stream that loses its oldest messages is about to lose the whole segment, and would copy it
again and again until then.

A segment with a damaged record stays as it is until all of it is dead. After a failure that may pass (a full disk) chores
rest for a minute; after any other the segment is left alone until the next start.

Compressing comes last, and concerns every sealed segment that is not compressed so far: those that were written before it
was asked for, too. If it fails (the disk is full, say), the segment stays as it is, and so do all others for a minute.

A memory store has no chores: commit() frees what is dead and copies what is mostly dead.
"""

from libc.errno cimport EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM, ENOSPC
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from headrace.engine.store.committer cimport COMPRESS, ERASE, INDEX, REWRITE, UNLINK
from headrace.engine.store.erasing cimport finish_erasing, follow_rewrite, start_erasing
from headrace.engine.store.record cimport HEAD_SIZE, RecordHead
from headrace.engine.store.segments cimport (
    ABSENT, SEGMENT_HEAD, Packing, Ranges, Segment, add_message, add_range, clear_ranges, end_seq, free_packing, free_segment,
    new_segment, next_place, place_of, seq_at,
)
from headrace.engine.core.system cimport monotonic

import os

cdef uint64_t WORTH_WHILE = 1024    # bytes that a rewrite must save at least
cdef double PAUSE_SECONDS = 60      # without compressing or rewriting, after it failed
cdef double QUIET_SECONDS = 60      # after which the beginning of the log is taken to stay where it is


cdef bint may_pass(int error) noexcept:
    """Whether what failed may work later: there was no space, no descriptor, no memory."""
    return error in (ENOSPC, EDQUOT, EFBIG, EMFILE, ENFILE, ENOMEM)


cdef bint plan_chore(Log log) except -1:
    """Fill log.chore with what is most useful. False: there is nothing to do."""
    cdef uint32_t k
    cdef Segment *segment
    cdef bint resting = monotonic() < log.rewrite_at, waiting = False
    if log.in_memory or log.failure is not None:
        return False
    log.chore.directory_first = log.directory_unsynced
    if not resting and plan_unlink(log):
        return True
    note_head(log)
    for k in range(log.segment_count):
        segment = log.segments[k]
        if segment.sealed and not segment.given_up and not segment.damaged and segment != log.active \
                and is_mostly_dead(segment, segment.size):
            if resting or is_leaving(log, segment):
                waiting = True
            elif plan_rewrite(log, k):
                return True
    for k in range(log.segment_count):
        segment = log.segments[k]
        if segment.sealed and not segment.indexed and not segment.given_up and segment != log.active:
            log.chore.kind = INDEX
            log.chore.segment = segment
            return True
    if log.compress and plan_compress(log):
        return True
    log.tidy_due = waiting
    return False


cdef bint is_mostly_dead(const Segment *segment, uint64_t size) noexcept:
    cdef uint64_t useful = SEGMENT_HEAD + segment.live_bytes + 16 * <uint64_t> segment.removals.count + HEAD_SIZE
    return 2 * useful < size and size - useful >= WORTH_WHILE


cdef void note_head(Log log) noexcept:
    if log.head_seen and log.head_seen != log.first_seq:
        log.head_moved_at = monotonic()
    log.head_seen = log.first_seq


cdef bint is_leaving(Log log, const Segment *segment) noexcept:
    """Whether it is the first one, and would not be mostly dead but for the messages that were its first."""
    cdef uint32_t place = place_of(segment, log.first_seq)
    if place == ABSENT or segment.offsets[place] == 0 or log.head_moved_at + QUIET_SECONDS < monotonic():
        return False
    return not is_mostly_dead(segment, segment.size - segment.offsets[place] + SEGMENT_HEAD)


cdef bint plan_compress(Log log) except -1:
    cdef uint32_t k
    cdef Segment *segment
    if monotonic() < log.compress_at:
        return False
    for k in range(log.segment_count):
        segment = log.segments[k]
        if segment.packing != NULL or segment.left_plain or segment.given_up or segment.damaged or not segment.sealed \
                or segment == log.active or segment.live == 0:
            continue
        log.chore.segment = segment    # so that it stays open: the name will be that of another file
        if segment.fd < 0:
            try:
                log.open_file(segment)
            except OSError:
                log.compress_at = monotonic() + PAUSE_SECONDS
                return False
        log.chore.kind = COMPRESS
        return True
    return False


cdef bint plan_unlink(Log log) except -1:
    """All dead segments whose removals nobody needs any more."""
    cdef uint32_t k, count = 0
    cdef bint oldest = True
    cdef Segment *segment
    cdef void *grown
    grown = realloc(log.chore.numbers, (log.segment_count + 1) * sizeof(uint64_t))
    if grown == NULL:
        raise MemoryError
    log.chore.numbers = <uint64_t *> grown
    for k in range(log.segment_count):
        segment = log.segments[k]
        if segment.live or not segment.sealed or segment.given_up or segment == log.active:
            oldest = False
            continue
        if not oldest:
            # What is needed stays so until a file goes; do not look again before that.
            if segment.kept_at == log.epoch:
                continue
            if collect_needed(log, k, NULL):
                segment.kept_at = log.epoch
                continue
        log.chore.numbers[count] = segment.number
        count += 1
    log.chore.number_count = count
    log.chore.kind = UNLINK
    return count > 0


cdef bint collect_needed(Log log, uint32_t place, Ranges *needed) except -1:
    """Those removals of a segment that speak of messages which are still in an older file; NULL: whether there is one."""
    cdef Segment *segment = log.segments[place]
    cdef Segment *older
    cdef uint32_t k, other
    cdef uint64_t first, last, found
    cdef uint64_t begin = max(log.logged_first, log.segments[0].base_seq)
    for k in range(segment.removals.count if place else 0):
        first = max(segment.removals.items[2 * k], begin)
        last = segment.removals.items[2 * k + 1]
        if first > last:
            continue
        for other in range(log.segment_place(first), place):
            older = log.segments[other]
            if older.base_seq > last:
                break
            found = next_place(older, first)
            if found < older.count and seq_at(older, found) <= last:
                if needed == NULL:
                    return True
                if add_range(needed, first, last) < 0:
                    raise MemoryError
                break
    return needed != NULL and needed.count > 0


cdef bint plan_rewrite(Log log, uint32_t place) except -1:
    cdef Segment *segment = log.segments[place]
    cdef Ranges needed
    cdef uint32_t k, count = 0
    cdef void *grown
    log.chore.segment = segment    # so that it stays open
    if segment.fd < 0:
        try:
            log.open_file(segment)
        except OSError:
            log.rewrite_at = monotonic() + PAUSE_SECONDS
            return False
    grown = realloc(log.chore.keep, (2 * <size_t> segment.live + 1) * sizeof(uint64_t))
    if grown == NULL:
        raise MemoryError
    log.chore.keep = <uint64_t *> grown
    needed.items = NULL
    needed.count = needed.capacity = 0
    collect_needed(log, place, &needed)
    for k in range(segment.count):
        if segment.offsets[k]:
            log.chore.keep[2 * count] = seq_at(segment, k)
            log.chore.keep[2 * count + 1] = segment.offsets[k]
            count += 1
    log.chore.keep_count = count
    free(log.chore.ranges)
    log.chore.ranges = needed.items
    log.chore.range_count = needed.count
    log.chore.first_seq = log.logged_first
    log.chore.last_time = log.last_time
    log.chore.segment = segment
    log.chore.kind = REWRITE
    return True


cdef int finish_chore(Log log, Job *job) except -1:
    """Take the result over, and start the next one if nothing waits to be committed."""
    cdef uint32_t k, n
    if job.kind in (REWRITE, UNLINK) and job.directory_first and not job.error:
        log.directory_unsynced = False
    if job.directory_unsynced:
        log.directory_unsynced = True
        log.warn("the directory cannot be synced: a file that was replaced may be back after a power failure")
    if job.kind == ERASE:
        finish_erasing(log, job)
    elif job.kind == INDEX:
        job.segment.indexed = True
        job.segment.damaged = job.segment.damaged or job.damaged
        job.segment.given_up = job.error != 0 and not may_pass(job.error)
    elif job.kind == REWRITE:
        if job.damaged:
            job.segment.damaged = True
            log.warn(f"segment {job.segment.number} is damaged and stays as it is")
        elif job.error:
            log.rewrite_at = monotonic() + PAUSE_SECONDS
            job.segment.given_up = not may_pass(job.error)
            log.warn(f"segment {job.segment.number} cannot be rewritten: {os.strerror(job.error)}")
        else:
            replace(log, job.segment, job.replacement)
    elif job.kind == COMPRESS:
        if not take_packing(log, job):
            return 0
    elif not job.error:
        for n in range(job.number_count):
            for k in range(log.segment_count):
                if log.segments[k].number == job.numbers[n]:
                    if not drop(log, k):
                        return 0
                    break
    else:
        log.warn(f"dead segments cannot be removed: {os.strerror(job.error)}")
        log.rewrite_at = monotonic() + PAUSE_SECONDS
        for k in range(log.segment_count):
            if not may_pass(job.error) and log.segments[k].live == 0:
                log.segments[k].given_up = True
    free(job.keep)
    job.keep = NULL
    start_erasing(log)
    return log._tidy()


cdef bint take_packing(Log log, Job *job) except -1:
    """A segment was compressed: read the new file from now on. False: the log was opened anew instead."""
    cdef Packing *packing = job.packing
    job.packing = NULL
    job.segment.damaged = job.segment.damaged or job.damaged
    if job.error:
        log.compress_at = monotonic() + PAUSE_SECONDS
        job.segment.left_plain = not may_pass(job.error)
        log._warn_of_compression(os.strerror(job.error))
        return True
    log.compress_failing = False
    if packing == NULL:
        job.segment.left_plain = True
        return True
    if not wait_for_sync(log, job.segment):
        free_packing(packing)
        return False
    log.change_packing(job.segment, packing)
    return True


cdef bint wait_for_sync(Log log, Segment *segment) except -1:
    """Its file is about to be closed. False: the sync failed, so the log was opened anew, and the segment is gone."""
    cdef bint failing = log.failure is not None     # _failed() waits for this chore, and opens the log anew after it
    while log.sync_job.under_way and log.sync_job.fd == segment.fd:
        log.committer.wait_for(log.sync_job)
        if log.failure is not None and not failing:
            return False
    return True


cdef bint drop(Log log, uint32_t place) except -1:
    """False: the log was opened anew instead."""
    cdef Segment *segment = log.segments[place]
    if not wait_for_sync(log, segment):
        return False
    log.epoch += 1
    log.drop_segment(place)
    free_segment(segment)
    return True


cdef int replace(Log log, Segment *old, Segment *fresh) except -1:
    """Put a rewritten segment in the place of the old one; what was removed meanwhile is removed there, too."""
    cdef uint32_t k, place
    cdef uint64_t end
    if not wait_for_sync(log, old):
        free_segment(fresh)
        return 0
    for k in range(fresh.count):
        place = place_of(old, seq_at(fresh, k))
        if place == ABSENT or old.offsets[place] == 0:
            end = fresh.size
            if k + 1 < fresh.count:
                end = fresh.offsets[k + 1]
            fresh.live_bytes -= end - fresh.offsets[k]
    follow_rewrite(log, old, fresh)
    # A second pass, as the first one needs all offsets.
    for k in range(fresh.count):
        place = place_of(old, seq_at(fresh, k))
        if place == ABSENT or old.offsets[place] == 0:
            fresh.offsets[k] = 0
            fresh.live -= 1
    for k in range(log.segment_count):
        if log.segments[k] == old:
            log.epoch += 1
            log.segments[k] = fresh
            break
    free_segment(old)
    log.open_files += 1
    return 0


cdef int compact_memory(Log log) except -1:
    cdef uint32_t k = 0
    cdef Segment *segment
    log.tidy_due = False
    while k < log.segment_count:
        segment = log.segments[k]
        if segment == log.active:
            k += 1
        elif segment.live == 0:
            log.drop_segment(k)
            log._bury(segment)
        else:
            if 2 * (SEGMENT_HEAD + segment.live_bytes) < segment.size:
                log.segments[k] = copy_survivors(segment)
                log._bury(segment)
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
