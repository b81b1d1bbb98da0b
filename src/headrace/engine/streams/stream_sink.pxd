# The subscriber that appends to a stream's log. The theory is at the top of stream_sink.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.store.log cimport Log
from headrace.engine.core.link cimport Link
from headrace.engine.core.message cimport Message
from headrace.engine.streams.duplicate_window cimport DuplicateWindow
from headrace.engine.core.sinks cimport Sink
from headrace.engine.core.slow_consumers cimport SlowConsumers

cdef packed struct Answer:
    # One answer that waits for the disk: the reply subject, then the body, behind this head. Packed, because the next one
    # begins wherever this one ends.
    uint64_t seq                   # the message that it acknowledges; 0: the body says it all
    uint32_t reply_length
    uint32_t body_length

cdef struct Wishes

cdef class Answers:
    """A group of answers that leave together."""
    cdef char *data
    cdef Py_ssize_t used
    cdef Py_ssize_t capacity

    cdef int add(self, uint64_t seq, const char *reply, uint32_t reply_length,
                 const char *body, uint32_t body_length) except -1
    cdef int make_room(self, Py_ssize_t size) except -1


cdef class StreamSink(Sink):
    cdef SlowConsumers slow_consumers
    cdef readonly Log log
    cdef readonly object stream
    cdef public bytes ack_prefix
    cdef public bytes ack_suffix
    cdef public long long max_msg_size     # -1: no limit
    cdef public bint no_ack
    cdef public bint direct
    cdef public bytes last_msg_id
    cdef readonly DuplicateWindow duplicates
    cdef Answers waiting                   # of this tick
    cdef Py_ssize_t answer_bytes           # of all answers that wait for the disk
    cdef bint full                         # publishers wait for the disk
    cdef int64_t time                      # of the last message
    cdef const char *last_id               # where the last message's id was; never dereferenced
    cdef uint64_t turn                     # the turn in which `time` was read; 0: read the clock again

    cdef int _store(self, Link publisher, Message *message) except -1
    cdef bint _meets(self, Wishes *wishes, Message *message) except -1
    cdef int64_t _now(self, Link publisher) noexcept
    cdef void _fetch_ahead(self, Wishes *wishes) noexcept
    cdef int _hand_over(self, Message *message) except -1
    cdef int _received(self) except -1
    cdef bint _has_too_much(self) noexcept
    cdef int _add_answer(self, uint64_t seq, const char *reply, uint32_t reply_length,
                         const char *body, uint32_t body_length) except -1
    cdef int _send(self, Answers group) except -1
