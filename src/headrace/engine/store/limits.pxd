# The limits of a log. The theory is at the top of limits.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.store.store cimport Store
from headrace.engine.store.subject_index cimport Entry

@cython.final
cdef class Limits:
    cdef Store store
    cdef long long max_msgs, max_bytes, max_msgs_per_subject      # 0 or less: none
    cdef bint are_set              # one of them is
    cdef bint discard_new, discard_new_per_subject
    cdef bint enforcing            # limits were lowered, and enforce() is not done,
    cdef bint enforcing_subjects   # nor is that of the subjects,
    cdef uint64_t enforced_seq     # whose pass has got here,
    cdef uint64_t reloads          # which holds if the store is still the one that it began with
    cdef bint behind               # a limit could not be enforced: a record could not be read
    cdef bytes behind_subject      # when a message of this subject was stored

    cdef int change(self, long long max_msgs, long long max_bytes, long long max_msgs_per_subject) except -1
    cdef str refuse(self, const char *subject, uint32_t subject_length, const char *body, uint32_t header_length,
                    Py_ssize_t size)
    cdef int after_append(self, Entry *entry, const char *subject, uint32_t length) except -1
    cdef bint catch_up(self) except -1
    cdef bint enforce(self, uint64_t most) except -1
    cdef bint _make_room(self, Entry *entry, const char *subject, uint32_t length) except -1
    cdef int _enforce_subject(self, Entry *entry) except -1
    cdef bint _enforce_totals(self, uint64_t most) except -1
    cdef bint _enforce_subjects(self, uint64_t looks) except -1
    cdef bint _has_longer_subject(self) noexcept
