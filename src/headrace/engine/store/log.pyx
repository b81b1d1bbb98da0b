"""The log of one stream: an append-only sequence of messages that loses some again, on disk or in memory.

Appending writes a record into `pending`; commit() swaps it with `flight` and hands it to the committer; when that comes
back (on_done), what it held is committed: watchers count it, callbacks are called, readers see it.

    store() ─► pending ══ commit() ══► flight ─► write, fdatasync ─► on_done() ─► committed_seq, watchers, callbacks
                  ▲                                                      │
                  └──────────────── filled meanwhile ────────────────────┘ next commit()

Every removal is logged, so that recovery is pure replay and knows no policy (a change of limits cannot resurrect
anything): at the head as one FIRST record per group, in the middle as one REMOVED record per group. Until the group
that says so is on disk, no file is removed or rewritten.

If a group cannot be written (disk full), its messages vanish: the files are cut back by the committer, and the log is
re-read from them: see failing.pyx. Texts of deleted messages are overwritten after that: see erasing.pyx.

Limits. A message that breaks one takes the oldest ones with it, and those have to be read. If that fails, the message
itself is stored all the same, and the next ones are refused until the limits can be kept again.
"""

from libc.errno cimport EOPNOTSUPP, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from headrace.engine.store.appending cimport Appender
from headrace.engine.store.chores cimport compact_memory, finish_chore, plan_chore
from headrace.engine.store.committer cimport (
    COMMIT, INDEX, ROLLBACK, STAGE_SYNC, SYNC, Part, free_buffer, hand_over,
)
from headrace.engine.store.erasing cimport plan_erasure, start_erasing
from headrace.engine.store.failing cimport fail, finish_rollback, read_again, roll_back
from headrace.engine.store.files cimport PATH_SIZE, cut, fallocate, sync_data
from headrace.engine.store.jobs cimport perform
from headrace.engine.store.record cimport (
    FIRST, HEAD_SIZE, LARGEST_SEQ, MESSAGE, REMOVED, SKIP, RecordHead, prepare_crc32c, seal_record,
)
from headrace.engine.store.recovery cimport recover
from headrace.engine.store.removing cimport (
    compact_some, end_of_aged, enforce_subjects, enforce_totals, remove_matching,
)
from headrace.engine.store.segments cimport add_message, add_range, clear_ranges, free_segment, make_room_for_range
from headrace.engine.store.subject_index cimport SubjectIndex
from headrace.engine.core.system cimport monotonic, wall_clock

import os

from headrace.engine.store.store import MOST_DAMAGES

prepare_crc32c()

cdef extern from "string.h" nogil:
    void *memmem(const void *haystack, size_t haystack_length, const void *needle, size_t needle_length)

cdef uint64_t SEGMENT_BYTES = 64 * 1024 * 1024
cdef uint64_t COMPRESSED_SEGMENT_BYTES = 16 * 1024 * 1024   # smaller: the active segment is not compressed
cdef size_t KEPT_BUFFER = 4 * 1024 * 1024     # a buffer that grew beyond it for one group is given back
cdef uint64_t LARGEST_RECORD = 1024 * 1024 * 1024
cdef uint32_t RANGES_PER_RECORD = 65536
cdef double RETRY_SECONDS = 0.1
cdef uint64_t UNLIMITED = <uint64_t> -1
cdef uint64_t FEW = 4              # that a message takes with it while a lower limit is being enforced


