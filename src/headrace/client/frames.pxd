"""What a client reads from a server, frame by frame; `frames.pyx` says how."""

from libc.stdint cimport int64_t

from headrace.engine.basics.decimals cimport parse_decimal


cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int descriptor, void *buffer, size_t length, int flags)
    ssize_t send(int descriptor, const void *buffer, size_t length, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL

cdef extern from "poll.h" nogil:
    short POLLIN
    short POLLOUT
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *descriptors, unsigned long count, int milliseconds)


cdef enum Kind:
    MSG, HMSG, PING, PONG, OK, ERR, INFO

cdef enum Status:
    READY                            # a whole frame; bytes were moved; a descriptor is ready
    UNFINISHED                       # more bytes are needed
    BLOCKED                          # the socket has none, or takes none
    WAITED                           # the time is over
    INTERRUPTED                      # a signal: Python may have something to do about it
    GARBLED                          # what came is not the protocol; `complaint` says why
    ENDED                            # the server closed the connection, or the network did
    NO_MEMORY
    ENOUGH                           # what the reader waits for has come

cdef struct Frame:
    Kind kind
    int64_t sid
    const char *subject
    Py_ssize_t subject_length
    const char *reply
    Py_ssize_t reply_length
    const char *headers
    Py_ssize_t headers_length
    const char *payload              # of another kind than MSG and HMSG: the rest of the line
    Py_ssize_t payload_length
    Py_ssize_t length                # of the whole frame


cdef inline int64_t parse_number(const char *text, Py_ssize_t length) noexcept nogil:
    """The number that the text is, or -1."""
    return parse_decimal(text, length, 19)


cdef class Frames:
    cdef char *buffer
    cdef Py_ssize_t capacity
    cdef Py_ssize_t start            # the first byte that nobody has taken
    cdef Py_ssize_t end
    cdef Py_ssize_t wanted           # bytes that the unfinished frame at `start` needs, as far as known
    cdef Py_ssize_t payload_max
    cdef int descriptor              # -1: none, bytes come by `feed`
    cdef int error                   # errno of the system call that failed; 0: the peer closed
    cdef const char *complaint
    cdef bint encrypted              # bytes go through `channel`
    cdef object channel              # TLS over the descriptor, or None
    cdef object failure              # the exception that ended the channel, or None
    cdef Frame frame

    cdef Status parse(self) noexcept nogil
    cdef Status parse_message(self, const char *line, Py_ssize_t length, bint with_headers) noexcept nogil
    cdef void advance(self) noexcept nogil
    cdef Status reserve(self) noexcept nogil
    cdef Status fill(self) noexcept nogil
    cdef Status write(self, const char *data, Py_ssize_t length, Py_ssize_t *written) noexcept nogil
    cdef Status fill_from_channel(self) noexcept
    cdef Status write_to_channel(self, const char *data, Py_ssize_t length, Py_ssize_t *written) noexcept
    cdef Status wait(self, short events, int64_t deadline) noexcept nogil
    cdef object event(self)
    cdef object result(self, Status status)
    cdef object trouble(self, Status status)

cdef int64_t deadline_after(double seconds) noexcept nogil
