# How large commit groups are and how long syncs take. The theory is at the top of commit_figures.pyx.

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    BUCKETS = 14

cdef struct Histogram:
    uint64_t counts[BUCKETS + 1]   # of the values up to each bound, and above the last one
    double total

cdef struct CommitFigures:
    Histogram messages             # of a group
    Histogram sizes                # of a group, in bytes
    Histogram syncs                # in seconds

cdef void count_group(CommitFigures *figures, uint64_t messages, uint64_t size) noexcept nogil
cdef void count_sync(CommitFigures *figures, int64_t nanoseconds) noexcept nogil
cdef dict describe(const CommitFigures *figures)
