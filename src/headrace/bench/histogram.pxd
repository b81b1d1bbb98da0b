"""What a histogram of durations holds; `histogram.pyx` says how its buckets are laid out."""

from libc.stdint cimport int64_t


cdef enum:
    STEP_BITS = 7                             # 128 buckets per power of two: a relative error below 1/128
    STEPS = 1 << STEP_BITS
    DOUBLINGS = 34                            # up to 2**41 nanoseconds, more than half an hour
    BUCKETS = (DOUBLINGS + 1) * STEPS


cdef class Histogram:
    cdef readonly int64_t slice_nanoseconds
    cdef readonly int slices                  # the most that there can be; the last takes what comes later
    cdef int64_t *counts                      # BUCKETS per slice
    cdef int64_t *maxima                      # one per slice

    cdef void record(self, int64_t offset, int64_t nanoseconds) noexcept nogil
