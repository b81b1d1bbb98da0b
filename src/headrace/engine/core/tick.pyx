"""What the parts of a hub share: the current tick, and the queue of events that starts the next one.

Within a tick routes are walked, so nothing may subscribe, publish or free a link. Code that needs to leaves an action
in `deferred`; a link that is to be closed is marked, and waits in a chain. The hub sees to both when the tick ends.
"""

cimport cython
from libc.errno cimport errno
from libc.stdint cimport uint64_t
from libc.string cimport memset

from headrace.engine.core.link cimport CLOSED, PAUSED, UNREAD, WANTS_WRITE, Link
from headrace.engine.basics.system cimport (CLOCK_MONOTONIC, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD,
                                          EPOLLIN, EPOLLOUT, TFD_CLOEXEC, TFD_NONBLOCK, close, epoll_create1, epoll_ctl,
                                          epoll_event, itimerspec, monotonic, read, timerfd_create, timerfd_settime)

import os

cdef uint64_t MOST_LOOKS = 20000     # less than a millisecond
cdef double DEFERRED_SECONDS = 0.002 # for what was deferred, even if the tick has no time left


@cython.final
cdef class Tick:
    def __cinit__(self):
        self.deferred = []
        self.unread = []
        self.prompt = []
        self.now = monotonic()
        self.looks = MOST_LOOKS

    cdef int start(self, double seconds) except -1:
        self.running = True
        self.now = monotonic()
        self.ends = self.now + seconds
        self.looks = MOST_LOOKS
        return 0

    cdef int run_prompt(self) except -1:
        """Between two operations, when no route is being walked. They are called at the end of the tick in any case."""
        cdef list actions = self.prompt
        self.prompt = []
        self.turns += 1                # the actions may take a while, and may publish
        for action in actions:
            try:
                action()
            except Exception as error:
                self.report(error)
        return 0

    cdef int run_deferred(self) except -1:
        """Those that there is no time for come first next time."""
        cdef list actions = self.deferred
        cdef Py_ssize_t place = 0
        cdef double ends
        self.looks = MOST_LOOKS
        if actions:
            self.deferred = []
            ends = max(self.ends, monotonic() + DEFERRED_SECONDS)
            try:
                while place < len(actions) and (place == 0 or monotonic() < ends):
                    action = actions[place]
                    place += 1
                    try:
                        action()
                    except Exception as error:
                        self.report(error)
            finally:
                if place < len(actions):         # time is up, or the report has failed
                    self.deferred[:0] = actions[place:]
        return 0

    cdef int report(self, object error) except -1:
        """A bug that belongs to no connection: there is none to close, and a source is still needed."""
        if self.on_bug is None:
            raise error
        self.on_bug(error)
        return 0

    cdef int report_bug(self, Link link, object error) except -1:
        """A mistake of ours in one connection must not reach the others: tell the owner, close the link."""
        tell_owner(link.owner, error)
        return self.close_link(link, 'Internal Error')

    cdef int close_link(self, Link link, object reason) except -1:
        """Mark a link as closed. Its socket is closed at the end of the tick, when no route with it is being walked."""
        if link.flags & CLOSED:
            return 0
        link.flags |= CLOSED
        link.close_reason = reason
        # A chain needs no memory: the end of a link must not fail, least of all where memory is short.
        if self.first_closing == NULL:
            self.first_closing = <void *> link
        else:
            (<Link> self.last_closing).next_closing = <void *> link
        self.last_closing = <void *> link
        return 0

    cdef int read_again(self, Link link) except -1:
        """Receive the rest of what is buffered inside its transport after the others have had a turn."""
        if not link.flags & UNREAD:
            link.flags |= UNREAD
            self.unread.append(link)
        return 0


@cython.final
cdef class EventQueue:
    """One epoll for all sockets, and a timer in it."""

    def __cinit__(self):
        cdef epoll_event event
        self.epoll = self.timer = -1
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        self.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        event.events = EPOLLIN
        event.data.ptr = NULL                  # no link: the timer
        if self.epoll < 0 or self.timer < 0 or epoll_ctl(self.epoll, EPOLL_CTL_ADD, self.timer, &event) < 0:
            raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        self.close()

    cdef int close(self) except -1:
        if self.timer >= 0:
            close(self.timer)
        if self.epoll >= 0:
            close(self.epoll)
        self.timer = self.epoll = -1
        return 0

    cdef int add(self, Link link) except -1:
        """Report when it is readable. Only a pointer to it is kept: the caller must keep it alive. Raises OSError."""
        cdef epoll_event event
        event.events = EPOLLIN
        event.data.ptr = <void *> link
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, link.fd, &event) < 0:
            raise OSError(errno, os.strerror(errno))
        return 0

    cdef int remove(self, int fd) except -1:
        epoll_ctl(self.epoll, EPOLL_CTL_DEL, fd, NULL)
        return 0

    cdef int update(self, Link link) except -1:
        """The events that a link waits for have changed: see PAUSED and WANTS_WRITE."""
        cdef epoll_event event
        event.events = (0 if link.flags & PAUSED else EPOLLIN) | (EPOLLOUT if link.flags & WANTS_WRITE else 0)
        event.data.ptr = <void *> link
        epoll_ctl(self.epoll, EPOLL_CTL_MOD, link.fd, &event)
        return 0

    cdef int acknowledge_timer(self) except -1:
        cdef uint64_t expirations
        read(self.timer, &expirations, sizeof(expirations))
        return 0

    cdef int wake_after(self, double seconds) except -1:
        """Make epoll report the timer then; there is only one, so this replaces the previous setting."""
        cdef itimerspec moment
        memset(&moment, 0, sizeof(moment))
        moment.it_value.tv_nsec = max(<long> (seconds * 1e9), 1)
        timerfd_settime(self.timer, 0, &moment, NULL)
        return 0

    cdef int wake_soon(self) except -1:
        """Make epoll report it at once. A wait for which the timer had been set is resumed after that."""
        self.wake_after(0)
        self.woken_early = True
        return 0


cdef void tell_owner(object owner, object error) noexcept:
    """Report a bug. If even that fails, Python prints it as an exception that nobody can handle."""
    owner.on_bug(error)
