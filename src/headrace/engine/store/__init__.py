"""Messages on disk or in memory: the log of one stream, and the threads that write and sync it.

    Log ─┬─ store        the messages: segments, index of subjects, reading    store, readings, removing,
         │                                                                     resolving, watching
         │    └─ groups      what is not on disk yet: pending, in flight       groups
         ├─ limits       what a new message removes, or why it is refused      limits
         └─ pipeline     from pending to on disk                               pipeline
              ├─ writer      appends, commits, records why it failed           writer
              ├─ chores      index, rewrite, unlink, compress, erase           chores, erasing
              └─ rollback    after a failed commit: back to what is on disk    rollback, recovery

A part knows those above it, which it is given when it is created; none holds a reference to the log. The
pipeline decides what comes next whenever a job is done.

Threads. The event loop's thread owns a log with all its parts. The committer's threads (C, without the GIL:
committer.pyx; what they do: jobs.pyx, commit.pyx, compaction.pyx, compression.pyx) own what a job points to,
from hand_over() until the loop's thread calls on_done():

    COMMIT     groups.in_flight: data and parts (the loop only reads them); fd and allocated of the segments
               in it, whose files it creates, extends and writes
    SYNC       sync_job.fd, which the loop does not close (store.syncing_fd)
    a chore    the file of chores.job.segment: its name may become another file's, so the loop does not
               close the descriptor that it has (store.chore_segment). Its results, job.replacement and
               job.packing, are adopted by Chores.finish()
    ROLLBACK   rollback.replacement, .found and .error: a second store, filled from the files. It is the only
               job that takes the GIL, and no other job of the log runs in the meantime
    each       its own Job, except under_way (the loop's), next and finished (the committer's mutex)

The threads read number, base_seq, salt and packing of a segment at any time: the loop changes none of them
while a job on that segment is under way. Everything else belongs to the loop alone: groups.pending and
.removed, offsets and counts, the index, watchers, windows, and the descriptors of sealed segments that no job
uses.
"""