class Refused(Exception):
    """The stream is full and discards new messages; `reason` says which limit it was."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason


cdef class Log(Appender):
    def __cinit__(self, str directory=None, *, Committer committer=None, uint64_t segment_bytes=SEGMENT_BYTES,
                  str compression="none"):
        """`directory` None: in memory, where `compression` ("none" or "s2") changes nothing."""
        self.directory = directory
        self.in_memory = directory is None
        self.path = b"" if directory is None else os.fsencode(directory)
        if len(self.path) > PATH_SIZE - 64:
            raise ValueError("the path of the log is too long")
        self.committer = committer
        self.plain_segment_bytes = min(max(segment_bytes, <uint64_t> 4096), LARGEST_RECORD)
        self._set_compression(compression)
        self.index = SubjectIndex()
        self.damages = []
        self.damaged = set()
        self.watchers = []
        self.waiting_failed = []
        self.waiting_erased = []
        self.waiting = []
        self.waiting_flight = []
        self.head_window = Window(65536)
        self.probe = Window(1024)
        self.reader = Window(65536)
        self.next_number = 1
        self.epoch = 1
        self.opened = self.in_memory
        self.max_msgs = self.max_bytes = self.max_msgs_per_subject = -1
        self.pending = <Buffer *> calloc(1, sizeof(Buffer))
        self.flight = <Buffer *> calloc(1, sizeof(Buffer))
        self.commit_job = <Job *> calloc(1, sizeof(Job))
        self.sync_job = <Job *> calloc(1, sizeof(Job))
        self.rollback_job = <Job *> calloc(1, sizeof(Job))
        self.chore = <Job *> calloc(1, sizeof(Job))
        if self.pending == NULL or self.flight == NULL or self.commit_job == NULL or self.sync_job == NULL \
                or self.rollback_job == NULL or self.chore == NULL:
            raise MemoryError
        self.commit_job.kind = COMMIT
        self.sync_job.kind = SYNC
        self.rollback_job.kind = ROLLBACK
        self.commit_job.owner = self.sync_job.owner = self.rollback_job.owner = self.chore.owner = <void *> self
        self.commit_job.directory = self.sync_job.directory = self.chore.directory = self.path

    def __dealloc__(self):
        # A job under way holds a reference, so none is.
        free_buffer(self.pending)
        free_buffer(self.flight)
        free(self.commit_job)
        free(self.sync_job)
        free(self.rollback_job)
        free(self.unerased)
        if self.chore != NULL:
            free(self.chore.erasures)
            free(self.chore.numbers)
            free(self.chore.keep)
            free(self.chore.ranges)
        free(self.chore)
        clear_ranges(&self.removed)

    # -- opening and closing --------------------------------------------------------------------------------------------

    def recover(self):
        """Open what is in the directory (made if it is missing); one line for each damage that was found.

        Damage is never an exception; a directory that cannot be read or written is an OSError.
        """
        if self.in_memory or self.opened:
            return []
        os.makedirs(self.directory, exist_ok=True)
        found = recover(self)
        self.opened = True
        self._note_found(found)
        self._tidy()
        return found

    cdef int _note_found(self, list found) except -1:
        """What recovery found damaged."""
        self.damages.extend(found[:max(MOST_DAMAGES - len(self.damages), 0)])
        return 0

    cdef int warn(self, str line) except -1:
        if self.on_warning is not None:
            self.on_warning(line)
        return 0

    def close(self):
        """Write what is left, and the index of the last segment. Blocks until it is on disk."""
        if not self.opened:
            return
        if self.failure is None:
            self.commit()
        while self.commit_job.under_way:
            self.committer.wait_for(self.commit_job)
        self._wait_for_chores()
        self.erase_at = 0
        for _ in range(self.unerased_count):
            if self.erase_at or self.failure is not None:
                break
            start_erasing(self)
            self._wait_for_chores()
        if self.unerased_count:
            self.warn(f"closed with the texts of {self.unerased_count} deleted messages not overwritten: "
                      f"{self.erase_failure or self.failure}")
        if not self.in_memory and self.failure is None:
            self._write_indexes()
        self.opened = False
        self._reset()

    def _wait_for_chores(self):
        self.chore_planned = False
        while self.chore.under_way:
            self.tidy_due = False
            self.committer.wait_for(self.chore)
        while self.sync_job.under_way:
            self.committer.wait_for(self.sync_job)
        while self.rollback_job.under_way:
            self.committer.wait_for(self.rollback_job)

    def _write_indexes(self):
        """Of the active segment, and of those that nobody came round to."""
        cdef Job job
        cdef uint32_t k
        memset(&job, 0, sizeof(Job))
        job.kind = INDEX
        job.directory = self.path
        if self.active != NULL and self.active.fd >= 0:
            if cut(self.active.fd, self.active.size) or sync_data(self.active.fd):
                return
        for k in range(self.segment_count):
            job.segment = self.segments[k]
            if not job.segment.indexed or job.segment == self.active:
                with nogil:
                    perform(&job)

    def abandon(self):
        """Close without writing anything: the files are about to be deleted. Waits for what is being written."""
        if not self.opened:
            return
        while self.commit_job.under_way:
            self.wants_commit = False
            self.committer.wait_for(self.commit_job)
        self._wait_for_chores()
        callbacks = self.waiting + self.waiting_flight + self.waiting_erased
        self.waiting = []
        self.waiting_flight = []
        self.waiting_erased = []
        self.opened = False
        self._reset()
        self._call(callbacks, "the log was deleted")

    def destroy(self):
        """Close and delete the files, and the directory if nothing else is in it."""
        self.abandon()
        if self.in_memory:
            return
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return
        for name in names:
            if name.endswith((".log", ".idx", ".tmp", ".damaged")) and name[:12].isdigit():
                os.unlink(os.path.join(self.directory, name))
        if len(os.listdir(self.directory)) == 0:
            os.rmdir(self.directory)

    cdef int _check_open(self) except -1:
        if not self.opened:
            raise ValueError("the log is not open")
        return 0

    cdef void _reset(self) noexcept:
        """Forget everything that is in memory. No job is under way."""
        cdef uint32_t k
        cdef Segment *following
        for k in range(self.segment_count):
            free_segment(self.segments[k])
        while self.graveyard != NULL:
            following = self.graveyard.next_dead
            free_segment(self.graveyard)
            self.graveyard = following
        self.segment_count = 0
        self.open_files = 0
        self.active = NULL
        self.index.clear()
        self.first_seq = self.last_seq = self.committed_seq = 0
        self.count = self.byte_count = 0
        self.last_time = 0
        self.first_time_seq = 0
        self.logged_first = 0
        self.enforced_seq = 0
        self.unerased_count = 0
        self.wants_commit = self.chore_planned = self.tidy_due = self.sync_due = False
        self.clear_unwritten()

    cdef void clear_unwritten(self) noexcept:
        """Forget what is not on disk, and what was read ahead."""
        clear_ranges(&self.removed)
        clear_buffer(self.pending)
        clear_buffer(self.flight)
        self.head_window.release()
        self.probe.release()
        self.reader.release()

    @property
    def backlog_bytes(self):
        """Bytes that wait to be written."""
        return self.backlog()

    cdef size_t backlog(self) noexcept:
        return self.pending.size + self.flight.size

    # -- appending ------------------------------------------------------------------------------------------------------

    def configure(self, *, long long max_msgs=-1, long long max_bytes=-1, long long max_msgs_per_subject=-1,
                  bint discard_new=False, bint discard_new_per_subject=False, str compression=None,
                  bint at_once=True):
        """Set the limits (0 or less: none) and enforce them, at once or with calls of enforce().

        `compression` None: as it is.
        """
        self._check_open()
        if compression is not None:
            self._set_compression(compression)
        cdef bint fewer = max_msgs_per_subject > 0 and (
            self.max_msgs_per_subject <= 0 or max_msgs_per_subject < self.max_msgs_per_subject)
        self.max_msgs = max_msgs
        self.max_bytes = max_bytes
        self.max_msgs_per_subject = max_msgs_per_subject
        self.discard_new = discard_new
        self.discard_new_per_subject = discard_new_per_subject
        self.enforcing = True
        if fewer and self._has_longer_subject():
            self.enforced_seq = 0
            self.enforcing_subjects = True
        if self.failure is None and at_once:
            try:
                self.enforce(UNLIMITED)
            except OSError:
                pass               # it cannot be read at present: messages that come take a few with them, as usual

    def enforce(self, uint64_t most):
        """Remove some of what breaks the limits, reading about `most` records. Whether nothing more does."""
        self._check_open()
        if self.failure is not None and not self._try_again():
            raise OSError(self.failure)
        if self.enforcing and enforce_totals(self, most):
            if not self.enforcing_subjects or enforce_subjects(self, most):
                self.enforcing = self.enforcing_subjects = False
        return not self.enforcing

    cdef bint _has_longer_subject(self) noexcept:
        cdef uint32_t k
        for k in range(self.index.used):
            if self.index.entries[k].count > <uint64_t> self.max_msgs_per_subject:
                return True
        return False

    cdef int _set_compression(self, str compression) except -1:
        """Sealed segments are compressed from now on, those that are already there, too; or left as they are."""
        cdef bint before = self.compress
        if compression not in ("none", "s2"):
            raise ValueError(f"unknown compression: {compression}")
        self.compress = compression == "s2" and not self.in_memory
        self.segment_bytes = min(self.plain_segment_bytes, COMPRESSED_SEGMENT_BYTES) if self.compress \
            else self.plain_segment_bytes
        if self.compress and not before and self.opened:
            self.tidy_due = True
            self._tidy()
        return 0

    cdef int _warn_of_compression(self, str reason) except -1:
        """Once, until it works again."""
        if not self.compress_failing and self.on_warning is not None:
            self.on_warning(f"a segment cannot be compressed and stays as it is: {reason}")
        self.compress_failing = True
        return 0

    def append(self, bytes subject not None, bytes headers not None, bytes payload not None, int64_t time=0,
               uint64_t seq=0):
        """Store a message; returns its sequence. `seq`: a given one above last_seq, what is between counts as deleted.

        Raises Refused if it is full and discards new ones, OSError if nothing can be written.
        """
        cdef bytes body = headers + payload if headers else payload
        cdef uint64_t stored
        self._check_open()
        if seq == 0:
            seq = self.last_seq + 1
        elif seq <= self.last_seq:
            raise ValueError(f"sequence {seq} is not above {self.last_seq}")
        stored = self._store(subject, <uint32_t> len(subject), body, <uint32_t> len(headers), len(body), time, seq)
        if stored == 0:
            if self.refusal == "failed":
                raise OSError(self.failure or self.read_failure)
            raise Refused(self.refusal)
        return stored

    cdef uint64_t store(self, const char *subject, uint32_t subject_length, const char *body,
                        uint32_t header_length, Py_ssize_t size, int64_t time) except? 0:
        """Append a message: `body` is the headers and the payload, `size` bytes in all. Time 0: now.

        Returns its sequence. 0: it is refused, and self.refusal says why: the name of a limit, or "failed".
        """
        return self._store(subject, subject_length, body, header_length, size, time, self.last_seq + 1)

    cdef uint64_t _store(self, const char *subject, uint32_t subject_length, const char *body,
                         uint32_t header_length, Py_ssize_t size, int64_t time, uint64_t seq) except? 0:
        cdef size_t length = HEAD_SIZE + <size_t> subject_length + <size_t> size
        cdef RecordHead *head
        cdef Entry *entry
        cdef uint32_t offset
        if subject_length > 65535 or length > LARGEST_RECORD or header_length > size:
            raise ValueError("the message is too large for the log")
        if not self.opened or self.failure is not None and not self._try_again():
            self.refusal = "failed"
            return 0
        if seq > LARGEST_SEQ:
            self.refusal = "last_seq"
            return 0
        if self.behind and not self._catch_up():
            self.refusal = "failed"
            return 0
        if self.discard_new:
            try:
                self.refusal = self._refuse(subject, subject_length, body, header_length, size)
            except OSError:
                self.refusal = "failed"
            if self.refusal is not None:
                return 0
        entry = self.index.add(subject, subject_length)
        try:
            head = <RecordHead *> self._append(seq, length)
            offset = <uint32_t> (self.active.size - length)
            if add_message(self.active, seq, offset, <uint32_t> length) < 0:
                self.active.size -= length
                if not self.in_memory:
                    self.pending.size -= length
                    self.pending.parts[self.pending.part_count - 1].length -= length
                raise MemoryError
        except MemoryError:
            if entry.count == 0:
                self.index.discard(entry)
            raise
        head.length = <uint32_t> length
        head.seq = seq
        head.time = time if time else wall_clock()
        head.previous = entry.last if entry.count and not entry.last_stale else 0
        head.header_length = header_length
        head.subject_length = subject_length
        head.kind = MESSAGE
        head.flags = 0
        memcpy(<char *> head + HEAD_SIZE, subject, subject_length)
        memcpy(<char *> head + HEAD_SIZE + subject_length, body, size)
        if not self.in_memory:
            seal_record(head, self.active.salt)
        if self.active.first_time == 0:
            self.active.first_time = head.time
        if entry.count == 0:
            entry.first = seq
        entry.count += 1
        entry.last = seq
        entry.last_stale = False
        if self.count == 0:
            self.first_seq = seq
        self.count += 1
        self.byte_count += self.size_of(subject_length, header_length, size - header_length)
        self.last_seq = seq
        self.last_time = head.time
        if self.max_msgs_per_subject > 0 and entry.count > <uint64_t> self.max_msgs_per_subject \
                or (self.max_msgs > 0 or self.max_bytes > 0) and not self.discard_new:
            self.behind = not self._keep_limits(subject, subject_length)
        return seq

    cdef bint _keep_limits(self, const char *subject, uint32_t length) except -1:
        """Remove what a message has made too many. False: some of it cannot be read at present."""
        try:
            if self.max_msgs_per_subject > 0:
                self._enforce_subject(subject, length)
            if (self.max_msgs > 0 or self.max_bytes > 0) and not self.discard_new:
                # While enforce() is at it, every message takes a few with it, so that there are ever fewer.
                enforce_totals(self, FEW if self.enforcing else UNLIMITED)
        except (OSError, MemoryError):
            self.behind_subject = subject[:length]
            return False
        return True

    cdef bint _catch_up(self) except -1:
        """Enforce the limits that could not be enforced before. Whether they are kept now."""
        self.behind = not self._keep_limits(self.behind_subject, <uint32_t> len(self.behind_subject))
        return not self.behind

    cdef str _refuse(self, const char *subject, uint32_t subject_length, const char *body, uint32_t header_length,
                     Py_ssize_t size):
        """Which limit a message would break in a stream that discards new ones."""
        cdef Record oldest
        cdef uint64_t added = self.size_of(subject_length, header_length, size - header_length)
        cdef Entry *entry = NULL
        cdef bint replaces = False
        if self.max_msgs_per_subject > 0:
            entry = self.index.find(subject, subject_length)
            # At its limit a subject's first message makes room, unless new ones are discarded there, too.
            replaces = entry != NULL and entry.count >= <uint64_t> self.max_msgs_per_subject
        if replaces and self.discard_new_per_subject and memmem(body, header_length, b"Nats-Rollup:", 12) == NULL:
            return "max_msgs_per_subject"
        if self.max_msgs > 0 and self.count >= <uint64_t> self.max_msgs and not replaces:
            return "max_msgs"
        if self.max_bytes > 0 and self.byte_count + added > <uint64_t> self.max_bytes:
            if not replaces:
                return "max_bytes"
            self.resolve_first(entry)
            if not self.read(self.probe, entry.first, &oldest) \
                    or self.size_of(oldest.subject_length, oldest.header_length, oldest.payload_length) < added:
                return "max_bytes"
        return None

    def skip(self, uint64_t next_seq):
        """The next message gets this sequence."""
        self._check_open()
        if next_seq <= self.last_seq + 1 and not (next_seq == self.last_seq + 1 and self.first_seq == 0):
            if next_seq <= self.last_seq:
                raise ValueError(f"sequence {next_seq} is not above {self.last_seq}")
            return
        if self.failure is not None and not self._try_again():
            raise OSError(self.failure)
        if self.in_memory:
            self.last_seq = next_seq - 1
        else:
            self._append_control(SKIP, next_seq, NULL, 0)
            self.last_seq = next_seq - 1
        if self.count == 0:
            self.first_seq = next_seq

    # -- limits ---------------------------------------------------------------------------------------------------------

    cdef int _remove_first(self) except -1:
        if self.forget(self.head_window, self.first_seq):
            return 0
        # Only if files contradict each other (two segments for the same sequences) is there no message at first_seq.
        # It still has to move, or those who remove until there is room would never end.
        self.first_seq = self.next_live(self.first_seq + 1)
        if self.first_seq > self.last_seq:
            self.count = self.byte_count = 0
            self.index.clear()
        return 0

    cdef int _enforce_subject(self, const char *subject, uint32_t length) except -1:
        cdef Entry *entry
        cdef uint64_t most = FEW if self.enforcing_subjects else UNLIMITED
        while most:
            most -= 1
            entry = self.index.find(subject, length)
            if entry == NULL or entry.count <= <uint64_t> self.max_msgs_per_subject:
                return 0
            self.resolve_first(entry)
            if entry.first == self.last_seq:
                entry.count = 1    # what was removed with a damaged record had counted until now
                return 0
            if not self.forget(self.probe, entry.first):
                entry.count -= 1   # the same
        return 0

    # -- removing -------------------------------------------------------------------------------------------------------

    cdef int make_room_for_removal(self) except -1:
        """A removal that is not noted would not be written, and the message would come back."""
        if not self.in_memory and make_room_for_range(&self.removed) < 0:
            raise MemoryError
        return 0

    cdef void note_removal(self, uint64_t seq) noexcept:
        """Remember what the next commit has to say about a message that is forgotten."""
        if seq == self.first_seq:
            self.first_seq = self.next_live(seq + 1)
        elif not self.in_memory:
            add_range(&self.removed, seq, seq)

    def remove(self, uint64_t seq, *, bint erase=False):
        """Remove one message; False: it is not there. `erase`: overwrite its text, too."""
        self._check_open()
        if self.failure is not None and not self._try_again():
            raise OSError(self.failure)
        if erase and self.is_live(seq):
            plan_erasure(self, seq)
        return self.forget(self.probe, seq)

    def when_erased(self, callback):
        """Call back when no text is left to be overwritten (None), or that failed (the text); at once if none is."""
        if self.unerased_count == 0:
            callback(None)
        elif self.failure is not None:
            callback(self.failure)
        elif monotonic() < self.erase_at:
            callback(self.erase_failure)
        else:
            self.waiting_erased.append(callback)
            start_erasing(self)

    def check_reading(self):
        """Why messages cannot be read at present; None: they can. Asks the disk again if it failed before."""
        cdef Record record
        if self.read_failure is not None and self.opened:
            if not self.is_live(self.unread_seq):
                self.read_failure = None
            else:
                try:
                    self.read(self.probe, self.unread_seq, &record)
                except (OSError, MemoryError):
                    pass           # read_failure says so
        return self.read_failure

    def erase_again(self):
        """Try to overwrite what could not be overwritten before. Whether nothing is left."""
        if self.opened and not self.in_memory:
            start_erasing(self)
        return self.unerased_count == 0

    def remove_many(self, seqs):
        """Remove those that are there; returns how many."""
        cdef Py_ssize_t removed = 0
        self._check_open()
        if self.failure is not None and not self._try_again():
            raise OSError(self.failure)
        for seq in seqs:
            removed += self.forget(self.probe, seq)
        return removed

    def remove_matching(self, uint64_t seq, uint64_t last, Filter filter not None, uint64_t most, uint64_t looks):
        """Remove up to `most` committed messages from `seq` to `last` that pass, reading at most `looks` records.

        Returns how many, and the sequence from which to go on; above `last`: it is done.
        """
        cdef uint64_t removed
        self._check_open()
        if self.failure is not None and not self._try_again():
            raise OSError(self.failure)
        removed = remove_matching(self, &seq, last, filter, most, looks)
        return removed, seq

    def compact(self, uint64_t first_seq, uint64_t most=UNLIMITED):
        """Remove everything below a sequence; returns how many. Above last_seq + 1: the next message gets it.

        With `most` it may stop before it is done, after that many reads; then first_seq has not got there.
        """
        cdef uint64_t before = self.count
        self._check_open()
        if self.failure is not None and not self._try_again():
            raise OSError(self.failure)
        if first_seq > self.last_seq:
            self.purge()
            if first_seq > self.last_seq + 1:
                self.skip(first_seq)
            return before
        compact_some(self, first_seq, most)
        return before - self.count

    def expire(self, int64_t oldest, uint64_t seq, uint64_t most):
        """Remove messages from the head on that are not younger than a time; the first younger one ends it.

        Reads no more than `most` from `seq` on. Returns where to go on with the next part; 0: it is done.
        """
        cdef uint64_t end = end_of_aged(self, oldest, &seq, most)
        if end > self.first_seq and self.count:
            self.compact(end)
        return seq

    def purge(self):
        """Remove everything; returns how many. last_seq stays."""
        cdef uint64_t before = self.count
        cdef uint32_t k
        cdef Segment *segment
        cdef Watcher watcher
        self._check_open()
        if self.failure is not None and not self._try_again():
            raise OSError(self.failure)
        for k in range(self.segment_count):
            segment = self.segments[k]
            if segment.live:
                memset(segment.offsets, 0, segment.count * sizeof(uint32_t))
                segment.live = 0
                segment.live_bytes = 0
        self.index.clear()
        self.count = self.byte_count = 0
        self.first_seq = self.last_seq + 1
        clear_ranges(&self.removed)
        for watcher in self.watchers:
            watcher.num_pending = 0
            watcher.uncounted = watcher.uncounted_end = 0
        self.tidy_due = True
        return before

    cdef int _log_removals(self) except -1:
        """Write what was removed since the last group as records."""
        cdef uint32_t k, kept = 0, some
        cdef uint64_t *items = self.removed.items
        if self._first_moved():
            self._append_control(FIRST, self.first_seq, NULL, 0)
            self.logged_first = self.first_seq
        for k in range(self.removed.count):
            if items[2 * k + 1] >= self.first_seq:
                items[2 * kept] = items[2 * k]
                items[2 * kept + 1] = items[2 * k + 1]
                kept += 1
        k = 0
        while k < kept:
            some = kept - k if kept - k < RANGES_PER_RECORD else RANGES_PER_RECORD
            self._append_control(REMOVED, self.last_seq, items + 2 * k, some)
            # As long as the file with this record is there, it has to keep it: see chores.pyx.
            while some:
                if add_range(&self.active.removals, items[2 * k], items[2 * k + 1]) < 0:
                    raise MemoryError
                k += 1
                some -= 1
        self.removed.count = 0
        return 0

    cdef bint is_in_use(self, Segment *segment) noexcept:
        # While a segment is rewritten, its name may already be that of the new file: only the descriptor is the old one.
        return self.sync_job.under_way and self.sync_job.fd == segment.fd \
            or (self.chore.under_way or self.chore_planned) and self.chore.segment == segment

    # -- committing -----------------------------------------------------------------------------------------------------

    cdef bint has_pending(self) noexcept:
        """Whether something was written since the last commit()."""
        if self.in_memory:
            return self.committed_seq != self.last_seq or self.tidy_due or self.graveyard != NULL
        return self.pending.size != 0 or self.removed.count != 0 or self._first_moved()

    cdef bint _first_moved(self) noexcept:
        """Whether the disk does not know so far where the log begins. (That it begins with 1 goes without saying.)"""
        return self.first_seq > self.logged_first and self.first_seq > 1

    cpdef int commit(self) except -1:
        """Hand what is pending to the committer. If it is still busy with the last group, this follows as soon as it is not."""
        cdef Buffer *buffer
        if self.in_memory:
            return self._commit_memory()
        if not self.opened or self.failure is not None:
            return 0
        if self.commit_job.under_way:
            self.wants_commit = True
            return 0
        self.wants_commit = False
        if not self.has_pending():
            return 0
        self._log_removals()
        buffer = self.flight
        self.flight = self.pending
        self.pending = buffer
        self.flight.last_seq = self.last_seq
        self.groups += 1
        self.waiting_flight = self.waiting
        self.waiting = []
        if self.tidy_due and not self.chore.under_way and not self.chore_planned:
            self.chore_planned = self._plan_chore()
        self.commit_job.buffer = self.flight
        self.commit_job.sync = self.committer is None or self.committer.sync_interval <= 0
        return hand_over(self.committer, self.commit_job)

    cdef int _commit_memory(self) except -1:
        cdef Segment *following
        cdef bint news = self.committed_seq != self.last_seq
        while self.graveyard != NULL:
            following = self.graveyard.next_dead
            free_segment(self.graveyard)
            self.graveyard = following
        if self.tidy_due:
            compact_memory(self)
        if news:
            self.count_committed(self.last_seq)
            self.committed_seq = self.last_seq
        if self.waiting:
            callbacks = self.waiting
            self.waiting = []
            self._call(callbacks, None)
        if news and self.on_committed is not None:
            self.on_committed()
        return 0

    cdef int _bury(self, Segment *segment) except -1:
        segment.next_dead = self.graveyard
        self.graveyard = segment
        return 0

    cdef int on_done(self, Job *job) except -1:
        if job.kind == ROLLBACK:
            return finish_rollback(self)
        if self.failure is not None:
            # A rollback waits for it, and reads from disk what became of it.
            if job.kind != COMMIT and job.kind != SYNC:
                finish_chore(self, job)
            return roll_back(self) if self.rolling_back and self.shadow is None else 0
        if job.kind == COMMIT:
            return fail(self, job.error, job.stage == STAGE_SYNC) if job.error else self._committed()
        if job.kind == SYNC:
            return fail(self, job.error, True) if job.error else self._sync_later()
        return finish_chore(self, job)

    cdef void work(self, Job *job) noexcept:
        read_again(self)

    cdef int _sync_later(self) except -1:
        """With a sync_interval: see to it that what is written by now is synced, by the sync under way or the next one."""
        if self.sync_job.under_way:
            self.sync_due = True
        elif self.sync_due and self.opened and self.active != NULL and self.active.fd >= 0:
            self.sync_due = False
            self.sync_job.fd = self.active.fd
            self.committer.submit(self.sync_job)
        return 0

    cdef int _committed(self) except -1:
        """A group is on disk."""
        cdef Buffer *buffer = self.flight
        cdef list callbacks = self.waiting_flight
        cdef Part *part
        cdef uint32_t k
        self.count_committed(buffer.last_seq)
        self.committed_seq = buffer.last_seq
        for k in range(buffer.part_count):
            part = &buffer.parts[k]
            part.segment.written = part.offset + part.length
            if part.seal:
                part.segment.sealed = True
                part.segment.indexed = False
                self.open_files += 1
                self.tidy_due = True
        self.groups_done = self.groups
        clear_buffer(buffer)
        if not self.commit_job.sync:
            self.sync_due = True
            self._sync_later()
        self.waiting_flight = []
        if self.chore_planned:
            self.chore_planned = False
            hand_over(self.committer, self.chore)
        try:
            # The disk goes on while Python is told.
            if self.wants_commit:
                self.commit()
            start_erasing(self)
            self._tidy()
        finally:
            # Whatever became of the next group, this one is on disk.
            if callbacks:
                self._call(callbacks, None)
            if self.on_committed is not None:
                self.on_committed()
        return 0

    cdef int _tidy(self) except -1:
        """Start a chore if there is one and nothing is about to be committed (else it is planned with the next group)."""
        if self.tidy_due and self.opened and self.failure is None and not self.chore.under_way \
                and not self.chore_planned and not self.commit_job.under_way and not self.has_pending() \
                and self._plan_chore():
            hand_over(self.committer, self.chore)
        return 0

    cdef bint _plan_chore(self) except -1:
        """Whether there is one to do. If there is no memory for its plan it has to wait, as nothing else may for it."""
        try:
            return plan_chore(self)
        except MemoryError:
            return False

    cdef bint _try_again(self) except -1:
        """After a full disk: whether there is space again."""
        cdef uint64_t wanted
        if self.rolling_back and self.shadow is None and monotonic() >= self.retry_at:
            roll_back(self)        # which could not read the files before
        if not self.retryable or monotonic() < self.retry_at:
            return False
        self.retry_at = monotonic() + RETRY_SECONDS
        if self.active != NULL and self.active.fd >= 0:
            wanted = self.active.size + min(self.segment_bytes, <uint64_t> 65536)
            if fallocate(self.active.fd, 0, 0, wanted) < 0:
                if errno != EOPNOTSUPP:
                    return False
            elif self.active.allocated < wanted:
                self.active.allocated = wanted
        self.failure = None
        self.retryable = False
        return True

    def when_committed(self, callback):
        """Call back when all that was written so far is on disk (None) or failed (the text); at once if it is."""
        if self.failure is not None:
            callback(self.failure)
        elif self.in_memory or self.has_pending():
            self.waiting.append(callback)
            self.commit()
        elif self.commit_job.under_way:
            self.waiting_flight.append(callback)
        else:
            callback(None)

    cdef int _call(self, list callbacks, object failure) except -1:
        """Call all of them; the first exception is raised after the last one."""
        error = None
        for callback in callbacks:
            try:
                callback(failure)
            except Exception as raised:
                error = error or raised
        if error is not None:
            raise error
        return 0


cdef void clear_buffer(Buffer *buffer) noexcept:
    buffer.size = 0
    buffer.part_count = 0
    if buffer.capacity > KEPT_BUFFER:
        free(buffer.data)
        buffer.data = NULL
        buffer.capacity = 0
