"""The log of one stream: an append-only sequence of messages, some of which are removed later, on disk or in memory.

This file is what Python sees of it: limits, appending, removing, committing, figures, reading. The work is done by its
parts, which the package's docstring (__init__.py) draws, along with who owns which field when.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

cimport headrace.engine.store.readings as readings
cimport headrace.engine.store.removing as removing
cimport headrace.engine.store.watching as watching
from headrace.engine.basics.filters cimport Filter
from headrace.engine.basics.system cimport monotonic
from headrace.engine.store.committer cimport Committer
from headrace.engine.store.erasing cimport Erasures
from headrace.engine.segments.record cimport HEAD_SIZE, LARGEST_SEQ, SKIP
from headrace.engine.store.recovery cimport delete_files, recover
from headrace.engine.store.store cimport Store, Watcher
from headrace.engine.store.subject_index cimport Entry

import os

cdef uint64_t SEGMENT_BYTES = 64 * 1024 * 1024
cdef uint64_t COMPRESSED_SEGMENT_BYTES = 16 * 1024 * 1024   # smaller, because the active segment is not compressed
cdef uint64_t LARGEST_RECORD = 1024 * 1024 * 1024
cdef uint64_t UNLIMITED = <uint64_t> -1


class Refused(Exception):
    """The stream is full and discards new messages; `reason` says which limit it is."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


