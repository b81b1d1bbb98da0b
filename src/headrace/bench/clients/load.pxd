"""What the load loop calls, counts and remembers; `load.pyx` says how it works."""

from libc.stdint cimport int64_t

from headrace.bench.clients.client_connection cimport ClientConnection, Event, Role
from headrace.bench.histogram cimport Histogram
from headrace.bench.clients.poller cimport Poller, epoll_event


cdef enum:
    READ_LENGTH = 256 * 1024         # stays in a core's L2 cache
    WRITES_PER_TURN = 16             # of one publisher, before the readable connections get their turn again;
    BYTES_PER_TURN = 32 * 1024       # large writes use the turn up sooner
    TICK_MILLISECONDS = 200          # how often Python may look at signals and at the progress
    PACED_OUTBOX_LENGTH = 256 * 1024 # and at least a frame: what a paced publisher may have waiting

cdef enum Status:
    RUNNING, TICK, DONE, STALLED, CLOSED, REFUSED, GARBLED

cdef class Load:
    cdef ClientConnection *connections
    cdef int count
    cdef int unfinished              # connections that are not complete in this phase
    cdef bint settling               # everything has arrived; the subscribers' PINGs are out
    cdef Poller poller
    cdef Status status
    cdef int culprit
    cdef char detail[256]
    cdef char *buffer
    cdef int64_t stall_nanoseconds
    cdef int64_t progress_at
    cdef readonly int64_t started_at
    cdef bint in_websocket           # all of its connections are
    cdef bint paced                  # some publisher has a fixed rate
    cdef int64_t shared_expected     # by the members of queue groups together
    cdef int64_t shared_messages
    cdef bint shared_complete
    cdef readonly Histogram waits    # how long requests and messages at a fixed rate took
    cdef readonly Histogram delays   # how much later than intended the generator sent at a fixed rate
    cdef dict channels               # TLS, by descriptor
    cdef list kept                   # the bytes objects that the connections point into

    cdef ClientConnection *add(self, int descriptor, Role role, int64_t outbox_capacity) except NULL
    cdef ClientConnection *add_requests(self, int descriptor, bytes request, bytes request_end, int64_t inbox_length,
                                  int64_t requests, int64_t in_flight, int64_t longest) except NULL
    cdef void put_first_requests(self, ClientConnection *connection, int64_t in_flight) noexcept nogil
    cdef void start(self) noexcept nogil
    cdef void loop(self, epoll_event *events) noexcept nogil
    cdef int64_t send_due(self, int64_t now) noexcept nogil
    cdef void stop(self, Status status, int index, const char *text, int64_t length) noexcept nogil
    cdef void receive(self, int index) noexcept nogil
    cdef void on_event(self, int index, Event event) noexcept nogil
    cdef void on_message(self, int index) noexcept nogil
    cdef const char *reply_of(self, int index, int64_t *length) noexcept nogil
    cdef void answer(self, int index) noexcept nogil
    cdef void take_numbered(self, int index) noexcept nogil
    cdef void take_answer(self, int index) noexcept nogil
    cdef void put_request(self, ClientConnection *connection, int64_t now) noexcept nogil
    cdef void put_token(self, ClientConnection *connection) noexcept nogil
    cdef void put_numbered(self, ClientConnection *connection) noexcept nogil
    cdef void put(self, ClientConnection *connection, const char *text, int64_t length) noexcept nogil
    cdef void transmit(self, int index) noexcept nogil
    cdef int64_t write(self, int index, const char *bytes_out, int64_t length) noexcept nogil
    cdef void check_complete(self, int index, int64_t now) noexcept nogil
    cdef void check_shared(self) noexcept nogil
    cdef void finish_phase(self) noexcept nogil
