# What the parts of a hub share: the tick, and the event queue. The theory is at the top of tick.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.core.link cimport Link
from headrace.engine.basics.system cimport epoll_event

cdef class Tick:
    cdef bint running              # a poll or a flush is in progress
    cdef double now
    cdef double ends               # when the event loop should get its turn
    cdef uint64_t turns            # so far; in a turn, what one link has sent is parsed
    cdef const char *received      # what is parsed in this turn; NULL between turns
    cdef const char *received_end
    cdef uint64_t looks            # at messages that a reader did not ask for; shared by all readers, see cursor.pyx
    cdef list deferred             # what is called at the end of the tick, when no route is being walked
    cdef list prompt               # what has to be called before a PONG confirms what came before it
    cdef object on_bug             # called with an exception that a deferred action raised
    cdef list unread               # links whose transport has more to receive: no event reports it
    cdef void *first_closing       # links closed in this tick, which the hub keeps until they are reaped
    cdef void *last_closing

    cdef int start(self, double seconds) except -1
    cdef int run_deferred(self) except -1
    cdef int run_prompt(self) except -1
    cdef int report(self, object error) except -1
    cdef int report_bug(self, Link link, object error) except -1
    cdef int close_link(self, Link link, object reason) except -1
    cdef int read_again(self, Link link) except -1


cdef class EventQueue:
    cdef int epoll
    cdef int timer
    cdef bint woken_early          # the timer is not set for what publishers wait for

    cdef int add(self, Link link) except -1
    cdef int remove(self, int fd) except -1
    cdef int update(self, Link link) except -1
    cdef int acknowledge_timer(self) except -1
    cdef int wake_after(self, double seconds) except -1
    cdef int wake_soon(self) except -1
    cdef int close(self) except -1


cdef void tell_owner(object owner, object error) noexcept
