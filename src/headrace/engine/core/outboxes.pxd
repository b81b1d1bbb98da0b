# Links and what they have to send. The theory is at the top of outboxes.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.interest cimport Interest, Subscription
from headrace.engine.core.message cimport Message
from headrace.engine.core.wide_map cimport WideMap

cdef enum:
    ARENA_SIZE = 1048576
    BUDGET = 33554432            # bytes that receivers may have waiting, all together, before publishers wait

cdef enum:
    CLOSED = 1
    NO_ECHO = 2
    NO_HEADERS = 4
    VERBOSE = 8
    PEDANTIC = 16
    NO_RESPONDERS = 32
    AWAITING_AUTH = 64
    PONGED = 128                 # the first PING after CONNECT has been answered
    DIRTY = 256                  # stands in the list of links to flush
    WANTS_WRITE = 512            # its socket was full: epoll tells when it is not
    PAUSED = 1024
    SLOW = 2048                  # publishers have waited for it in vain
    CONGESTED = 4096             # publishers wait for it
    TRACED = 8192
    CONNECTED = 16384            # CONNECT has been received
    CRITICAL = 32768             # more than 75 % of max_pending waits for it
    SINK = 65536                 # no socket: it takes its messages within this process
    SOURCE = 131072              # no peer: a descriptor whose owner is called when it is readable

cdef class Outboxes

cdef class Link:
    """One connection as the engine sees it: a descriptor, an unfinished frame, an outbox, its subscriptions."""
    cdef int fd
    cdef uint32_t flags
    # the outbox: bytes that wait for the socket, then at most one span of the tick's arena
    cdef Py_ssize_t span_start
    cdef Py_ssize_t span_length
    cdef char *backlog
    cdef Py_ssize_t backlog_head
    cdef Py_ssize_t backlog_tail
    cdef Py_ssize_t backlog_capacity
    cdef readonly long long out_msgs
    cdef readonly long long out_bytes
    # the inbox
    cdef char *partial             # the frame that has not arrived whole (or, when paused, frames not yet parsed)
    cdef Py_ssize_t partial_length
    cdef Py_ssize_t frame_total    # its length when it is too long for the shared buffer; else 0
    cdef int skipping              # the PING, PONG or +OK whose end of line is awaited
    cdef readonly long long in_msgs
    cdef readonly long long in_bytes
    cdef double active_at          # when the peer last sent something
    cdef double written_at         # when the socket last proved to be alive, while something waits
    cdef Py_ssize_t unproven       # what it has taken since
    cdef Py_ssize_t drained        # what it has taken in this window
    cdef Py_ssize_t allowance      # what it may publish to critical receivers before it is stalled
    cdef uint64_t blocked_in       # the window in which it became full
    cdef Outboxes hub
    cdef Interest interest
    cdef readonly WideMap subscriptions    # sid -> Subscription
    cdef readonly object owner             # the decider: see Hub for what it is called with
    cdef readonly object close_reason
    cdef list waiters                      # called once its outbox is empty
    cdef void *next_closing                # the Link that was closed after this one, in this tick (borrowed)

    cdef int take(self, Link publisher, Subscription subscription, Message *message) except -1
    cdef int _unsubscribe_any(self) except -1


cdef class Outboxes:
    cdef int epoll
    cdef int timer
    cdef char *arena               # the frames of this tick
    cdef Py_ssize_t arena_used
    cdef void **dirty              # links with something to flush (borrowed)
    cdef Py_ssize_t dirty_count
    cdef Py_ssize_t dirty_flushed  # those before it have been flushed, in a flush that is under way
    cdef Py_ssize_t dirty_capacity
    cdef long long owed            # bytes of spans given to receivers since the last flush
    cdef long long owed_apart      # bytes copied for single receivers since the last flush
    cdef char **pool               # empty backlogs of the usual size
    cdef Py_ssize_t pool_count
    cdef Py_ssize_t pool_low       # the fewest there were since the last trim
    cdef long long fair_total      # what receivers have not taken, each counted up to its fair share
    cdef Py_ssize_t congested      # receivers that publishers wait for
    cdef Py_ssize_t full_logs      # logs that publishers wait for
    cdef uint64_t window           # numbers the windows in which receivers are judged
    cdef double window_ends
    cdef double now
    cdef bint polling              # a tick is under way
    cdef double tick_ends          # when the event loop should get its turn
    cdef list paused               # publishers that wait for receivers to drain, or for their turn
    cdef list ended_turns          # links that have had their share of a tick, and have sent more
    cdef list stalled              # publishers that wait because a receiver is critical
    cdef double stall_ends
    cdef bint woken_early          # the timer does not stand for what publishers wait for
    cdef void *first_closing       # links closed in this tick, which `links` keeps until they are reaped
    cdef void *last_closing
    cdef list deferred             # what is called at the end of the tick, when no route is being walked
    cdef public object on_bug      # called with an exception that a deferred action raised
    cdef readonly dict links       # fd -> Link
    cdef readonly long long stalls
    cdef public long long max_payload
    cdef long long pending_limit
    cdef bint drops                # instead of making publishers wait
    cdef Py_ssize_t critical_backlog
    cdef Py_ssize_t soft_backlog   # past this a receiver is congested

    cdef int _set_soft_backlog(self) except -1
    cdef int resume(self, Link link) except -1
    cdef int wait_for(self, Link link, object waiter) except -1
    cdef int report_bug(self, Link link, object error) except -1
    cdef int close_link(self, Link link, object reason) except -1
    cdef Py_ssize_t arena_frame(self, const char *prefix, Py_ssize_t prefix_length,
                                const char *rest, Py_ssize_t rest_length) except -1
    cdef int give(self, Link receiver, const char *first, Py_ssize_t first_length,
                  const char *second, Py_ssize_t second_length) except -1
    cdef int settle_span(self, Link receiver) except -1
    cdef int reserve(self, Link receiver, Py_ssize_t length) except -1
    cdef int _take_pooled(self, Link receiver, Py_ssize_t used) except -1
    cdef int release(self, Link link) except -1
    cdef int trim_pool(self) except -1
    cdef int mark_dirty(self, Link link) except -1
    cdef int flush_all(self) except -1
    cdef int flush_link(self, Link link) except -1
    cdef int listen(self, Link link) except -1
    cdef int weigh(self, Link link, Py_ssize_t before) except -1
    cdef int clear_congestion(self, Link link) except -1
    cdef int ignore(self, Link link) except -1
    cdef int pause(self, Link link) except -1
    cdef int start_window(self) except -1
    cdef int judge_receivers(self) except -1
    cdef int ease(self) except -1
    cdef list resume_all(self, list waiting)
    cdef int end_turn(self, Link link) except -1
    cdef int stall(self, Link link, Py_ssize_t published) except -1
    cdef int arm_timer(self) except -1
    cdef int wake_soon(self) except -1


cdef void tell_owner(object owner, object error) noexcept

cdef inline int give_span(Outboxes outboxes, Link receiver, Py_ssize_t start, Py_ssize_t length) except -1:
    """Hand a range of the arena to a receiver: the one step that is taken for every message delivered."""
    if receiver.span_length:
        if receiver.span_start + receiver.span_length == start:
            receiver.span_length += length
            outboxes.owed += length
            return 0
        outboxes.settle_span(receiver)
    if not receiver.flags & DIRTY:
        outboxes.mark_dirty(receiver)    # first: a span that is not flushed in this tick refers to what is gone
    receiver.span_start = start
    receiver.span_length = length
    outboxes.owed += length
    return 0
