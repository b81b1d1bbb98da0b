# Connections, ticks and outboxes. The theory is at the top of hub.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.interest cimport Group, Interest, Route, Subscription


cdef struct Token:
    char *start
    Py_ssize_t length

cdef struct Message:
    const char *subject
    const char *reply
    const char *rest               # what follows the subject and the sid in a MSG or HMSG, to the end of the frame
    const char *payload            # the headers, then the body
    uint32_t subject_length
    uint32_t reply_length          # 0: no reply
    Py_ssize_t rest_length
    Py_ssize_t header_length       # 0: no headers
    Py_ssize_t size                # headers and body

cdef class Hub

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
    cdef double written_at         # when the socket last took something
    cdef Hub hub
    cdef Interest interest
    cdef readonly dict subscriptions       # sid -> Subscription
    cdef readonly object owner             # the decider: see Hub for what it is called with
    cdef readonly object close_reason


cdef class Hub:
    cdef int epoll
    cdef int timer
    cdef char *buffer              # what is read, for all links: headroom for an unfinished frame, then READ_SIZE
    cdef Py_ssize_t headroom
    cdef char *arena               # the frames of this tick
    cdef Py_ssize_t arena_used
    cdef char *scratch             # a frame that has to be put into its usual form
    cdef Py_ssize_t scratch_capacity
    cdef void **dirty              # links with something to flush (borrowed)
    cdef Py_ssize_t dirty_count
    cdef Py_ssize_t dirty_capacity
    cdef long long owed            # bytes given to receivers since the last flush
    cdef long long fair_total      # what receivers have not taken, each counted up to a fair share
    cdef long long lowest_total
    cdef Py_ssize_t congested      # receivers that publishers have to wait for
    cdef bint overran              # the message in hand met such a receiver
    cdef double now
    cdef double pause_until
    cdef uint64_t random_state
    cdef list paused
    cdef list expired              # subscriptions that reached their maximum with the message in hand
    cdef list closing
    cdef bint polling
    cdef readonly dict links       # fd -> Link
    cdef readonly long long in_msgs
    cdef readonly long long in_bytes
    cdef readonly long long out_msgs
    cdef readonly long long out_bytes
    cdef readonly long long stalls
    cdef public long long max_payload
    cdef public long long max_pending
    cdef Py_ssize_t control_line_limit

    cdef int _readable(self, Link link) except -1
    cdef int _read_long_frame(self, Link link) except -1
    cdef int _nothing_read(self, Link link, Py_ssize_t count) except -1
    cdef int _keep(self, Link link, const char *start, const char *end) except -1
    cdef int _feed(self, Link link, char *start, char *end) except -1
    cdef char *_parse(self, Link link, char *at, char *end) except NULL
    cdef char *_operation(self, Link link, char *at, char *end) except NULL
    cdef int _line(self, Link link, int operation, char *argument, char *argument_end) except -1
    cdef int _short(self, Link link, int operation) except -1
    cdef char *_publish_frame(self, Link link, int operation, char *at, char *argument, char *argument_end,
                              char *payload, char *end) except NULL
    cdef Py_ssize_t _usual_form(self, Token reply, Token header, Token size,
                                const char *payload, Py_ssize_t payload_length) except -1
    cdef int _publish(self, Link link, Message *message) except -1
    cdef bint _deliver(self, Link publisher, Route *route, Message *message) except -1
    cdef bint _deliver_group(self, Link publisher, Route *route, Group *group, Message *message) except -1
    cdef int _give_without_headers(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                                   Message *message) except -1
    cdef int _answer_no_responders(self, Link link, Message *message) except -1
    cdef uint32_t _random(self, uint32_t below) noexcept
    cdef Py_ssize_t _arena_frame(self, const char *prefix, Py_ssize_t prefix_length,
                                 const char *rest, Py_ssize_t rest_length) except -1
    cdef int _give_span(self, Link receiver, Py_ssize_t start, Py_ssize_t length) except -1
    cdef int _give(self, Link receiver, const char *first, Py_ssize_t first_length,
                   const char *second, Py_ssize_t second_length) except -1
    cdef int _settle_span(self, Link receiver) except -1
    cdef int _reserve(self, Link receiver, Py_ssize_t length) except -1
    cdef int _mark_dirty(self, Link link) except -1
    cdef int _weigh(self, Link link, Py_ssize_t before) except -1
    cdef int _flush(self) except -1
    cdef int _flush_link(self, Link link) except -1
    cdef int _listen(self, Link link) except -1
    cdef int _pause(self, Link link) except -1
    cdef int _ease(self) except -1
    cdef int _resume(self, Link link) except -1
    cdef int _end_tick(self) except -1
    cdef int _bug(self, Link link, object error) except -1
    cdef int _arm_timer(self, double seconds) except -1
    cdef int _end_expired(self) except -1
    cdef int _reap(self) except -1
    cdef int _close(self, Link link, object reason) except -1
    cdef int _violation(self, Link link, object kind, bytes detail) except -1
