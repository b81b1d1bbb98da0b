"""One client of a load: its connection, what it has to write and what it has read."""

from libc.stdint cimport int64_t


cdef enum:
    CONTROL_LINE_MAX = 4096          # nats-server's own default
    PAYLOAD_MAX = 64 * 1024 * 1024   # the most that a nats-server can be configured to accept
    TOKEN_DIGITS = 19
    BODY_MAX = 512                   # of an answer whose content matters; the rest is only counted
    ANSWER_START_MAX = 128           # of what acknowledgements of one stream begin with

cdef enum Role:
    PUBLISHER, SUBSCRIBER, RESPONDER, REQUESTER

cdef enum Event:
    NOTHING, MESSAGE, PING, PONG, REFUSAL, GARBAGE

cdef enum Numbering:
    PLAIN, IDENTIFIED, EXPECTING     # messages without headers, with an id each, with the last sequence

cdef struct ClientConnection:
    int descriptor
    void *channel                    # TLS over it; NULL: none
    bint unsent                      # the channel has bytes that the socket has not accepted
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
    # WebSocket: what is written gets the head of a frame, what is read loses it (websocket_client.pyx).
    bint in_websocket
    int64_t frame_left               # payload bytes of the current frame that are still to come
    int frame_head_length
    unsigned char frame_head[10]     # an unfinished one
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
    const char *unexpected           # what a REFUSAL or GARBAGE was about; valid until the next read
    int64_t unexpected_length
    # Answers with a content that matters (stream_load.pyx)
    bint keeps_body
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
    # Streams (stream_load.pyx). With keys, `request` ends before the key and `request_middle` follows it.
    int64_t keys
    const char *request_middle
    int64_t request_middle_length
    # A publisher with headers writes them after the token: `header` and a number, in IDENTITY_DIGITS for message ids.
    Numbering numbering
    const char *header
    int64_t header_start_length      # of `header`, without the number
    int64_t payload_size
    int64_t first_sequence           # of the first message, for one that expects sequences
    int64_t latest_number            # whose acknowledgement came last, and with which sequence
    int64_t latest_sequence
    char answer_start[ANSWER_START_MAX]      # what its last acknowledgement had before the sequence
    int64_t answer_start_length
    # One that pulls: `request` + length + body, for `batch` messages at a time
    bint pulls
    bint acknowledges
    int64_t batch
    int64_t to_request               # messages that it may still ask for
    int64_t outstanding              # messages of the current pull that are still to come
    int64_t pulled_at
    bint gets                        # one that asks for the values of keys


cdef bint prepare(ClientConnection *connection, int descriptor, Role role, int64_t outbox_capacity) noexcept nogil
cdef int set_request(ClientConnection *connection, bytes request, bytes request_end) except -1
cdef void dispose(ClientConnection *connection) noexcept nogil
cdef bint append(ClientConnection *connection, const char *text, int64_t length) noexcept nogil
cdef int64_t next_write(ClientConnection *connection, const char **start) noexcept nogil
cdef bint wrote(ClientConnection *connection, int64_t sent) noexcept nogil
cdef Event read_event(ClientConnection *connection, const char **position, const char *end) noexcept nogil
cdef const char *find_reply(ClientConnection *connection, int64_t *length) noexcept nogil
cdef int64_t answered_number(ClientConnection *connection) noexcept nogil
cdef int64_t digits(const char *text, int64_t length) noexcept nogil
cdef bint has_all(ClientConnection *connection, bint settling) noexcept nogil
cdef tuple outcome_of(ClientConnection *connection)
cdef list latencies_of(ClientConnection *connection)
