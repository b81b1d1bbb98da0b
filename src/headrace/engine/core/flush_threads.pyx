"""C threads that help with large flushes.

Nearly all the time of a wide fan-out is the kernel's: it copies each receiver's bytes into its socket. While a flush is
small, the loop's thread does that alone. For a large one it opens a round: all outboxes are described in an array
(Outgoing), and every thread takes the next unclaimed one, writes it, and notes what the socket accepted. The loop's
thread takes part, closes the round when nothing is left, and waits for the threads that are still writing. Only the
loop's thread acts on the results, once all others have left.

    loop's thread   owns everything between two rounds; within one it changes nothing but the outboxes it has taken
    helper          within a round: reads the arena, the bodies, and the outbox it has taken; writes that Outgoing

A helper that wakes up too late finds the round closed, and nobody waits for it: on a machine whose other cores are busy a
flush takes as long as without helpers. Helpers never hold the GIL. The first large flush starts them.

Where each receiver gets much, in long frames, there is no help. Then copying is all that has to be done, and receivers
have to do the same: with help the server would be ahead of those on the same machine, and what they read would no longer be
in the processor's caches.

Without helpers, rows 10-10, 10-10-alike, 10-1000 and queues of the benchmark run at 0.6 to 0.9 of the rate they have with
them. With helpers, rows 10-100 and 10-100-alike run at 0.7 and 0.55 of the rate they have without them, with three times the memory.
"""

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from headrace.engine.basics.copying cimport BLOCK
from headrace.engine.basics.threads cimport (block_signals, pthread_cond_broadcast, pthread_cond_destroy,
                                             pthread_cond_init, pthread_cond_signal, pthread_cond_wait, pthread_create, pthread_join,
                                             pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock,
                                             pthread_mutex_unlock, pthread_setname_np, restore_signals, sigset_t)
from headrace.engine.core.pieces cimport JOINED_SIZE, Gathering, Outgoing, write_out

import os

cdef extern from * nogil:
    """
    #define HEADRACE_TAKE_NEXT(counter) __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED)
    """
    uint32_t take_next "HEADRACE_TAKE_NEXT"(uint32_t *counter)


@cython.final
cdef class FlushThreads:
    def __cinit__(self):
        pthread_mutex_init(&self.round.mutex, NULL)
        pthread_cond_init(&self.round.opened, NULL)
        pthread_cond_init(&self.round.left, NULL)

    def __dealloc__(self):
        cdef int k
        pthread_mutex_lock(&self.round.mutex)
        self.round.stopping = True
        pthread_cond_broadcast(&self.round.opened)
        pthread_mutex_unlock(&self.round.mutex)
        for k in range(self.helper_count):
            pthread_join(self.helpers[k].thread, NULL)
            free(self.helpers[k].own.joined)
        pthread_cond_destroy(&self.round.opened)
        pthread_cond_destroy(&self.round.left)
        pthread_mutex_destroy(&self.round.mutex)

    cdef int write(self, Gathering *tick, Outgoing *outgoing, uint32_t count) except -1:
        """Write all of them, each as far as its socket accepts it."""
        cdef Round *round = &self.round
        if not self.started:
            self.started = True
            self._start()
        pthread_mutex_lock(&round.mutex)
        round.tick = tick
        round.outgoing = outgoing
        round.count = count
        round.next = 0
        round.number += 1
        round.open = True
        pthread_mutex_unlock(&round.mutex)
        pthread_cond_broadcast(&round.opened)
        take_part(round, tick)
        pthread_mutex_lock(&round.mutex)
        round.open = False
        while round.helping:
            pthread_cond_wait(&round.left, &round.mutex)
        pthread_mutex_unlock(&round.mutex)
        return 0

    cdef int _start(self) except -1:
        """One for each other core. If memory or threads are not available, the loop's thread has less help."""
        cdef int k, wanted = min(len(os.sched_getaffinity(0)) - 1, MOST_HELPERS)
        cdef Helper *helper
        cdef sigset_t signals
        block_signals(&signals)
        for k in range(wanted):
            helper = &self.helpers[k]
            helper.round = &self.round
            helper.own.joined = <char *> malloc(JOINED_SIZE + BLOCK)
            if helper.own.joined == NULL:
                break
            if pthread_create(&helper.thread, NULL, help, helper):
                free(helper.own.joined)
                break
            pthread_setname_np(helper.thread, "headrace-flush")
            self.helper_count += 1
        restore_signals(&signals)
        return 0


# -- in the threads -----------------------------------------------------------------------------------------------------

cdef void take_part(Round *round, Gathering *own) noexcept nogil:
    cdef uint32_t k
    while True:
        k = take_next(&round.next)
        if k >= round.count:
            return
        if round.outgoing[k].fd >= 0:
            write_out(own, &round.outgoing[k])


cdef void *help(void *argument) noexcept nogil:
    cdef Helper *helper = <Helper *> argument
    cdef Round *round = helper.round
    cdef uint64_t last = 0         # the round that this thread was in
    pthread_mutex_lock(&round.mutex)
    while not round.stopping:
        if not round.open or round.number == last:
            pthread_cond_wait(&round.opened, &round.mutex)
            continue
        last = round.number
        round.helping += 1
        helper.own.arena = round.tick.arena
        helper.own.bodies = round.tick.bodies
        pthread_mutex_unlock(&round.mutex)
        take_part(round, &helper.own)
        pthread_mutex_lock(&round.mutex)
        round.helping -= 1
        if round.helping == 0 and not round.open:
            pthread_cond_signal(&round.left)
    pthread_mutex_unlock(&round.mutex)
    return NULL