cdef class Log(LogView):
    def __cinit__(self, str directory=None, *, Committer committer=None, uint64_t segment_bytes=SEGMENT_BYTES,
                  str compression="none"):
        """`directory` None: in memory, where `compression` ("none" or "s2") has no effect."""
        self.plain_segment_bytes = min(max(segment_bytes, <uint64_t> 4096), LARGEST_RECORD)
        self.store = Store(directory, self.plain_segment_bytes)
        self.limits = Limits(self.store)
        self.pipeline = Pipeline(self.store, committer)
        self.writer = self.pipeline.writer
        self.chores = self.pipeline.chores
        self._set_compression(compression)

    # -- opening and closing --------------------------------------------------------------------------------------------

    def recover(self):
        """Open what is in the directory (created if missing); returns one line for each damage found.

        Damage never raises; a directory that cannot be read or written raises OSError.
        """
        if self.store.in_memory or self.pipeline.opened:
            return []
        os.makedirs(self.store.directory, exist_ok=True)
        found = recover(self.store)
        self.pipeline.opened = True
        self.store.reports.add_damages(found)
        self.pipeline.start_chore()
        return found

    def close(self):
        """Write what is left, and the index of the last segment. Blocks until it is on disk."""
        if self.pipeline.opened:
            self.pipeline.close()

    def abandon(self):
        """Close without writing anything: the files are about to be deleted. Waits for what is being written."""
        if self.pipeline.opened:
            self.pipeline.abandon()

    def destroy(self):
        """Close and delete the files, and the directory if it is then empty."""
        self.abandon()
        if not self.store.in_memory:
            delete_files(self.store.directory)

    cdef int _check_open(self) except -1:
        if not self.pipeline.opened:
            raise ValueError("the log is not open")
        return 0

    cdef int _check_writable(self) except -1:
        self._check_open()
        if not self.pipeline.is_writable():
            raise OSError(self.writer.failure)
        return 0

    # -- settings -------------------------------------------------------------------------------------------------------

    def configure(self, *, long long max_msgs=-1, long long max_bytes=-1, long long max_msgs_per_subject=-1,
                  bint discard_new=False, bint discard_new_per_subject=False, str compression=None,
                  bint at_once=True):
        """Set the limits (0 or less: none) and enforce them, at once or with calls of enforce().

        `compression` None: leave it as it is.
        """
        self._check_open()
        if compression is not None:
            self._set_compression(compression)
        self.limits.discard_new = discard_new
        self.limits.discard_new_per_subject = discard_new_per_subject
        self.limits.change(max_msgs, max_bytes, max_msgs_per_subject)
        if self.writer.failure is None and at_once:
            try:
                self.limits.enforce(UNLIMITED)
            except OSError:
                pass               # it cannot be read at present: each new message removes a few, as usual

    def enforce(self, uint64_t most):
        """Remove some of what exceeds the limits, reading about `most` records. Returns whether that is all."""
        self._check_writable()
        return self.limits.enforce(most)

    cdef int _set_compression(self, str compression) except -1:
        """From now on compress sealed segments, including existing ones; or leave them as they are."""
        cdef bint before = self.chores.compress
        if compression not in ("none", "s2"):
            raise ValueError(f"unknown compression: {compression}")
        self.chores.compress = compression == "s2" and not self.store.in_memory
        self.store.segment_bytes = min(self.plain_segment_bytes, COMPRESSED_SEGMENT_BYTES) if self.chores.compress \
            else self.plain_segment_bytes
        if self.chores.compress and not before and self.pipeline.opened:
            self.store.chores_due = True
            self.pipeline.start_chore()
        return 0

    # -- appending ------------------------------------------------------------------------------------------------------

    def append(self, bytes subject not None, bytes headers not None, bytes payload not None, int64_t time=0,
               uint64_t seq=0):
        """Store a message; returns its sequence. `seq`: use this one (above last_seq); the gap counts as deleted.

        Raises Refused if it is full and discards new ones, OSError if nothing can be written.
        """
        cdef bytes body = headers + payload if headers else payload
        cdef uint64_t stored
        self._check_open()
        if seq == 0:
            seq = self.store.last_seq + 1
        elif seq <= self.store.last_seq:
            raise ValueError(f"sequence {seq} is not above {self.store.last_seq}")
        stored = self._append(subject, <uint32_t> len(subject), body, <uint32_t> len(headers), len(body), time, seq)
        if stored == 0:
            if self.refusal == "failed":
                raise OSError(self.writer.failure or self.store.reports.read_failure)
            raise Refused(self.refusal)
        return stored

    cdef uint64_t append_message(self, const char *subject, uint32_t subject_length, const char *body,
                                 uint32_t header_length, Py_ssize_t size, int64_t time) except? 0:
        """Append a message: `body` is the headers and the payload, `size` bytes in all. Time 0: now.

        Returns its sequence. 0: it was refused, and self.refusal says why: the name of a limit, or "failed".
        """
        return self._append(subject, subject_length, body, header_length, size, time, self.store.last_seq + 1)

    cdef uint64_t _append(self, const char *subject, uint32_t subject_length, const char *body,
                          uint32_t header_length, Py_ssize_t size, int64_t time, uint64_t seq) except? 0:
        cdef Entry *entry
        if subject_length > 65535 or HEAD_SIZE + <size_t> subject_length + <size_t> size > LARGEST_RECORD \
                or header_length > size:
            raise ValueError("the message is too large for the log")
        if not self.pipeline.opened or self.writer.failure is not None and not self.pipeline.is_writable():
            self.refusal = "failed"
            return 0
        if seq > LARGEST_SEQ:
            self.refusal = "last_seq"
            return 0
        if self.limits.behind and not self.limits.catch_up():
            self.refusal = "failed"
            return 0
        if self.limits.discard_new:
            try:
                self.refusal = self.limits.refuse(subject, subject_length, body, header_length, size)
            except OSError:
                self.refusal = "failed"
            if self.refusal is not None:
                return 0
        entry = self.writer.append_message(subject, subject_length, body, header_length, size, time, seq)
        if self.limits.are_set:
            self.limits.after_append(entry, subject, subject_length)
        return seq

    def skip(self, uint64_t next_seq):
        """The next message gets this sequence."""
        cdef Store store = self.store
        self._check_open()
        if next_seq <= store.last_seq + 1 and not (next_seq == store.last_seq + 1 and store.first_seq == 0):
            if next_seq <= store.last_seq:
                raise ValueError(f"sequence {next_seq} is not above {store.last_seq}")
            return
        self._check_writable()
        if not store.in_memory:
            self.writer.append_control(SKIP, next_seq, NULL, 0)
        if store.count == 0:
            removing.begin_with(store, next_seq)
        store.last_seq = next_seq - 1

    # -- removing -------------------------------------------------------------------------------------------------------

    def remove(self, uint64_t seq, *, bint erase=False):
        """Remove one message; False: it is not there. `erase`: overwrite its text, too."""
        self._check_writable()
        if erase:
            self.chores.erasures.add(seq)
        return removing.remove_message(self.store, self.store.probe, seq)

    def remove_many(self, seqs):
        """Remove those that are there; returns how many."""
        cdef Py_ssize_t removed = 0
        self._check_writable()
        for seq in seqs:
            removed += removing.remove_message(self.store, self.store.probe, seq)
        return removed

    def remove_matching(self, uint64_t seq, uint64_t last, Filter filter not None, uint64_t most, uint64_t looks):
        """Remove up to `most` committed messages from `seq` to `last` that pass, reading at most `looks` records.

        Returns how many, and the sequence from which to continue; above `last`: it is done.
        """
        cdef uint64_t removed
        self._check_writable()
        removed = removing.remove_matching(self.store, &seq, last, filter, most, looks)
        return removed, seq

    def compact(self, uint64_t first_seq, uint64_t most=UNLIMITED):
        """Remove everything below a sequence; returns how many. Above last_seq + 1: the next message gets it.

        With `most` it may stop before it is done, after that many reads; then first_seq has not got there.
        """
        cdef uint64_t before = self.store.count
        self._check_writable()
        if first_seq > self.store.last_seq:
            self.purge()
            if first_seq > self.store.last_seq + 1:
                self.skip(first_seq)
            return before
        removing.remove_below(self.store, first_seq, most)
        return before - self.store.count

    def expire(self, int64_t oldest, uint64_t seq, uint64_t most):
        """Remove messages from the head on that are not younger than a time, up to the first younger one.

        Reads no more than `most` from `seq` on. Returns where to continue with the next part; 0: it is done.
        """
        cdef uint64_t end = removing.end_of_aged(self.store, oldest, &seq, most)
        if end > self.store.first_seq and self.store.count:
            self.compact(end)
        return seq

    def purge(self):
        """Remove everything; returns how many. last_seq stays."""
        cdef uint64_t before = self.store.count
        self._check_writable()
        removing.remove_all(self.store)
        return before

    def when_erased(self, callback):
        """Call back when no text is left to overwrite (None), or it failed (the error); at once if none is left."""
        cdef Erasures erasures = self.chores.erasures
        if erasures.count == 0:
            callback(None)
        elif self.writer.failure is not None:
            callback(self.writer.failure)
        elif monotonic() < erasures.retry_at:
            callback(erasures.failure)
        else:
            erasures.waiting.append(callback)
            self.chores.start_erasing()

    def erase_again(self):
        """Retry what could not be overwritten before. Returns whether nothing is left."""
        if self.pipeline.opened and not self.store.in_memory:
            self.chores.start_erasing()
        return self.chores.erasures.count == 0

    # -- committing -----------------------------------------------------------------------------------------------------

    cpdef int commit(self) except -1:
        """Hand what is pending to the committer. If it is still busy with the last group, this one follows."""
        return self.pipeline.commit()

    def when_committed(self, callback):
        """Call back when everything written so far is on disk (None) or failed (the error); at once if it is."""
        self.pipeline.when_committed(callback)

    @property
    def backlog_bytes(self):
        """Bytes that wait to be written."""
        return self.backlog()

    cdef size_t backlog(self) noexcept:
        return self.store.groups.pending.size + self.store.groups.in_flight.size

    # -- figures --------------------------------------------------------------------------------------------------------

    @property
    def directory(self):
        """None: in memory."""
        return self.store.directory

    @property
    def segment_bytes(self):
        return self.store.segment_bytes

    @property
    def committed_seq(self):
        return self.store.committed_seq

    @property
    def failure(self):
        """Why it accepts no more writes; None: it does."""
        return self.writer.failure

    @property
    def erase_failure(self):
        """Why deleted texts could not be overwritten last time; None: they could."""
        return self.chores.erasures.failure

    @property
    def read_failure(self):
        """Why a file could not be read last time; None: it could."""
        return self.store.reports.read_failure

    @property
    def damages(self):
        """One line for each damage found so far, up to a hundred."""
        return self.store.reports.damages

    @property
    def on_committed(self):
        """Called when a group is on disk."""
        return self.pipeline.on_committed

    @on_committed.setter
    def on_committed(self, value):
        self.pipeline.on_committed = value

    @property
    def on_warning(self):
        """Called with a line about a failure that lost nothing."""
        return self.store.reports.on_warning

    @on_warning.setter
    def on_warning(self, value):
        self.store.reports.on_warning = value

    @property
    def num_deleted(self):
        """Sequences between the first and the last message that have no message."""
        return self.store.last_seq - self.store.first_seq + 1 - self.store.count if self.store.count else 0

    @property
    def num_subjects(self):
        return self.store.index.count

    @property
    def segment_files(self):
        """How many segments the log has at the moment."""
        return self.store.segment_count

    # -- watchers -------------------------------------------------------------------------------------------------------

    def add_watcher(self, Watcher watcher not None):
        """From now on, count for a reader how many messages are ahead of it."""
        watching.add_watcher(self.store, watcher)

    def begin_to_watch(self, Watcher watcher not None):
        """The same, but any reading of records that this takes is left to count_ahead()."""
        watching.begin_to_watch(self.store, watcher)

    def count_ahead(self, Watcher watcher not None, uint64_t looks):
        """Continue counting, reading at most `looks` records. Returns whether num_pending is complete."""
        return watching.count_ahead(self.store, watcher, looks)

    def remove_watcher(self, Watcher watcher not None):
        watching.remove_watcher(self.store, watcher)

    # -- reading --------------------------------------------------------------------------------------------------------

    def has(self, uint64_t seq):
        """Whether there is such a message, committed or not; reads nothing."""
        return self.store.is_live(seq)

    def previous(self, uint64_t seq):      # the last message up to a sequence, committed or not; 0: there is none
        return self.store.previous_live(seq)

    def following(self, uint64_t seq):     # the first from it on; last_seq + 1: there is none
        return self.store.next_live(seq)

    def next(self, uint64_t seq, Filter filter not None):
        """The first committed message at or after a sequence that passes the filter."""
        return readings.next(self.store, seq, filter)

    def look_for(self, uint64_t seq, Filter filter not None, uint64_t looks):
        """The same, reading at most `looks` records: (the message or None, 0 or the sequence from which to continue)."""
        return readings.look_for(self.store, seq, filter, looks)

    def last(self, bytes filter_subject not None):
        """The last sequence of a subject, or of all that match a pattern; 0: none."""
        return readings.last(self.store, filter_subject)

    def look_for_last(self, Filter filter not None, uint32_t place, uint64_t latest, uint64_t looks):
        """A part of last(), with about `looks` reads: the latest sequence so far, and the place to continue at."""
        return readings.look_for_last(self.store, filter, place, latest, looks)

    def places(self, Filter filter not None):
        """The place at which all is done."""
        return readings.places(self.store, filter)

    def settle(self, bytes subject not None, uint64_t looks):
        """Prepare the last message of a subject, reading at most `looks` records. Returns whether it is at hand."""
        return readings.settle(self.store, subject, looks)

    def subject_state(self, bytes subject not None):
        """(count, first, last) of a literal subject; None: it has no message."""
        return readings.subject_state(self.store, subject)

    def subjects(self, Filter filter not None):
        """Subject -> (count, first, last) of all that pass."""
        return readings.subjects(self.store, filter)

    def last_up_to(self, Filter filter not None, uint64_t up_to):
        """Subject -> last sequence, none above `up_to`, of all subjects that pass and have one."""
        return readings.last_up_to(self.store, filter, up_to)

    def first_up_to(self, dict found not None, Filter filter not None, uint64_t up_to, uint32_t place, uint64_t looks):
        """What the index knows for last_up_to(): where note_last() begins for the rest, the place to continue at."""
        return readings.first_up_to(self.store, found, filter, up_to, place, looks)

    def note_last(self, dict found not None, Filter filter not None, uint64_t seq, uint64_t up_to, uint64_t looks):
        """Note those that pass from `seq` on, with up to `looks` reads. Where to continue; above `up_to`: done."""
        return readings.note_last(self.store, found, filter, seq, up_to, looks)

    def last_sequences(self, Filter filter not None, uint64_t up_to, uint32_t place, uint64_t looks):
        """The last sequences of subjects that pass, none above `up_to`, in no order; and the place to continue at."""
        return readings.last_sequences(self.store, filter, up_to, place, looks)

    def count_subjects(self, Filter filter not None, uint32_t start=0, uint32_t most=<uint32_t> -1):
        """Subject -> count of all that pass among `most` places of the index; reads nothing from disk."""
        return readings.count_subjects(self.store, filter, start, most)

    @property
    def subject_places(self):
        """How many places the index has, of which some may be empty."""
        return self.store.index.used

    def count_from(self, uint64_t seq, Filter filter not None):
        """Committed messages from a sequence on that pass the filter."""
        return watching.count_from(self.store, seq, filter)

    def seq_from_end(self, uint64_t messages):
        """The sequence from which on there are `messages` messages; first_seq: there are fewer."""
        return readings.seq_from_end(self.store, messages)

    def check_reading(self):
        """Why messages cannot be read at present; None: they can. Asks the disk again if it failed before."""
        return readings.check_reading(self.store, self.pipeline.opened)
