"""The limits of a log: how many messages it may have, how many bytes, how many of one subject.

A message that exceeds a limit removes the oldest ones, or is refused (discard_new). Those to be removed have to be
read. If that fails, the message itself is stored anyway, and the next ones are refused until the limits can be enforced
again.

If a limit is lowered, a large stream has more to remove than the loop's thread may read in one call: enforce() does a part.
Until it is done every message removes a few, so that their number keeps shrinking.
"""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.store.readings cimport seq_from_end
from headrace.engine.store.removing cimport remove_below, remove_first, remove_message
from headrace.engine.store.resolving cimport resolve_first
from headrace.engine.store.subject_index cimport SubjectIndex
from headrace.engine.segments.windows cimport Record

cdef extern from "string.h" nogil:
    void *memmem(const void *haystack, size_t haystack_length, const void *needle, size_t needle_length)

cdef uint64_t UNLIMITED = <uint64_t> -1
cdef uint64_t FEW = 4              # that a message removes while a lower limit is being enforced
cdef uint64_t MANY = 64            # messages to remove before it pays to check what is left after them


cdef class Limits:
    def __cinit__(self, Store store not None):
        self.store = store
        self.max_msgs = self.max_bytes = self.max_msgs_per_subject = -1

    cdef int change(self, long long max_msgs, long long max_bytes, long long max_msgs_per_subject) except -1:
        """Set them; enforce() removes what exceeds them."""
        cdef bint fewer = max_msgs_per_subject > 0 and (
            self.max_msgs_per_subject <= 0 or max_msgs_per_subject < self.max_msgs_per_subject)
        self.max_msgs = max_msgs
        self.max_bytes = max_bytes
        self.max_msgs_per_subject = max_msgs_per_subject
        self.are_set = max_msgs > 0 or max_bytes > 0 or max_msgs_per_subject > 0
        self.enforcing = True
        if fewer and self._has_longer_subject():
            self.enforced_seq = 0
            self.enforcing_subjects = True
        return 0

    # -- one message ----------------------------------------------------------------------------------------------------

    cdef str refuse(self, const char *subject, uint32_t subject_length, const char *body, uint32_t header_length,
                    Py_ssize_t size):
        """Which limit a message would exceed in a stream that discards new ones; None: none."""
        cdef Record oldest
        cdef Store store = self.store
        cdef uint64_t added = store.size_of(subject_length, header_length, size - header_length)
        cdef Entry *entry = NULL
        cdef bint replaces = False
        if self.max_msgs <= 0 and self.max_bytes <= 0 and not self.discard_new_per_subject:
            return None            # most buckets: a value replaces another
        if self.max_msgs_per_subject > 0:
            entry = store.index.find(subject, subject_length)
            # At its limit a subject's first message makes room, unless new ones are discarded there, too.
            replaces = entry != NULL and entry.count >= <uint64_t> self.max_msgs_per_subject
        if replaces and self.discard_new_per_subject and memmem(body, header_length, b"Nats-Rollup:", 12) == NULL:
            return "max_msgs_per_subject"
        if self.max_msgs > 0 and store.count >= <uint64_t> self.max_msgs and not replaces:
            return "max_msgs"
        if self.max_bytes > 0 and store.byte_count + added > <uint64_t> self.max_bytes:
            if not replaces:
                return "max_bytes"
            resolve_first(store, entry)
            if not store.read(store.probe, entry.first, &oldest) \
                    or store.size_of(oldest.subject_length, oldest.header_length, oldest.payload_length) < added:
                return "max_bytes"
        return None

    cdef int after_append(self, Entry *entry, const char *subject, uint32_t length) except -1:
        """Remove what exceeds the limits after a new message."""
        if self.max_msgs_per_subject > 0 and entry.count > <uint64_t> self.max_msgs_per_subject \
                or (self.max_msgs > 0 or self.max_bytes > 0) and not self.discard_new:
            self.behind = not self._make_room(entry, subject, length)
        return 0

    cdef bint catch_up(self) except -1:
        """Enforce the limits that could not be enforced before. Returns whether they are met now."""
        cdef uint32_t length = <uint32_t> len(self.behind_subject)
        self.behind = not self._make_room(self.store.index.find(self.behind_subject, length), self.behind_subject, length)
        return not self.behind

    cdef bint _make_room(self, Entry *entry, const char *subject, uint32_t length) except -1:
        """False: some of what is to be removed cannot be read now. `entry`: that of the subject, if it has messages."""
        try:
            if self.max_msgs_per_subject > 0 and entry != NULL:
                self._enforce_subject(entry)
            if (self.max_msgs > 0 or self.max_bytes > 0) and not self.discard_new:
                self._enforce_totals(FEW if self.enforcing else UNLIMITED)
        except (OSError, MemoryError):
            self.behind_subject = subject[:length]
            return False
        return True

    cdef int _enforce_subject(self, Entry *entry) except -1:
        """At least one message is left, so that the entry remains valid."""
        cdef Store store = self.store
        cdef uint64_t most = FEW if self.enforcing_subjects else UNLIMITED
        while most and entry.count > <uint64_t> self.max_msgs_per_subject:
            most -= 1
            resolve_first(store, entry)
            if entry.first == store.last_seq:
                entry.count = 1    # what was removed with a damaged record had counted until now
                return 0
            if not remove_message(store, store.probe, entry.first):
                entry.count -= 1   # the same
        return 0

    # -- all messages ---------------------------------------------------------------------------------------------------

    cdef bint enforce(self, uint64_t most) except -1:
        """Remove some of what exceeds the limits, reading about `most` records. Returns whether that is all."""
        if self.enforcing and self._enforce_totals(most):
            if not self.enforcing_subjects or self._enforce_subjects(most):
                self.enforcing = self.enforcing_subjects = False
        return not self.enforcing

    cdef bint _enforce_totals(self, uint64_t most) except -1:
        """Remove the oldest messages until max_msgs and max_bytes are met, at most `most`. Returns whether they are."""
        cdef Store store = self.store
        if self.discard_new:
            return True
        if self.max_msgs > 0 and store.count > <uint64_t> self.max_msgs:
            if most > MANY and store.count - self.max_msgs > MANY:
                remove_below(store, seq_from_end(store, self.max_msgs), most)
            while store.count > <uint64_t> self.max_msgs:
                if most == 0:
                    return False
                remove_first(store)
                most -= 1
        if self.max_bytes > 0:
            while store.byte_count > <uint64_t> self.max_bytes and store.count:
                if most == 0:
                    return False
                remove_first(store)
                most -= 1
        return True

    cdef bint _enforce_subjects(self, uint64_t looks) except -1:
        """One pass from enforced_seq: a message goes while its subject has too many. Returns whether it has ended.

        A subject either meets its limit, or all its messages are still ahead of the pass: a publish removes what it
        makes too many (see _enforce_subject), so what the pass has left behind stays correct.
        """
        cdef Store store = self.store
        cdef Record record
        cdef Entry *entry
        cdef uint64_t seq
        if self.reloads != store.reloads:
            self.reloads = store.reloads
            self.enforced_seq = 0  # what the pass had removed may be back
        seq = store.next_live(max(self.enforced_seq, store.first_seq))
        while seq <= store.last_seq:
            if looks == 0:
                self.enforced_seq = seq
                return False
            looks -= 1
            if store.read(store.reader, seq, &record):
                entry = store.index.find(record.subject, record.subject_length)
                if entry != NULL and entry.count > <uint64_t> self.max_msgs_per_subject:
                    remove_message(store, store.reader, seq)
            seq = store.next_live(seq + 1)
        self.enforced_seq = seq
        return True

    cdef bint _has_longer_subject(self) noexcept:
        cdef SubjectIndex index = self.store.index
        cdef uint32_t k
        for k in range(index.used):
            if index.entries[k].count > <uint64_t> self.max_msgs_per_subject:
                return True
        return False
