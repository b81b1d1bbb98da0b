"""Removing many messages: below a sequence, of some subjects, beyond the limits.

A large stream has more of them than the loop's thread may look at in one go, so everything here does a part and says
where to go on. Between two parts others append, read and remove: nothing is remembered but a sequence, and each part
looks at what is there by then. Each removal is noted for the next group (note_removal), so a crash between two parts
leaves a log that has lost the first part and not the second.

What is removed has to be read: the index needs its subject, the accounting its size. Where little is left behind the
head it is cheaper to drop the whole index and to read what is left. So compacting costs as many reads as there are
messages on the smaller side.

If a record cannot be read (OSError), it ends there, and may be called again: what was removed until then is removed and
accounted for, and nothing else has changed. A damaged record can be removed: see Store.forget_damaged.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from headrace.engine.store.record cimport HEAD_SIZE
from headrace.engine.store.segments cimport Segment, next_place
from headrace.engine.store.store cimport FOUND, TIRED, Watcher
from headrace.engine.store.subject_index cimport Entry, SubjectIndex
from headrace.engine.store.windows cimport Record

cdef uint64_t MANY = 64             # messages to remove before it pays to ask what is left behind them


cdef uint64_t remove_matching(Log log, uint64_t *seq, uint64_t last, Filter filter, uint64_t most,
                              uint64_t looks) except? 0:
    """Remove up to `most` messages from `seq` to `last` that pass; how many. `seq`: where to go on, above last: done."""
    cdef Record record
    cdef uint64_t removed = 0
    cdef int outcome
    while seq[0] <= last:
        if removed == most:
            return removed
        outcome = log.search(log.reader, seq, filter, &looks, &record)
        if outcome == TIRED:
            return removed
        if outcome != FOUND:
            break
        if record.seq > last:
            break
        removed += log.forget(log.reader, record.seq)
        seq[0] += 1
    seq[0] = last + 1
    return removed


cdef int compact_some(Log log, uint64_t first_seq, uint64_t most) except -1:
    """Remove messages below a sequence (which is not above last_seq), about as many as `most` takes time to read."""
    cdef uint64_t left
    if log.first_seq >= first_seq or log.count == 0:
        return 0
    left = log.count_live(first_seq, log.last_seq)
    if left < most and left < log.count - left and keep_from(log, first_seq):
        return 0
    while log.first_seq < first_seq and log.count and most:
        log._remove_first()
        most -= 1
    return 0


cdef bint keep_from(Log log, uint64_t first_seq) except -1:
    """Forget all that is below a sequence without reading it: everything is recounted from what is left.

    What is left is read first: if that fails, nothing has changed. False: some of it is damaged, so it cannot be counted.
    """
    cdef Watcher watcher
    cdef Record record
    cdef Entry *entry
    cdef SubjectIndex index = SubjectIndex()
    cdef list pending = [0] * len(log.watchers)
    cdef list live_bytes = [0] * log.segment_count
    cdef uint32_t k
    cdef uint64_t byte_count = 0, seq = log.next_live(first_seq)
    while seq <= log.last_seq:
        if not log.read(log.reader, seq, &record):
            return False
        entry = index.add(record.subject, record.subject_length)
        if entry.count == 0:
            entry.first = seq
        entry.count += 1
        entry.last = seq
        byte_count += log.size_of(record.subject_length, record.header_length, record.payload_length)
        live_bytes[log.segment_place(seq)] += \
            HEAD_SIZE + record.subject_length + record.header_length + record.payload_length
        if seq <= log.committed_seq:
            for k, watcher in enumerate(log.watchers):
                pending[k] += seq >= watcher.next_seq and watcher.filter.accepts(record.subject, record.subject_length)
        seq = log.next_live(seq + 1)
    drop_below(log, first_seq, live_bytes)
    log.index = index
    log.byte_count = byte_count
    for k, watcher in enumerate(log.watchers):
        watcher.num_pending = pending[k]
        watcher.uncounted = watcher.uncounted_end = 0
    log.tidy_due = True
    log.first_seq = log.next_live(first_seq)
    return True


cdef int drop_below(Log log, uint64_t first_seq, list live_bytes) except -1:
    cdef Segment *segment
    cdef uint32_t k
    cdef uint64_t place
    log.count = 0
    for k in range(log.segment_count):
        segment = log.segments[k]
        if segment.live:
            place = next_place(segment, first_seq)
            memset(segment.offsets, 0, place * sizeof(uint32_t))
            segment.live = 0
            segment.live_bytes = live_bytes[k]
            while place < segment.count:
                segment.live += segment.offsets[place] != 0
                place += 1
            log.count += segment.live
    return 0


cdef uint64_t end_of_aged(Log log, int64_t oldest, uint64_t *seq, uint64_t most) except? 0:
    """The sequence behind the messages at the head of the log that are not younger than `oldest`, with `most` reads.

    The first younger one ends the search, as in nats-server. Searching by halves would be quicker, but trusts that
    times grow with sequences: where the clock was set back for a while, it would take younger ones with the older.
    A message that cannot be read counts as old only if one behind it is. `seq`: where to go on, 0: done.
    """
    cdef Record record
    cdef uint64_t end = log.first_seq
    seq[0] = log.next_live(max(seq[0], log.first_seq))
    while seq[0] <= log.last_seq:
        if most == 0:
            return end
        most -= 1
        if log.read(log.reader, seq[0], &record):
            if record.time > oldest:
                break
            end = seq[0] + 1
        seq[0] = log.next_live(seq[0] + 1)
    seq[0] = 0
    return end


cdef bint enforce_totals(Log log, uint64_t most) except -1:
    """Remove the oldest messages until max_msgs and max_bytes are kept, `most` of them at a time. Whether they are."""
    if log.discard_new:
        return True
    if log.max_msgs > 0 and log.count > <uint64_t> log.max_msgs:
        if most > MANY and log.count - log.max_msgs > MANY:
            compact_some(log, log.seq_from_end(log.max_msgs), most)
        while log.count > <uint64_t> log.max_msgs:
            if most == 0:
                return False
            log._remove_first()
            most -= 1
    if log.max_bytes > 0:
        while log.byte_count > <uint64_t> log.max_bytes and log.count:
            if most == 0:
                return False
            log._remove_first()
            most -= 1
    return True


cdef bint enforce_subjects(Log log, uint64_t looks) except -1:
    """One pass from log.enforced_seq: a message goes as long as its subject has too many. Whether it is at the end.

    A subject either keeps its limit, or all its messages are still ahead of the pass: a publish removes what it makes
    too many (see _enforce_subject), so that what the pass has left behind stays right.
    """
    cdef Record record
    cdef Entry *entry
    cdef uint64_t seq = log.next_live(max(log.enforced_seq, log.first_seq))
    while seq <= log.last_seq:
        if looks == 0:
            log.enforced_seq = seq
            return False
        looks -= 1
        if log.read(log.reader, seq, &record):
            entry = log.index.find(record.subject, record.subject_length)
            if entry != NULL and entry.count > <uint64_t> log.max_msgs_per_subject:
                log.forget(log.reader, seq)
        seq = log.next_live(seq + 1)
    log.enforced_seq = seq
    return True
