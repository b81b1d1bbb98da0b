"""The pipeline: from what is pending to what is on disk, and what follows: chores, or after a failure a rollback.

    append ─► pending ══ commit() ══► in flight ─► write, fdatasync ─► on_done() ─► committed_seq, watchers, callbacks
                 ▲                                                        │   │
                 └─────────────────── filled meanwhile ───────────────────┘   ├─► the next group, a chore, an erasure
                                                                              └─► failed: rollback, callbacks with the error

The writer, the chores and the rollback do not know each other's jobs. Which of them comes next is decided here,
whenever a job is done.
"""

from headrace.engine.basics.system cimport monotonic
from headrace.engine.store.chores cimport CONTINUE, SYNC_FAILED, compact_memory
from headrace.engine.store.committer cimport COMMIT, ROLLBACK, STAGE_SYNC, SYNC
from headrace.engine.store.erasing cimport Erasures
from headrace.engine.store.reports cimport call_all
from headrace.engine.store.watching cimport note_committed


cdef class Pipeline(JobOwner):
    def __cinit__(self, Store store not None, Committer committer):
        self.store = store
        self.writer = Writer(store, committer)
        self.chores = Chores(store, self.writer)
        self.rollback = Rollback(store)
        # Not counted as a reference, except while a job is under way: see Committer.submit().
        self.writer.commit_job.owner = self.writer.sync_job.owner = <void *> self
        self.chores.job.owner = self.rollback.job.owner = <void *> self
        self.opened = store.in_memory

    # -- committing -----------------------------------------------------------------------------------------------------

    cdef int commit(self) except -1:
        """Hand what is pending to the committer. If it is still busy with the last group, this one follows."""
        if self.store.in_memory:
            return self._commit_memory()
        if not self.opened or self.writer.failure is not None or not self.writer.begin_commit():
            return 0
        self.chores.plan_with_group()
        return self.writer.submit()

    cdef int _commit_memory(self) except -1:
        cdef bint news = self.store.committed_seq != self.store.last_seq
        self.store.free_graveyard()
        if self.store.chores_due:
            compact_memory(self.store)
        if news:
            note_committed(self.store, self.store.last_seq)
        if self.writer.waiting:
            call_all(self.writer.take_callbacks(), None)
        if news and self.on_committed is not None:
            self.on_committed()
        return 0

    cdef int when_committed(self, object callback) except -1:
        """Call back when everything written so far is on disk (None) or failed (the error); at once if it is."""
        if self.writer.failure is not None:
            callback(self.writer.failure)
        elif self.store.in_memory or self.writer.has_pending():
            self.writer.waiting.append(callback)
            self.commit()
        elif self.writer.commit_job.under_way:
            self.writer.waiting_in_flight.append(callback)
        else:
            callback(None)
        return 0

    cdef int on_done(self, Job *job) except -1:
        if job.kind == SYNC:
            self.store.syncing_fd = -1
        if job.kind == ROLLBACK:
            return self._rolled_back()
        if self.writer.failure is not None:
            # A rollback waits for this job, and reads its outcome from disk.
            if job.kind != COMMIT and job.kind != SYNC:
                self._finish_chore(job)
            return self._roll_back()
        if job.kind == COMMIT:
            return self._fail(job.error, job.stage == STAGE_SYNC) if job.error else self._committed()
        if job.kind == SYNC:
            return self._fail(job.error, True) if job.error else self.writer.sync_later()
        return self._finish_chore(job)

    cdef int _committed(self) except -1:
        """A group is on disk."""
        cdef list callbacks = self.writer.finish_commit()
        self.chores.start_planned()
        try:
            # The disk keeps working while Python is called.
            if self.writer.wants_commit:
                self.commit()
            self.chores.start_erasing()
            self.start_chore()
        finally:
            # Whatever happened to the next group, this one is on disk.
            if callbacks:
                call_all(callbacks, None)
            if self.on_committed is not None:
                self.on_committed()
        return 0

    cdef int start_chore(self) except -1:
        return self.chores.start() if self.opened else 0

    cdef int _finish_chore(self, Job *job) except -1:
        """Adopt its result, and start the next one if nothing waits to be committed."""
        cdef int outcome = self.chores.finish(job)
        if outcome == SYNC_FAILED:
            return self._fail(job.error, True)
        if outcome == CONTINUE:
            self.chores.start_erasing()
            self.start_chore()
        return 0

    # -- failure --------------------------------------------------------------------------------------------------------

    cdef int _fail(self, int error, bint final) except -1:
        """A group could not be written, or a file could not be synced."""
        if self.writer.failure is not None:
            return 0
        self.writer.fail(error, final)
        self.chores.cancel()
        self.rollback.due = True
        self.rollback.waiting = self.writer.take_callbacks() + self.chores.erasures.take_callbacks()
        return self._roll_back()

    cdef int _roll_back(self) except -1:
        """Go back to what is on disk. If a job is under way, wait for it: on_done() comes back here."""
        if not self.rollback.due or self.rollback.replacement is not None:
            return 0
        if self.writer.sync_job.under_way:
            self.writer.committer.hurry()
        if self.writer.commit_job.under_way or self.chores.job.under_way or self.writer.sync_job.under_way:
            return 0
        return self.rollback.start(self.writer.committer)

    cdef void work(self, Job *job) noexcept:
        """In a thread of the committer: ROLLBACK."""
        self.rollback.read_files()

    cdef int _rolled_back(self) except -1:
        self.writer.pause()
        if self.rollback.finish():
            self.chores.erasures.drop_uncommitted()
            self.writer.rolled_back()
        return call_all(self.rollback.take_callbacks(), self.writer.failure)

    cdef bint is_writable(self) except -1:
        """Whether it accepts writes; after a full disk, whether it does so again."""
        if self.writer.failure is None:
            return True
        if monotonic() >= self.writer.retry_at:
            self._roll_back()      # if the files could not be read before
        return self.writer.try_again()

    # -- closing --------------------------------------------------------------------------------------------------------

    cdef int close(self) except -1:
        """Write what is left, and the index of the last segment. Blocks until it is on disk."""
        cdef Erasures erasures = self.chores.erasures
        if self.writer.failure is None:
            self.commit()
        while self.writer.commit_job.under_way:
            self.writer.committer.wait_for(self.writer.commit_job)
        self._wait_for_jobs()
        erasures.retry_at = 0
        for _ in range(erasures.count):
            if erasures.retry_at or self.writer.failure is not None:
                break
            self.chores.start_erasing()
            self._wait_for_jobs()
        if erasures.count:
            self.store.reports.warn(f"closed with the texts of {erasures.count} deleted messages not overwritten: "
                                    f"{erasures.failure or self.writer.failure}")
        if not self.store.in_memory and self.writer.failure is None:
            self.chores.write_indexes()
        self._reset()
        return 0

    cdef int abandon(self) except -1:
        """Close without writing anything. Waits for what is being written."""
        cdef list callbacks
        while self.writer.commit_job.under_way:
            self.writer.wants_commit = False
            self.writer.committer.wait_for(self.writer.commit_job)
        self._wait_for_jobs()
        callbacks = self.writer.take_callbacks() + self.chores.erasures.take_callbacks()
        self._reset()
        return call_all(callbacks, "the log was deleted")

    cdef int _wait_for_jobs(self) except -1:
        """All of closing but the commit. No chore follows the current one."""
        cdef Committer committer = self.writer.committer
        self.chores.cancel()
        while self.chores.job.under_way:
            self.store.chores_due = False
            committer.wait_for(self.chores.job)
        while self.writer.sync_job.under_way:
            committer.wait_for(self.writer.sync_job)
        while self.rollback.job.under_way:
            committer.wait_for(self.rollback.job)
        return 0

    cdef void _reset(self) noexcept:
        """Forget everything that is in memory. No job is under way."""
        self.opened = False
        self.store.reset()
        self.chores.erasures.count = 0
        self.writer.wants_commit = self.writer.sync_due = False
