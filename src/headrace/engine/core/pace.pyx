"""When to wait: the two cases in which a moment of patience makes the hub faster.

It may linger after a tick, awake, because the next event is near, and it may gather before a tick, asleep, because
messages come one by one. Both are bets on what peers do. Each is tried, measured, and given up if it does not pay, so
that no peer loses more by it than the rare trial costs.

Row `4-1` of `headrace bench compare` (four publishers, one message per system call) needs gathering: with a `gather`
that returned at once it ran at a quarter of the rate, with sixteen times the CPU (2026-11-16, 11 alternating rounds).
All of it is in this file and three calls in hub.pyx; no other file knows about it.
"""

from headrace.engine.basics.system cimport epoll_event, epoll_wait, monotonic, nanosleep, timespec

cdef double LINGER_SECONDS = 0.000080
cdef int LINGER_AT = 8                       # a success counts one, a failure minus two: linger from this score on
cdef int LINGER_MOST = 16
cdef uint64_t LINGER_PROBE = 64              # lulls between two tries while it does not linger
cdef timespec GATHER_TIME
GATHER_TIME.tv_sec = 0
GATHER_TIME.tv_nsec = 500_000
cdef double GATHER_GAIN = 1.2                # the factor by which gathering has to raise the message rate
cdef Py_ssize_t GATHER_TRIAL = 4             # ticks after which that is judged
cdef double DENSE_SECONDS = 0.000030         # ticks that follow each other this closely
cdef long long DENSE_MESSAGES = 16           # with no more messages than this
cdef Py_ssize_t WATCH_TICKS = 64             # are watched for this many ticks before gathering is tried
cdef Py_ssize_t WATCH_TICKS_MOST = 1048576   # a trial that fails costs requests a millisecond or two: some seconds


cdef class Pace:
    def __cinit__(self):
        self.watch_ticks = WATCH_TICKS

    cdef int gather(self) except -1:
        if self.gathering:
            with nogil:                      # other threads have work to do
                nanosleep(&GATHER_TIME, NULL)
        return 0

    cdef int linger(self, int epoll, epoll_event *events, int most) except -2:
        """Stay awake for a moment if the next event has lately come within that time.

        Being woken costs more than all the work of a request: 50 us on an idle virtual machine. nats-server's
        runtime lingers, too. If nothing arrives in time, lingering is only tried now and then.
        """
        cdef int count = 0
        cdef double give_up
        self.lulls += 1
        if self.linger_score < LINGER_AT and self.lulls % LINGER_PROBE:
            return 0
        give_up = monotonic() + LINGER_SECONDS
        while count == 0 and monotonic() < give_up:
            count = epoll_wait(epoll, events, most, 0)
        if count > 0:
            self.linger_score = min(self.linger_score + 1, LINGER_MOST)
        else:
            self.linger_score = max(self.linger_score - 2, 0)
        return count

    cdef int watch(self, double now, long long messages, long long total) except -1:
        """After a tick with `messages`, of `total` so far: decide whether to gather before the next ones.

        A client that writes message by message has each of them sent on its own as long as we read, and so acknowledge,
        them at once. Left alone for a moment, its kernel runs out of window and coalesces the rest,
        which costs it a fraction: with 4 such publishers the ratio to nats-server was 0.5, and is 2 with gathering.
        Where requests wait for their replies it does harm. So it is tried after many ticks of few messages in close
        succession, kept while it raises the rate, and tried less and less often if it does not.
        """
        cdef double since = now - self.last_tick
        self.last_tick = now
        if self.gathering:
            self.watched_ticks += 1
            if self.watched_ticks == GATHER_TRIAL:
                self.gathering = self._rate(now, total) > GATHER_GAIN * self.rate_before
                self.watch_ticks = WATCH_TICKS if self.gathering else min(2 * self.watch_ticks, WATCH_TICKS_MOST)
                self._restart_watch(now, total)
        elif since > DENSE_SECONDS or messages > DENSE_MESSAGES:
            self.stray_ticks += 1
            if 8 * self.stray_ticks > self.watched_ticks:
                self._restart_watch(now, total)
        else:
            self.watched_ticks += 1
            if self.watched_ticks == self.watch_ticks:
                self.gathering = True
                self.rate_before = self._rate(now, total)
                self._restart_watch(now, total)
        return 0

    cdef int _restart_watch(self, double now, long long total) except -1:
        self.watched_ticks = self.stray_ticks = 0
        self.watched_since = now
        self.watched_total = total
        return 0

    cdef double _rate(self, double now, long long total) noexcept:
        return (total - self.watched_total) / max(now - self.watched_since, 1e-9)
