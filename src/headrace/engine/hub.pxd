# All connections of a server. The theory is at the top of hub.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.grammar cimport Token
from headrace.engine.interest cimport Group, Interest, Route, Subscription
from headrace.engine.message cimport Message
from headrace.engine.outboxes cimport Link, Outboxes
from headrace.engine.pace cimport Pace

cdef class Hub(Outboxes):
    cdef char *buffer              # what is read, for all links: headroom for an unfinished frame, then READ_SIZE
    cdef Py_ssize_t headroom
    cdef char *scratch             # a frame that has to be put into its usual form
    cdef Py_ssize_t scratch_capacity
    cdef bint overran              # the message in hand met a congested receiver
    cdef bint met_critical         # the message in hand met a critical one
    cdef Pace pace
    cdef uint64_t turn             # which of the ready links is next
    cdef long long turn_ends       # the value of out_bytes at which the link in hand has had its turn
    cdef uint64_t random_state
    cdef dict sources              # fd -> the Link that stands for it
    cdef list expired              # subscriptions that reached their maximum with the message in hand
    cdef readonly long long in_msgs
    cdef readonly long long in_bytes
    cdef readonly long long out_msgs
    cdef readonly long long out_bytes
    cdef Py_ssize_t control_line_limit
    cdef Link fullest              # of the receivers of the last send_to, and what waits for it
    cdef Py_ssize_t fullest_bytes

    cdef int _end_tick(self) except -1
    cdef int _readable(self, Link link) except -1
    cdef int _hung_up(self, Link link) except -1
    cdef int _read(self, Link link) except -1
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
    cdef int send_message(self, Interest interest, Message *message) except -1
    cdef int send_to(self, Interest interest, const char *destination, uint32_t destination_length,
                     Message *message) except -1
    cdef int _give_stored(self, Subscription subscription, Message *message) except -1
    cdef int _run_deferred(self) except -1
    cdef int _publish(self, Link link, Message *message) except -1
    cdef bint _deliver(self, Link publisher, Route *route, Message *message) except -1
    cdef bint _deliver_group(self, Link publisher, Route *route, Group *group, Message *message) except -1
    cdef int _give_without_headers(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                                   Message *message) except -1
    cdef int _trace_delivery(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                             Message *message) except -1
    cdef int _answer_no_responders(self, Link link, Message *message) except -1
    cdef uint32_t _random(self, uint32_t below) noexcept
    cdef int _end_expired(self) except -1
    cdef int _reap(self) except -1
    cdef int _violation(self, Link link, object kind, bytes detail) except -1
