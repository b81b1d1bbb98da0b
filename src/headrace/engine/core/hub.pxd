# All connections of a server. The theory is at the top of hub.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.interest cimport Group, Interest, Route, Subscription
from headrace.engine.core.message cimport Message
from headrace.engine.core.outboxes cimport Link, Outboxes
from headrace.engine.core.pace cimport Pace

cdef class Hub(Deliveries):
    cdef char *buffer              # what is read, for all links: headroom for an unfinished frame, then READ_SIZE
    cdef Py_ssize_t headroom
    cdef Pace pace
    cdef uint64_t turn             # which of the ready links is next
    cdef dict sources              # fd -> the Link that stands for it
    cdef readonly long long in_msgs
    cdef readonly long long in_bytes
    cdef long long turn_ends       # the value of out_bytes at which the link in hand has had its turn
    cdef uint64_t lines            # operations of one line so far
    cdef Py_ssize_t control_line_limit

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
    cdef int _run_deferred(self) except -1
    cdef int _report(self, object error) except -1
    cdef int _publish(self, Link link, Message *message) except -1
    cdef int _answer_no_responders(self, Link link, Message *message) except -1
    cdef int _reap(self) except -1
    cdef int _violation(self, Link link, object kind, bytes detail) except -1
