"""Durations by the million, in fixed memory: log-linear histograms, one per slice of time.

Every power of two is split into 128 equal buckets, so a bucket is never wider than 1/128 of the values in it,
whether they are microseconds or minutes. Below 128 nanoseconds a bucket is one nanosecond:

    value      bits                    bucket
    5          0000000 0000101         5
    300        1 0010110 0             (300 >> 1) + 1 * 128
    3,000      1 0111011 1000          (3000 >> 4) + 4 * 128

One allocation serves all slices; the kernel gives pages only to those that are used.
"""

from libc.stdlib cimport calloc, free


cdef extern from *:
    """
    static inline int headrace_top_bit(long long value) { return 63 - __builtin_clzll((unsigned long long)value); }
    """
    int top_bit "headrace_top_bit"(long long value) nogil


cdef inline int bucket_of(int64_t value) noexcept nogil:
    cdef int shift
    if value < STEPS:
        return <int>value if value > 0 else 0
    shift = top_bit(value) - STEP_BITS
    if shift >= DOUBLINGS:
        return BUCKETS - 1
    return shift * STEPS + <int>(value >> shift)


cdef inline int64_t upper_bound(int bucket) noexcept nogil:
    """The highest value that falls into the bucket."""
    cdef int shift = max(bucket // STEPS - 1, 0)
    return ((<int64_t>(bucket - shift * STEPS) + 1) << shift) - 1


cdef class Histogram:
    """`slices` histograms of `slice_seconds` each. The counts are exact, the values within 1/128."""

    def __cinit__(self, double slice_seconds=1.0, int slices=1):
        if slice_seconds <= 0 or slices < 1:
            raise ValueError("a histogram needs at least one slice, longer than nothing")
        self.slice_nanoseconds = <int64_t>(slice_seconds * 1e9)
        self.slices = slices
        self.counts = <int64_t *>calloc(<size_t>slices * BUCKETS, sizeof(int64_t))
        self.maxima = <int64_t *>calloc(slices, sizeof(int64_t))
        if self.counts == NULL or self.maxima == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.counts)
        free(self.maxima)

    cdef void record(self, int64_t offset, int64_t nanoseconds) noexcept nogil:
        cdef int64_t number = min(max(offset, 0) // self.slice_nanoseconds, <int64_t>self.slices - 1)
        cdef int64_t *count = self.counts + number * BUCKETS + bucket_of(nanoseconds)
        count[0] += 1
        self.maxima[number] = max(self.maxima[number], nanoseconds)

    def add(self, int64_t offset_ns, int64_t nanoseconds):
        """Count a duration in the slice of `offset_ns` after the start."""
        self.record(offset_ns, nanoseconds)

    def used(self):
        """The numbers of the slices with counts."""
        return [number for number in range(self.slices) if self.buckets(number)]

    def buckets(self, int number):
        """Upper bound in nanoseconds and count of every bucket of a slice that is not empty, ascending."""
        cdef int bucket
        if not 0 <= number < self.slices:
            raise IndexError(f"there is no slice {number}")
        cdef int64_t *counts = self.counts + <int64_t>number * BUCKETS
        return [(upper_bound(bucket), counts[bucket]) for bucket in range(BUCKETS) if counts[bucket]]

    def highest(self, int number):
        """The longest duration of a slice in nanoseconds, exactly."""
        if not 0 <= number < self.slices:
            raise IndexError(f"there is no slice {number}")
        return self.maxima[number]
