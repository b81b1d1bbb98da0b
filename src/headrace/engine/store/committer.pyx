"""The committer: threads that write and sync, so that the loop's thread never waits for a disk.

They are C threads that never hold the GIL. (The engine keeps the GIL for milliseconds while it parses a batch; a
Python thread would have to wait for that before it could even report that its sync is done.)

What belongs to a group, and when it is handed over, is decided in writer.pyx; how it is written and synced is in
commit.pyx, and what the other jobs do in jobs.pyx. Jobs are handed over under a mutex and come back in a list; an eventfd
wakes the loop, whose `poll` gives each job back to its log (JobOwner.on_done).

Chores (index, rewrite, unlink, compress) are patient: they are taken only when no commit waits, and never by the last thread.

With a sync_interval, a commit is done once it is written, and the file is synced at the end of the interval. Data
written while that sync is under way is not covered by it: the log submits another one.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from posix.unistd cimport close, read, write

from headrace.engine.basics.system cimport CLOCK_MONOTONIC, clock_gettime, timespec
from headrace.engine.basics.threads cimport (
    block_signals, pthread_cond_broadcast, pthread_cond_init, pthread_cond_signal, pthread_cond_timedwait,
    pthread_cond_wait, pthread_condattr_destroy, pthread_condattr_init, pthread_condattr_setclock, pthread_condattr_t,
    pthread_create, pthread_join, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock, restore_signals, sigset_t,
)
from headrace.engine.store.commit_figures cimport CommitFigures, count_group, count_sync, describe
from headrace.engine.store.jobs cimport perform

cdef extern from "sys/eventfd.h" nogil:
    enum: EFD_NONBLOCK, EFD_CLOEXEC
    int eventfd(unsigned int initial, int flags)


cdef class JobOwner:
    cdef int on_done(self, Job *job) except -1:
        """In the loop's thread, when a job of this owner is done."""
        raise NotImplementedError

    cdef void work(self, Job *job) noexcept:
        """In a committer's thread, for a ROLLBACK: the one job that is not pure C, and takes the GIL."""


