"""Backpressure: which publishers wait, and for what.

A receiver may have max_pending bytes waiting; past that it is closed, as in nats-server. Long before that,
publishers wait, so that memory does not grow. They are not read
  - while one of their receivers is congested: more than SOFT_BACKLOG (or 75 % of max_pending) waits for it;
  - while all receivers together, each counted to FAIR_SHARE, have more than BUDGET waiting;
  - while the log that they publish to has too much waiting for the disk (stream_sink.pyx).
Nobody waits for a receiver that is slow: one that accepted less than SLOW_BYTES in a window of WINDOW_SECONDS while
publishers waited for it, or, if it is not congested, nothing at all. It counts again when it has caught up. The window
is long because a full socket reports room only when a third of it is free: a steady reader of 12 MB/s was seen to
accept nothing for 144 ms. A slow receiver costs the others one window, until it is critical: above 75 % of max_pending
its publishers are stalled for STALL_SECONDS after every STALL_BYTES, which is nats-server's own limit and gives the
receiver a last chance to catch up.

SOFT_BACKLOG, FAIR_SHARE and BUDGET are in slow_consumers.pyx, which also does the sums.
"""

cimport cython
from libc.stdint cimport uint32_t

from headrace.engine.core.link cimport CLOSED, CONGESTED, PAUSED, SLOW, WANTS_WRITE, Link
from headrace.engine.core.outboxes cimport Outboxes
from headrace.engine.basics.system cimport monotonic
from headrace.engine.core.slow_consumers cimport SlowConsumers
from headrace.engine.core.tick cimport EventQueue, Tick

cdef double WINDOW_SECONDS = 0.200
cdef Py_ssize_t SLOW_BYTES = 1280 * 1024     # 64 KiB in 10 ms, as below
cdef double STALL_SECONDS = 0.010
cdef Py_ssize_t STALL_BYTES = 64 * 1024


@cython.final
cdef class Publishers:
    """The publishers that are temporarily not read. Any link that has sent messages is a publisher."""

    def __cinit__(self, Tick tick not None, EventQueue events not None, SlowConsumers slow_consumers not None,
                  Outboxes outboxes not None, dict links not None):
        self.tick = tick
        self.events = events
        self.slow_consumers = slow_consumers
        self.outboxes = outboxes
        self.links = links
        self.paused = []
        self.stalled = []
        self.ended_turns = []

    cdef int pause(self, Link link) except -1:
        """Stop reading a publisher until its receivers have drained, or until others have had their turn."""
        if link.flags & (PAUSED | CLOSED) or self.slow_consumers.drops:
            return 0
        self._stop_reading(link)
        if not self.paused:
            self._start_window()
        self.paused.append(link)
        return 0

    cdef int overran(self, Link link) except -1:
        """It has to wait for receivers."""
        self.stalls += 1
        return self.pause(link)

    cdef int stall(self, Link link, Py_ssize_t published) except -1:
        """A publisher met a critical receiver: it may send STALL_BYTES, then it waits for STALL_SECONDS."""
        link.allowance -= published
        if link.allowance > 0 or link.flags & (PAUSED | CLOSED) or self.slow_consumers.drops:
            return 0
        link.allowance = STALL_BYTES
        self._stop_reading(link)
        if not self.stalled:
            self.stall_ends = self.tick.now + STALL_SECONDS
            self._set_timer()
        self.stalled.append(link)
        self.stalls += 1
        return 0

    cdef int end_turn(self, Link link) except -1:
        """It has had its share of this tick: others get a turn before the rest of what it has sent is read."""
        if link.flags & (PAUSED | CLOSED):
            return 0
        self.ended_turns.append(link)
        self._stop_reading(link)
        return self._set_timer()

    cdef int _stop_reading(self, Link link) except -1:
        link.flags |= PAUSED
        return self.events.update(link)

    cdef int resume_ready(self) except -1:
        """Resume the publishers that have nothing to wait for any more."""
        cdef list waiting
        if self.stalled and self.tick.now >= self.stall_ends:
            waiting = self.stalled
            self.stalled = []
            self.paused = self._resume(waiting) + self.paused
        if self.ended_turns:       # one gets a turn even if busy publishers use up every tick
            waiting = self.ended_turns
            self.ended_turns = []
            self.ended_turns = self._resume(waiting) + self.ended_turns
        if self.ended_turns:
            self._set_timer()
        if not self.paused:
            return 0
        if self.tick.now >= self.window_ends:
            self._judge_receivers()
            self._start_window()
        if self.slow_consumers.holds_publishers():
            return 0
        waiting = self.paused
        self.paused = []
        self.paused = self._resume(waiting) + self.paused
        if self.paused:
            self._set_timer()
        return 0

    cdef list _resume(self, list waiting):
        """In turn, as long as there is time left in this tick. Returns the others, which are first in the next one."""
        cdef Link link
        cdef list rest = []
        cdef Py_ssize_t k
        for k in range(len(waiting)):
            link = <Link> waiting[k]
            if link.flags & PAUSED:
                try:
                    link.hub.resume(link)
                except Exception as error:
                    self.tick.report_bug(link, error)
                if monotonic() > self.tick.ends:
                    rest = waiting[k + 1:]
                    break
        self.outboxes.flush_all()
        return rest

    cdef int _start_window(self) except -1:
        self.slow_consumers.window += 1
        self.window_ends = self.tick.now + WINDOW_SECONDS
        return self._set_timer()

    cdef int _judge_receivers(self) except -1:
        """At the end of a window: stop waiting for receivers that did not drain in it."""
        cdef Link link
        for link in self.links.values():
            if link.flags & WANTS_WRITE and not link.flags & SLOW and link.blocked_in < self.slow_consumers.window:
                self.outboxes.flush_link(link)
                if link.drained < (SLOW_BYTES if link.flags & CONGESTED else 1):
                    self.slow_consumers.ignore(link)
            link.drained = 0
        return 0

    cdef int set_timer_again(self) except -1:
        """The timer was used for something else, or what publishers wait for may have changed outside of a poll."""
        if self.paused or self.stalled or self.ended_turns:
            self._set_timer()
        return 0

    cdef int _set_timer(self) except -1:
        """Make epoll wake us when the next wait is over; at once if publishers wait only for their turn."""
        cdef double seconds = WINDOW_SECONDS
        if self.ended_turns or self.paused and not self.slow_consumers.holds_publishers():
            seconds = 0
        elif self.paused:
            seconds = min(seconds, self.window_ends - self.tick.now)
        if self.stalled:
            seconds = min(seconds, self.stall_ends - self.tick.now)
        return self.events.wake_after(seconds)
