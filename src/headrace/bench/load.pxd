"""What the load loop calls, counts and remembers; `load.pyx` says how it works."""

from libc.stdint cimport int64_t, uint32_t
from posix.time cimport timespec

from headrace.bench.histogram cimport Histogram


cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int descriptor, void *buffer, size_t length, int flags)
    ssize_t send(int descriptor, const void *buffer, size_t length, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL

cdef extern from "sys/epoll.h" nogil:
    enum: EPOLLIN, EPOLLOUT, EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_MOD
    ctypedef union epoll_data_t:
        uint32_t u32
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int operation, int descriptor, epoll_event *event)
    int epoll_wait(int epoll, epoll_event *events, int max_events, int milliseconds)

cdef extern from "poll.h" nogil:
    short POLLIN
    struct pollfd:
        int fd
        short events
    int ppoll(pollfd *descriptors, unsigned long count, const timespec *timeout, const void *signals)

cdef extern from "sys/prctl.h" nogil:
    enum: PR_SET_TIMERSLACK
    int prctl(int option, unsigned long value)


cdef enum:
    CONTROL_LINE_MAX = 4096          # nats-server's own default
    READ_LENGTH = 256 * 1024         # stays in a core's L2 cache
    PAYLOAD_MAX = 64 * 1024 * 1024   # the most that a nats-server can be configured to accept
    WRITES_PER_TURN = 16             # of one publisher, before the readable connections get their turn again;
    BYTES_PER_TURN = 32 * 1024       # large writes use the turn up sooner
    TICK_MILLISECONDS = 200          # how often Python may look at signals and at the progress
    TOKEN_DIGITS = 19
    BODY_MAX = 512                   # of an answer that is looked into; the rest is only counted
    PACED_OUTBOX_LENGTH = 256 * 1024 # and at least a frame: what a paced publisher may have waiting

cdef enum Role:
    PUBLISHER, SUBSCRIBER, RESPONDER, REQUESTER

cdef enum Status:
    RUNNING, TICK, DONE, STALLED, CLOSED, REFUSED, GARBLED

cdef struct Connection:
    int descriptor
    Role role
    bint complete
    bint watches_output
    int64_t started_at               # nanoseconds: first byte written or read
    int64_t ended_at                 # nanoseconds: the last message, or the closing PONG of a publisher
    bint shares                      # expects nothing by itself: a member of a queue group
    # What a publisher writes: `block` over and over until `to_send` bytes are out.
    const char *block
    int64_t block_length
    int64_t write_length             # the most that one write may carry
    int64_t position
    int64_t to_send
    # Small things to write: PING, PONG, requests, replies. Always whole frames, never inside a block.
    char *outbox
    int64_t outbox_begin             # what is before has been written
    int64_t outbox_length
    int64_t outbox_capacity
    # What is read
    bint same_frames
    int64_t expected
    int64_t messages
    int64_t payload_bytes
    int64_t pongs
    int64_t skip                     # payload bytes (and CRLF) of the current message that are still to come
    int64_t payload_length           # of the current message, headers included
    int64_t header_length            # of the current message; 0 without headers
    int64_t frame_length
    int64_t head_length
    int64_t carry_length
    char head[CONTROL_LINE_MAX]      # the control line of the latest message
    char carry[CONTROL_LINE_MAX]     # an unfinished control line
    # Answers with a content that matters (stream_load.pyx)
    bint keeps_body                  # and takes HMSG
    int64_t body_length
    char body[BODY_MAX]              # headers and payload of the latest message, as far as they fit
    # Requests: `request` + token + `request_end`; the token is the request's number.
    const char *request
    int64_t request_length
    const char *request_end
    int64_t request_end_length
    int64_t inbox_length
    int64_t requested
    int64_t *times                   # by number: when it was sent, then minus how long its answer took
    # At a fixed rate: message `number` is due at `interval` * number after the start. Also of the subscriber
    # that computes from the number, which is the reply subject, how long the message took.
    double interval                  # nanoseconds; 0 when there is no rate
    int64_t stride                   # from one number of this publisher to its next
    int64_t numbers                  # those below are sent by somebody
    # Streams (stream_load.pyx). A publisher with message ids writes `request` + token + `identity` + number in
    # IDENTITY_DIGITS + `request_end`.
    const char *identity
    int64_t identity_length
    int64_t latest_number            # whose acknowledgement came last, and with which sequence
    int64_t latest_sequence
    # One that pulls: `request` + length + body, for `batch` messages at a time
    bint pulls
    bint acknowledges
    int64_t batch
    int64_t to_request               # messages that it may still ask for
    int64_t outstanding              # messages of the current pull that are still to come
    int64_t pulled_at


