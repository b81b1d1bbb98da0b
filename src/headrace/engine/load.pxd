"""What the load loop calls, counts and remembers; `load.pyx` says how it works."""

from libc.stdint cimport int64_t, uint32_t


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


cdef enum:
    CONTROL_LINE_MAX = 4096          # nats-server's own default
    READ_LENGTH = 256 * 1024         # stays in a core's L2 cache
    PAYLOAD_MAX = 64 * 1024 * 1024   # the most that a nats-server can be configured to accept
    WRITES_PER_TURN = 16             # of one publisher, before the readable connections get their turn again;
    BYTES_PER_TURN = 32 * 1024       # large writes use the turn up sooner
    TICK_MILLISECONDS = 200          # how often Python may look at signals and at the progress
    TOKEN_DIGITS = 19

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
    # What a publisher writes: `block` over and over until `to_send` bytes are out.
    const char *block
    int64_t block_length
    int64_t write_length             # the most that one write may carry
    int64_t position
    int64_t to_send
    # Small things to write: PING, PONG, requests, replies. Always whole frames, never inside a block.
    char *outbox
    int64_t outbox_length
    int64_t outbox_capacity
    # What is read
    bint same_frames
    int64_t expected
    int64_t messages
    int64_t payload_bytes
    int64_t pongs
    int64_t skip                     # payload bytes (and CRLF) of the current message that are still to come
    int64_t payload_length           # of the current message
    int64_t frame_length
    int64_t head_length
    int64_t carry_length
    char head[CONTROL_LINE_MAX]      # the control line of the latest message
    char carry[CONTROL_LINE_MAX]     # an unfinished control line
    # Requests: `request` + token + `request_end`; the token is the request's number.
    const char *request
    int64_t request_length
    const char *request_end
    int64_t request_end_length
    int64_t inbox_length
    int64_t requested
    int64_t *times                   # by number: when it was sent, then minus how long its answer took


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
    cdef list kept                   # the bytes objects that the connections point into

    cdef Connection *add(self, int descriptor, Role role, int64_t outbox_capacity) except NULL
    cdef void start(self) noexcept nogil
    cdef void loop(self, epoll_event *events) noexcept nogil
    cdef void stop(self, Status status, int index, const char *text, int64_t length) noexcept nogil
    cdef void receive(self, int index) noexcept nogil
    cdef void parse(self, int index, const char *at, const char *end) noexcept nogil
    cdef void on_line(self, int index, const char *line, int64_t length) noexcept nogil
    cdef void on_head(self, int index, const char *line, int64_t length) noexcept nogil
    cdef void on_message(self, int index) noexcept nogil
    cdef void answer(self, int index) noexcept nogil
    cdef void take_answer(self, int index) noexcept nogil
    cdef void put_request(self, Connection *connection, int64_t now) noexcept nogil
    cdef void put(self, Connection *connection, const char *text, int64_t length) noexcept nogil
    cdef void transmit(self, int index) noexcept nogil
    cdef int64_t write(self, int index, const char *bytes_out, int64_t length) noexcept nogil
    cdef void watch(self, int index, bint output) noexcept nogil
    cdef void check_complete(self, int index, int64_t now) noexcept nogil
    cdef void finish_phase(self) noexcept nogil
