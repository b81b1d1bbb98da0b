# A connection as the engine sees it, and what it asks of its hub.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.interest cimport Interest
from headrace.engine.core.message cimport Message
from headrace.engine.core.permissions cimport PermissionSet, Responses
from headrace.engine.core.transport cimport Transport
from headrace.engine.core.trie cimport Subscription
from headrace.engine.basics.wide_map cimport WideMap

cdef enum:
    CLOSED = 1
    NO_ECHO = 2
    NO_HEADERS = 4
    VERBOSE = 8
    PEDANTIC = 16
    NO_RESPONDERS = 32
    AWAITING_AUTH = 64           # nothing but CONNECT is accepted; set until it has an interest
    PONGED = 128                 # the first PING after CONNECT has been answered
    DIRTY = 256                  # is in the list of links to flush
    WANTS_WRITE = 512            # its socket was full: epoll reports when it is not
    PAUSED = 1024                # it is not read
    SLOW = 2048                  # publishers waited for it, and it did not keep up
    CONGESTED = 4096             # publishers wait for it
    TRACED = 8192
    CONNECTED = 16384            # CONNECT has been received
    CRITICAL = 32768             # more than 75 % of max_pending is queued for it
    SINK = 65536                 # no socket: it receives its messages within this process
    SOURCE = 131072              # no peer: a descriptor whose owner is called when it is readable
    RESTRICTED = 262144          # it may not publish to every subject
    RESPONDS = 524288            # it may publish to the reply subjects of messages it gets
    UNREAD = 1048576             # is in the list of links whose transport has more to receive
    GREETING = 2097152           # what arrives is not for the parser yet: its owner is called instead
    GATHERS = 4194304            # its outbox may have many pieces: see Transport.gathers

cdef struct Piece:
    # A run of messages with the same head: see outboxes.pyx.
    uint32_t head                  # in the arena
    uint32_t head_length
    uint32_t first                 # of its bodies
    uint32_t count

cdef class LinkHost

cdef class Link:
    """One connection: a transport, an unfinished frame, an outbox, its subscriptions."""
    cdef int fd                    # the one that epoll watches
    cdef uint32_t flags
    cdef Transport transport
    # the outbox: bytes that wait for the socket, then a span of the tick's arena, then pieces
    cdef Py_ssize_t span_start
    cdef Py_ssize_t span_length
    cdef Piece *pieces             # NULL, or room for MOST_PIECES
    cdef uint32_t piece_count
    cdef Py_ssize_t pieces_length  # of all of them together
    cdef char *backlog
    cdef Py_ssize_t backlog_head
    cdef Py_ssize_t backlog_tail
    cdef Py_ssize_t backlog_capacity
    cdef readonly long long out_msgs
    cdef readonly long long out_bytes
    # the inbox
    cdef char *partial             # the frame that has arrived in part (or, when paused, frames not yet parsed)
    cdef Py_ssize_t partial_length
    cdef Py_ssize_t frame_total    # its length when it is too long for the shared buffer; otherwise 0
    cdef int skipping              # the PING, PONG or +OK whose end of line is awaited
    cdef readonly long long in_msgs
    cdef readonly long long in_bytes
    cdef double active_at          # when the peer last sent something
    cdef double written_at         # when the socket last proved to be alive, while something is queued
    cdef Py_ssize_t unproven       # what it has accepted since
    cdef Py_ssize_t drained        # what it has accepted in this window
    cdef public long long max_payload      # of its account or user; the server's applies, too
    cdef Py_ssize_t allowance      # what it may publish to critical receivers before it is stalled
    cdef uint64_t blocked_in       # the window in which it became full
    cdef LinkHost hub
    cdef readonly Interest interest        # of its account; None until that is known
    cdef readonly PermissionSet permissions    # None: it may do everything
    cdef Responses responses
    cdef readonly WideMap subscriptions    # sid -> Subscription
    cdef bint imports                      # its subscriptions get what the account imports, too
    cdef dict shadows                      # sid -> its Shadows, in other interests; None: there are none
    cdef readonly object owner             # makes the decisions: see Hub for how it is called
    cdef readonly object close_reason
    cdef list waiters                      # called once its outbox is empty
    cdef void *next_closing                # the Link that was closed after this one, in this tick (borrowed)

    cdef int receive(self, Link publisher, Subscription subscription, Message *message) except -1
    cdef bint receive_traced(self, Link publisher, Subscription subscription, Message *message, object trace) except -1
    cdef int when_drained(self, object waiter) except -1
    cdef int _filter(self, Subscription subscription) except -1
    cdef int end(self, Subscription subscription) except -1
    cdef int _unsubscribe_any(self) except -1
    cdef int _add_shadows(self, Subscription subscription) except -1
    cdef int _end_shadows(self, bytes sid) except -1


cdef class LinkHost:
    """What a link asks of the hub that it belongs to."""
    cdef int send(self, Link link, bytes data) except -1
    cdef int hold(self, Link link) except -1
    cdef int resume(self, Link link) except -1
    cdef int resume_held(self, Link link) except -1
    cdef int await_greeting(self, Link link, bint writable) except -1
    cdef int end_greeting(self, Link link, Transport transport) except -1
    cdef int close_link(self, Link link, object reason) except -1
    cdef int at_end_of_tick(self, object action) except -1


cdef inline Py_ssize_t backlog_length(Link link) noexcept:
    return link.backlog_tail - link.backlog_head
