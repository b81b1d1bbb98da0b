# From bytes to operations. The theory is at the top of parser.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.grammar cimport PublishArguments
from headrace.engine.core.link cimport Link
from headrace.engine.core.message cimport Message
from headrace.engine.core.outboxes cimport Outboxes
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.tick cimport Tick
from headrace.engine.core.traced_deliveries cimport TracedDeliveries

cdef class Parser:
    cdef Tick tick
    cdef Deliveries deliveries
    cdef TracedDeliveries traced_deliveries
    cdef Outboxes outboxes
    cdef Publishers publishers
    cdef bytes mapped              # the subject that the message in hand is published to instead
    cdef bytes changed             # what replaces the headers and body of the message in hand
    cdef long long max_payload
    cdef Py_ssize_t control_line_limit
    cdef Py_ssize_t longest_in_buffer    # a frame that is longer gets a buffer of its own
    cdef long long in_msgs
    cdef long long in_bytes
    cdef long long turn_began      # what `_delivered` returned when the turn of the link in hand began
    cdef uint64_t lines            # one-line operations so far

    cdef char *parse(self, Link link, char *at, char *end) except NULL
    cdef char *_operation(self, Link link, char *at, char *end) except NULL
    cdef int _short(self, Link link, int operation) except -1
    cdef int _line(self, Link link, int operation, char *argument, char *argument_end) except -1
    cdef char *_publish_frame(self, Link link, int operation, char *at, char *argument, char *argument_end,
                              char *payload, char *end) except NULL
    cdef bint _may_publish(self, Link link, Message *message) except -1
    cdef int _publish(self, Link link, Message *message) except -1
    cdef long long _delivered(self) noexcept
    cdef bint _turn_is_over(self) noexcept
    cdef bint _asks_for_trace(self, Link link, const char *headers, Py_ssize_t length) noexcept
    cdef int _report_oversized(self, Link link, PublishArguments *arguments, const char *headers,
                               Py_ssize_t length) except -1
    cdef int _publish_traced(self, Link link, Message *message) except -1
    cdef int _send_traced(self, Link link, Message *message, object trace) except -1
    cdef int _refuse_traced(self, Link link, object kind, bytes detail, object trace) except -1
    cdef int _change_headers(self, Message *message, bytes headers) except -1
    cdef int _map(self, Link link, Message *message) except -1
    cdef int _violation(self, Link link, object kind, bytes detail) except -1
