"""The first and the last message of a subject, where the index knows only a bound.

Finding the new first message of a subject. Every record names its predecessor on the same subject, so from the last one
there is a chain backwards. It takes count - 1 steps, but each may be a read somewhere else in the files. A scan forward
from the old first one is sequential and may be short. So: scan forward a little, then try the chain if it is not long,
and if it is broken (a message in the middle of it was removed), continue the scan.

The last one is searched backwards, live message by live message: a gap in the sequences costs nothing, however wide it is.
There may be very many others in between, so a search has a limit on reads, and leaves a better bound in the index: the
next one continues there.
"""

from libc.stdint cimport uint64_t
from libc.string cimport memcmp

from headrace.engine.segments.windows cimport Record

cdef uint64_t SCAN_STEPS = 8        # records to scan before the chain is tried
cdef uint64_t LONGEST_CHAIN = 1024


cdef bint find_first(Store store, Entry *entry, uint64_t limit, uint64_t *steps) except -1:
    """Scan forward from entry.first for at most `limit` messages, moving entry.first along."""
    cdef Record record
    cdef uint64_t seq = entry.first if entry.first > store.first_seq else store.first_seq
    cdef bint passed_damage = False
    while steps[0] < limit:
        seq = store.next_live(seq)
        if seq > store.last_seq:
            return False
        steps[0] += 1
        if not store.read(store.reader, seq, &record):
            passed_damage = True
        elif record.subject_length == entry.length and memcmp(record.subject, entry.text, entry.length) == 0:
            # A damaged record does not tell its subject, but its successor does.
            entry.first = record.previous if passed_damage and store.is_live(record.previous) else seq
            entry.first_stale = False
            return True
        seq += 1
        if not passed_damage:
            entry.first = seq
    return False


cdef int resolve_first(Store store, Entry *entry) except -1:
    """Make entry.first exact, or that of the first message that can be read."""
    cdef Record record
    cdef uint64_t steps = 0, at, k
    if not entry.first_stale:
        return 0
    if find_first(store, entry, SCAN_STEPS, &steps):
        return 0
    if not entry.last_stale and entry.count <= LONGEST_CHAIN:
        at = entry.last
        for k in range(entry.count - 1):
            if not store.is_live(at) or not store.read(store.probe, at, &record) or record.previous == 0 \
                    or not store.is_live(record.previous):
                break
            at = record.previous
        else:
            entry.first = at
            entry.first_stale = False
            return 0
    if not find_first(store, entry, <uint64_t> -1, &steps):
        # All that is left of it is damaged, and entry.first is before that.
        at = store.next_live(entry.first)
        entry.first = at if at <= store.last_seq else entry.last
        entry.first_stale = False
    return 0


cdef bint resolve_last(Store store, Entry *entry, uint64_t *looks) except -1:
    """Make entry.last exact, or that of the last message that can be read. False: it takes more than `looks` reads.

    Those that it did read are deducted.
    """
    cdef Record record
    cdef uint64_t seq, damaged = 0
    if not entry.last_stale:
        return True
    seq = store.previous_live(entry.last)
    while seq >= entry.first and seq:
        if looks[0] == 0:
            entry.last = seq
            return False
        looks[0] -= 1
        if not store.read(store.probe, seq, &record):
            damaged = damaged if damaged else seq
        elif record.subject_length == entry.length and memcmp(record.subject, entry.text, entry.length) == 0:
            entry.last = seq
            entry.last_stale = False
            return True
        seq = store.previous_live(seq - 1)
    # None can be read: use the last of the damaged ones, or the place where the first should be.
    entry.last = damaged if damaged else min(store.next_live(entry.first), store.last_seq)
    entry.last_stale = False
    return True