cdef class Committer:
    def __cinit__(self, int threads=4, *, double sync_interval=0.0):
        cdef pthread_condattr_t attributes
        cdef sigset_t signals
        cdef int k
        if threads < 1:
            raise ValueError("a committer has at least one thread")
        self.shop = <Workshop *> calloc(1, sizeof(Workshop))
        if self.shop == NULL:
            raise MemoryError
        self.shop.event = -1
        self.sync_interval = sync_interval
        pthread_mutex_init(&self.shop.mutex, NULL)
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(&self.shop.wanted, &attributes)
        pthread_cond_init(&self.shop.done, &attributes)
        pthread_condattr_destroy(&attributes)
        self.shop.event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        self.threads = <pthread_t *> calloc(threads, sizeof(pthread_t))
        if self.shop.event < 0 or self.threads == NULL:
            raise OSError("cannot make the committer's eventfd")
        block_signals(&signals)
        pthread_mutex_lock(&self.shop.mutex)
        for k in range(threads):
            if pthread_create(&self.threads[k], NULL, work, self.shop):
                break
            self.shop.thread_count += 1
        pthread_mutex_unlock(&self.shop.mutex)
        restore_signals(&signals)
        if self.shop.thread_count == 0:
            raise OSError("cannot start the committer's threads")

    def __dealloc__(self):
        if self.shop != NULL:
            self._stop()
            if self.shop.event >= 0:
                close(self.shop.event)
            free(self.shop)
        free(self.threads)

    @property
    def thread_count(self):
        return self.shop.thread_count

    def fileno(self):
        """The eventfd that is readable when poll() has something to do."""
        return self.shop.event

    def figures(self):
        """Histograms of the groups and syncs so far: `group_messages`, `group_bytes`, `sync_seconds` (commit_figures)."""
        cdef CommitFigures copied
        pthread_mutex_lock(&self.shop.mutex)
        copied = self.shop.figures
        pthread_mutex_unlock(&self.shop.mutex)
        return describe(&copied)

    def close(self):
        """Finish what was handed over and end the threads. Logs may still be closed afterwards."""
        self._stop()
        if self.shop.event >= 0:
            self.poll()

    cdef void _stop(self) noexcept:
        cdef int k
        cdef Workshop *shop = self.shop
        cdef pthread_t *threads = self.threads
        with nogil:
            pthread_mutex_lock(&shop.mutex)
            shop.stopping = True
            pthread_cond_broadcast(&shop.wanted)
            pthread_mutex_unlock(&shop.mutex)
            for k in range(shop.thread_count):
                pthread_join(threads[k], NULL)
        shop.thread_count = 0

    cdef int submit(self, Job *job) except -1:
        cdef timespec now
        cdef bint idle
        if self.shop.thread_count == 0:
            with nogil:
                perform(job)
            return (<JobOwner> job.owner).on_done(job)
        Py_INCREF(<object> job.owner)
        job.under_way = True
        job.next = NULL
        pthread_mutex_lock(&self.shop.mutex)
        job.finished = False
        if job.kind == JobKind.SYNC:
            if self.shop.due == NULL:
                clock_gettime(CLOCK_MONOTONIC, &now)
                self.shop.next_sync = now.tv_sec + now.tv_nsec * 1e-9 + self.sync_interval
            job.next = self.shop.due
            self.shop.due = job
        elif job.kind == JobKind.COMMIT or job.kind == JobKind.ROLLBACK:
            if self.shop.urgent == NULL:
                self.shop.urgent = job
            else:
                self.shop.urgent_tail.next = job
            self.shop.urgent_tail = job
        else:
            if self.shop.patient == NULL:
                self.shop.patient = job
            else:
                self.shop.patient_tail.next = job
            self.shop.patient_tail = job
        idle = self.shop.idle != 0
        pthread_mutex_unlock(&self.shop.mutex)
        if idle:                   # not before: it would wake up to wait for the mutex
            pthread_cond_signal(&self.shop.wanted)
        return 0

    cdef int wait_for(self, Job *job) except -1:
        """Block until a job is done, and give it back to its log. Other finished jobs wait for poll()."""
        cdef Workshop *shop = self.shop
        cdef Job **link
        cdef Job *tail = NULL
        if not job.under_way:
            return 0
        with nogil:
            pthread_mutex_lock(&shop.mutex)
            if job.kind == JobKind.SYNC:
                shop.next_sync = 0
                pthread_cond_broadcast(&shop.wanted)
            while not job.finished:
                pthread_cond_wait(&shop.done, &shop.mutex)
            link = &shop.finished
            while link[0] != job:
                tail = link[0]
                link = &tail.next
            link[0] = job.next
            if shop.finished_tail == job:
                shop.finished_tail = tail
            pthread_mutex_unlock(&shop.mutex)
        return self._finish(job)

    cdef void hurry(self) noexcept:
        """Start the syncs that wait for the end of the interval now."""
        pthread_mutex_lock(&self.shop.mutex)
        self.shop.next_sync = 0
        pthread_cond_broadcast(&self.shop.wanted)
        pthread_mutex_unlock(&self.shop.mutex)

    cpdef int poll(self) except -1:
        """Give the finished jobs back to their logs. The first error that a callback raised is raised at the end."""
        cdef uint64_t ignored
        cdef Job *job
        cdef object error = None
        cdef int waiting = 0, taken = 0
        if self.shop.event >= 0:
            read(self.shop.event, &ignored, sizeof(ignored))
        pthread_mutex_lock(&self.shop.mutex)
        self.shop.signalled = False
        job = self.shop.finished
        while job != NULL:
            waiting += 1
            job = job.next
        pthread_mutex_unlock(&self.shop.mutex)
        while taken < waiting:
            # One by one: a callback may close another log, which then waits for a job that is in this list.
            pthread_mutex_lock(&self.shop.mutex)
            job = self.shop.finished
            if job != NULL:
                self.shop.finished = job.next
            pthread_mutex_unlock(&self.shop.mutex)
            if job == NULL:
                break
            taken += 1
            try:
                self._finish(job)
            except Exception as raised:
                error = error or raised
        if error is not None:
            raise error
        return taken

    cdef int _finish(self, Job *job) except -1:
        cdef JobOwner owner = <JobOwner> job.owner
        Py_DECREF(owner)
        job.under_way = False
        job.next = NULL
        return owner.on_done(job)


