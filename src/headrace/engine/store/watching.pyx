"""Watchers: readers of a log for which it counts how many messages they have ahead of them.

From when it is added until it is removed, a watcher's num_pending changes with every commit and every removal. The
first count is the difficult part, because the log may be large and others must not be held up:

- everything, and plain subjects from the first message on: the segments and the index know, at once;
- patterns, from the first message on: a walk along the index, a few places at a time. A message committed or removed in
  the meantime counts if the walk has passed the place of its subject; otherwise the walk will see it;
- in the middle of the log: records are read, a few at a time. A message removed in the meantime counts if it was
  already read.
"""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.segments.windows cimport Record
from headrace.engine.basics.audiences cimport Audience
from headrace.engine.store.store cimport NOTHING, TIRED
from headrace.engine.store.subject_index cimport Entry, SubjectIndex


cdef int add_watcher(Store store, Watcher watcher) except -1:
    if watcher.filter is None:
        watcher.filter = Filter(())
    try:
        watcher.num_pending = count_from(store, watcher.next_seq, watcher.filter)
    except OSError:
        # It cannot be read at present, so the count is too high for now; a consumer that reaches the end corrects it.
        watcher.num_pending = store.count_live(max(watcher.next_seq, store.first_seq), store.committed_seq)
    watcher.set_counted(watcher.num_pending)
    store.watchers.append(watcher)
    store.audiences.add(watcher, watcher.filter)
    return 0


cdef int begin_to_watch(Store store, Watcher watcher) except -1:
    if watcher.filter is None or watcher.filter.everything or watcher.filter.literal \
            and not must_read(store, watcher.next_seq, watcher.filter):
        return add_watcher(store, watcher)
    watcher.set_counted(0)
    if must_read(store, watcher.next_seq, watcher.filter):
        watcher.uncounted = watcher.next_seq
        watcher.uncounted_end = store.committed_seq + 1
    else:
        watcher.walked_index = store.index
        watcher.walked = 0
    store.watchers.append(watcher)
    store.audiences.add(watcher, watcher.filter)
    return 0


cdef bint count_ahead(Store store, Watcher watcher, uint64_t looks) except -1:
    cdef Record record
    cdef int outcome
    if watcher.walked_index is not None:
        return walk(store, watcher, looks)
    while watcher.uncounted < watcher.uncounted_end:
        outcome = store.search(store.reader, &watcher.uncounted, watcher.filter, &looks, &record)
        if outcome == TIRED:
            return False
        if outcome == NOTHING or record.seq >= watcher.uncounted_end:
            break
        watcher.num_pending += 1
        watcher.uncounted = record.seq + 1
    watcher.uncounted = watcher.uncounted_end = 0
    return True


cdef bint walk(Store store, Watcher watcher, uint64_t looks) except -1:
    """Count what the subjects at the next places of the index have. Returns whether those were the last."""
    cdef SubjectIndex index = store.index
    cdef Filter filter = watcher.filter
    cdef uint32_t start = watcher.walked, end = start
    cdef long long total = 0
    cdef Entry *entry
    while end < index.used and looks:
        entry = &index.entries[end]
        end += 1
        looks -= 1
        if entry.count and filter.accepts(entry.text, entry.length):
            total += entry.count
        looks -= min(looks, <uint64_t> filter.effort)
    if total:
        # What is not committed yet is counted when it is.
        total -= store.count_at_places(store.committed_seq + 1, store.last_seq, filter, start, end)
    watcher.num_pending += total
    watcher.walked = end
    if end >= index.used:
        watcher.walked_index = None
        return True
    return False


cdef bint must_read(Store store, uint64_t seq, Filter filter) except -1:
    """Whether a subject that passes may have messages on both sides of a sequence: the index counts only all.

    With a pattern nearly always some subject has, and checking all of them would take longer than just starting.
    """
    cdef Entry *entry
    if filter is None or filter.everything or seq <= store.first_seq:
        return False
    if not filter.literal:
        return True
    for subject in filter.patterns:
        entry = store.index.find(subject, <uint32_t> len(<bytes> subject))
        if entry != NULL and entry.first < seq <= entry.last:
            return True
    return False


