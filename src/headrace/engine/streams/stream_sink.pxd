# The subscriber that appends to a stream's log. The theory is at the top of stream_sink.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.core.congestion cimport Congestion
from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.store.log cimport Log
from headrace.engine.core.message cimport Message
from headrace.engine.streams.message_ids cimport MessageIds
from headrace.engine.core.sinks cimport Sink
from headrace.engine.segments.windows cimport Window

cdef packed struct Answer:
    # One answer that waits for the disk: the reply subject, then the body, behind this head. Packed, because the next one
    # begins wherever this one ends.
    uint64_t seq                   # the message that it acknowledges; 0: the body says it all
    uint32_t reply_length
    uint32_t body_length

cdef class Answers:
    """A group of answers that leave together."""
    cdef char *data
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity

    cdef int add(self, uint64_t seq, const char *reply, uint32_t reply_length,
                 const char *body, uint32_t body_length) except -1
    cdef int make_room(self, Py_ssize_t size) except -1


cdef class StreamSink(Sink):
    cdef Deliveries deliveries
    cdef Congestion congestion
    cdef readonly Log log
    cdef readonly object stream
    cdef public bytes ack_prefix
    cdef public bytes ack_suffix
    cdef public long long max_msg_size     # -1: no limit
    cdef public bint no_ack
    cdef public bint direct
    cdef public int64_t duplicate_window   # ns; 0: none
    cdef public bytes last_msg_id
    cdef MessageIds ids
    cdef uint64_t unread                   # the first stored message whose id is not in `ids` so far; 0: none
    cdef uint64_t unread_end               # and the last one
    cdef Window window                     # for a look at the message that may be a duplicate
    cdef Answers waiting                   # of this tick
    cdef Py_ssize_t answer_bytes           # of all answers that wait for the disk
    cdef bint full                         # publishers wait for the disk

    cdef int _read_ids(self, uint64_t count) except -1
    cdef uint64_t _find(self, uint64_t hashed, const char *msg_id, Py_ssize_t length) except? 0
    cdef int _store(self, Message *message) except -1
    cdef int _hand_over(self, Message *message) except -1
    cdef int _forget_failed(self) except -1
    cdef int _received(self) except -1
    cdef bint _has_too_much(self) noexcept
    cdef int _add_answer(self, uint64_t seq, const char *reply, uint32_t reply_length,
                         const char *body, uint32_t body_length) except -1
    cdef int _send(self, Answers group) except -1
