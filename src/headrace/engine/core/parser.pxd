# From bytes to operations. The theory is at the top of parser.pyx.

from libc.stdint cimport uint64_t

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.link cimport Link
from headrace.engine.core.message cimport Message
from headrace.engine.core.outboxes cimport Outboxes
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.tick cimport Tick

cdef class Parser:
    cdef Tick tick
    cdef Deliveries deliveries
    cdef Outboxes outboxes
    cdef Publishers publishers
    cdef long long max_payload
    cdef Py_ssize_t control_line_limit
    cdef Py_ssize_t longest_in_buffer    # a frame that is longer gets a buffer of its own
    cdef long long in_msgs
    cdef long long in_bytes
    cdef long long turn_ends       # the value of out_bytes at which the link in hand has had its turn
    cdef uint64_t lines            # operations of one line so far

    cdef char *parse(self, Link link, char *at, char *end) except NULL
    cdef char *_operation(self, Link link, char *at, char *end) except NULL
    cdef int _short(self, Link link, int operation) except -1
    cdef int _line(self, Link link, int operation, char *argument, char *argument_end) except -1
    cdef char *_publish_frame(self, Link link, int operation, char *at, char *argument, char *argument_end,
                              char *payload, char *end) except NULL
    cdef int _publish(self, Link link, Message *message) except -1
    cdef int _answer_no_responders(self, Link link, Message *message) except -1
    cdef int _violation(self, Link link, object kind, bytes detail) except -1