cdef int remove_watcher(Store store, Watcher watcher) except -1:
    cdef Py_ssize_t k
    for k in range(len(store.watchers)):
        if store.watchers[k] is watcher:
            del store.watchers[k]
            store.audiences.remove(watcher, watcher.filter)
            break
    return 0


cdef long long count_from(Store store, uint64_t seq, Filter filter) except -1:
    cdef Entry *entry
    cdef uint32_t k
    cdef long long total = 0, reads = 0
    if seq < store.first_seq:
        seq = store.first_seq
    if store.count == 0 or seq > store.committed_seq:
        return 0
    if filter.everything:
        return store.count_live(seq, store.committed_seq)
    # The index knows how many there are in all. Those before `seq`, or those after it, have to be read and counted,
    # whichever are fewer, and only if a subject lies on both sides.
    if filter.literal:
        for subject in set(filter.patterns):
            entry = store.index.find(subject, <uint32_t> len(<bytes> subject))
            if entry != NULL and entry.last >= seq:
                total += entry.count
                reads |= entry.first < seq
    else:
        for k in range(store.index.used):
            entry = &store.index.entries[k]
            if entry.count and entry.last >= seq and filter.accepts(entry.text, entry.length):
                total += entry.count
                reads |= entry.first < seq
    if total == 0:
        return 0
    if not reads:
        return total - store.count_matching(store.committed_seq + 1, store.last_seq, filter)
    if seq - store.first_seq < store.committed_seq - seq:
        for k in range(store.index.used):
            entry = &store.index.entries[k]
            if entry.count and entry.last < seq and filter.accepts(entry.text, entry.length):
                total += entry.count
        return total - store.count_matching(store.first_seq, seq - 1, filter) \
            - store.count_matching(store.committed_seq + 1, store.last_seq, filter)
    return store.count_matching(seq, store.committed_seq, filter)


# -- commits ----------------------------------------------------------------------------------------------------------

cdef int note_committed(Store store, uint64_t last) except -1:
    """The messages up to `last` are committed now: watchers count them."""
    cdef uint64_t first = store.committed_seq + 1
    cdef Audience everyone = store.audiences.unfiltered
    if everyone is not None:
        everyone.matching = store.count_live(first, last)
        share(store, everyone, first, last)
    if store.audiences.by_patterns:
        count_for_audiences(store, first, last)
    store.committed_seq = last
    return 0


cdef int count_for_audiences(Store store, uint64_t first, uint64_t last) except -1:
    """Read every message once, whoever asked for it."""
    cdef Record record
    cdef Audience audience
    cdef uint64_t seq = store.next_live(first)
    for audience in store.audiences.by_patterns.values():
        audience.matching = 0
    while seq <= last:
        if store.read(store.reader, seq, &record):
            for audience in store.audiences.matching(record.subject, record.subject_length):
                audience.matching += 1
        seq = store.next_live(seq + 1)
    for audience in store.audiences.by_patterns.values():
        if audience.matching:
            share(store, audience, first, last)
    return 0


cdef int share(Store store, Audience audience, uint64_t first, uint64_t last) except -1:
    """Tell an audience how many of the messages from `first` to `last` are for it."""
    cdef Watcher watcher
    for watcher in audience.watchers:
        if watcher.next_seq > last:
            continue
        if watcher.walked_index is not None:
            watcher.num_pending += store.count_at_places(max(first, watcher.next_seq), last, watcher.filter,
                                                         0, watcher.walked)
        elif watcher.next_seq <= first:
            watcher.num_pending += audience.matching
        elif watcher.filter.everything:
            watcher.num_pending += store.count_live(watcher.next_seq, last)
        else:
            watcher.num_pending += store.count_matching(watcher.next_seq, last, watcher.filter)
    return 0