cdef class Load:
    cdef Connection *connections
    cdef int count
    cdef int unfinished              # connections that are not complete in this phase
    cdef bint settling               # everything has arrived; the subscribers' PINGs are out
    cdef int epoll
    cdef Status status
    cdef int culprit
    cdef char detail[256]
    cdef char *buffer
    cdef int64_t stall_nanoseconds
    cdef int64_t progress_at
    cdef readonly int64_t started_at
    cdef bint paced                  # some publisher has a fixed rate
    cdef int64_t shared_expected     # by the members of queue groups together
    cdef int64_t shared_messages
    cdef bint shared_complete
    cdef readonly Histogram waits    # how long requests and messages at a fixed rate took
    cdef readonly Histogram delays   # how much later than intended the generator sent at a fixed rate
    cdef list kept                   # the bytes objects that the connections point into

    cdef Connection *add(self, int descriptor, Role role, int64_t outbox_capacity) except NULL
    cdef Connection *add_requests(self, int descriptor, bytes request, bytes request_end, int64_t inbox_length,
                                  int64_t requests, int64_t in_flight, int64_t longest) except NULL
    cdef void put_first_requests(self, Connection *connection, int64_t in_flight) noexcept nogil
    cdef void start(self) noexcept nogil
    cdef void loop(self, epoll_event *events) noexcept nogil
    cdef int wait(self, epoll_event *events, int64_t nanoseconds) noexcept nogil
    cdef int64_t send_due(self, int64_t now) noexcept nogil
    cdef void stop(self, Status status, int index, const char *text, int64_t length) noexcept nogil
    cdef void receive(self, int index) noexcept nogil
    cdef void parse(self, int index, const char *at, const char *end) noexcept nogil
    cdef void on_line(self, int index, const char *line, int64_t length) noexcept nogil
    cdef void on_head(self, int index, const char *line, int64_t length) noexcept nogil
    cdef void keep_body(self, Connection *connection, const char *at, int64_t length) noexcept nogil
    cdef void on_message(self, int index) noexcept nogil
    cdef const char *reply_of(self, int index, int64_t *length) noexcept nogil
    cdef void answer(self, int index) noexcept nogil
    cdef void take_numbered(self, int index) noexcept nogil
    cdef int64_t answered_number(self, Connection *connection) noexcept nogil
    cdef void take_answer(self, int index) noexcept nogil
    cdef void put_request(self, Connection *connection, int64_t now) noexcept nogil
    cdef void put_token(self, Connection *connection) noexcept nogil
    cdef void put_numbered(self, Connection *connection) noexcept nogil
    cdef void put(self, Connection *connection, const char *text, int64_t length) noexcept nogil
    cdef void transmit(self, int index) noexcept nogil
    cdef int64_t write(self, int index, const char *bytes_out, int64_t length) noexcept nogil
    cdef void watch(self, int index, bint output) noexcept nogil
    cdef void check_complete(self, int index, int64_t now) noexcept nogil
    cdef void check_shared(self) noexcept nogil
    cdef void finish_phase(self) noexcept nogil
