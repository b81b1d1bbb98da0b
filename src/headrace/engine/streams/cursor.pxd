# Where a consumer is in its stream, and the delivery from there. The theory is at the top of cursor.pyx.

from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.hub cimport Hub
from headrace.engine.core.interest cimport Interest
from headrace.engine.store.log cimport Log
from headrace.engine.core.message cimport Message
from headrace.engine.streams.pending cimport Pending
from headrace.engine.store.store cimport Watcher
from headrace.engine.segments.windows cimport Record, Window

cdef class Cursor(Watcher):
    cdef Hub hub
    cdef Deliveries deliveries
    cdef Interest interest
    cdef readonly Log log
    cdef object wake
    cdef readonly bytes ack_prefix
    cdef public bint headers_only
    cdef public bint track
    cdef public uint64_t delivered_seq     # the last consumer sequence given out
    cdef readonly Pending pending          # an acknowledgement
    cdef readonly bint blocked             # the receiver's outbox is full; wake() is called when it is empty
    cdef readonly bint exceeded            # the next message did not fit into max_bytes
    cdef readonly bint unwanted            # nobody listens
    cdef readonly uint64_t last_delivered  # the stream sequence of the last message delivered
    cdef Window window
    cdef char reply[1024]
    cdef Py_ssize_t prefix_length

    cdef Py_ssize_t _write_reply(self, uint64_t deliveries, Record *record, uint64_t consumer_seq,
                                 long long pending) noexcept
    cdef int _fill(self, Record *record, bytes changed, Message *message) except -1
    cdef bytes _changed(self, Record *record, bytes extra_headers)
    cdef int _look_at_outbox(self) except -1
    cdef int _move_past(self, uint64_t seq, int64_t time) except -1
    cdef int _go_on_later(self) except -1