# -- in the threads -----------------------------------------------------------------------------------------------------
# No line tracing here, not even in the debug build: it needs the GIL, and the thread that holds it may be waiting for
# the mutex.

cdef Job *next_job(Workshop *shop) noexcept nogil:
    """Wait for this thread's next job; NULL: end. The mutex is held."""
    cdef Job *job
    cdef timespec now, until
    while True:
        if shop.due != NULL:
            clock_gettime(CLOCK_MONOTONIC, &now)
            if shop.stopping or now.tv_sec + now.tv_nsec * 1e-9 >= shop.next_sync:
                job = shop.due
                shop.due = job.next
                return job
        if shop.urgent != NULL:
            job = shop.urgent
            shop.urgent = job.next
            return job
        if shop.patient != NULL and (shop.patient_running + 1 < shop.thread_count or shop.patient_running == 0):
            job = shop.patient
            shop.patient = job.next
            shop.patient_running += 1
            return job
        if shop.stopping:
            return NULL            # a thread that is still busy with a chore takes those that are left
        shop.idle += 1
        if shop.due != NULL:
            until.tv_sec = <long> shop.next_sync
            until.tv_nsec = <long> ((shop.next_sync - until.tv_sec) * 1e9)
            pthread_cond_timedwait(&shop.wanted, &shop.mutex, &until)
        else:
            pthread_cond_wait(&shop.wanted, &shop.mutex)
        shop.idle -= 1


cdef void *work(void *argument) noexcept nogil:
    cdef Workshop *shop = <Workshop *> argument
    cdef Job *job
    cdef uint64_t one = 1
    cdef bint patient, wake
    pthread_mutex_lock(&shop.mutex)
    while True:
        job = next_job(shop)
        if job == NULL:
            break
        patient = job.kind != JobKind.COMMIT and job.kind != JobKind.SYNC and job.kind != JobKind.ROLLBACK
        pthread_mutex_unlock(&shop.mutex)
        perform(job)
        pthread_mutex_lock(&shop.mutex)
        if job.kind == JobKind.COMMIT and not job.error:
            count_group(&shop.figures, job.buffer.messages, job.buffer.size)
        if job.sync_nanoseconds:
            count_sync(&shop.figures, job.sync_nanoseconds)
        if patient:
            shop.patient_running -= 1
            if shop.patient != NULL and shop.idle:
                pthread_cond_signal(&shop.wanted)
        job.next = NULL
        job.finished = True
        if shop.finished == NULL:
            shop.finished = job
        else:
            shop.finished_tail.next = job
        shop.finished_tail = job
        wake = not shop.signalled
        shop.signalled = True
        pthread_cond_broadcast(&shop.done)
        if wake:
            pthread_mutex_unlock(&shop.mutex)
            write(shop.event, &one, sizeof(one))
            pthread_mutex_lock(&shop.mutex)
    pthread_mutex_unlock(&shop.mutex)
    return NULL


cdef int hand_over(Committer committer, Job *job) except -1:
    """Submit a job, or do it right here if there is no committer."""
    if committer is not None:
        return committer.submit(job)
    with nogil:
        perform(job)
    return (<JobOwner> job.owner).on_done(job)
