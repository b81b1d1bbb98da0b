"""Histograms of commits: how large the groups are, and how long their syncs take.

Counted once per group, by the committer's threads, under its mutex, so there is no extra cost per message. Bounds are
fixed: a restarted server counts into the same buckets, as needed for adding up histograms over time and servers.
"""

cdef double[BUCKETS] MESSAGES = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000]
cdef double[BUCKETS] SIZES = [
    256, 1024, 4096, 16_384, 65_536, 262_144, 524_288, 1_048_576, 2_097_152, 4_194_304, 8_388_608, 16_777_216, 33_554_432,
    67_108_864,
]
cdef double[BUCKETS] SECONDS = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
]


cdef void count_group(CommitFigures *figures, uint64_t messages, uint64_t size) noexcept nogil:
    """A group is on disk. One without messages, such as that of a removal, counts only with its size."""
    if messages:
        _observe(&figures.messages, MESSAGES, <double> messages)
    _observe(&figures.sizes, SIZES, <double> size)


cdef void count_sync(CommitFigures *figures, int64_t nanoseconds) noexcept nogil:
    """A group, or with a sync_interval a file, was synced."""
    _observe(&figures.syncs, SECONDS, nanoseconds * 1e-9)


cdef void _observe(Histogram *histogram, const double *bounds, double value) noexcept nogil:
    cdef int k = 0
    while k < BUCKETS and value > bounds[k]:
        k += 1
    histogram.counts[k] += 1
    histogram.total += value


cdef dict describe(const CommitFigures *figures):
    """For each: its bounds, how many values were in each bucket (the last one has no bound), and their sum."""
    return {
        "group_messages": _describe(&figures.messages, MESSAGES),
        "group_bytes": _describe(&figures.sizes, SIZES),
        "sync_seconds": _describe(&figures.syncs, SECONDS),
    }


cdef tuple _describe(const Histogram *histogram, const double *bounds):
    return (
        [bounds[k] for k in range(BUCKETS)],
        [histogram.counts[k] for k in range(BUCKETS + 1)],
        histogram.total,
    )
