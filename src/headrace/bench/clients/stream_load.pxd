"""What the load of streams has beyond that of messages; `stream_load.pyx` says how it works."""

from libc.stdint cimport int64_t, uint8_t

from headrace.bench.clients.client_connection cimport ClientConnection
from headrace.bench.clients.load cimport Load


cdef extern from "string.h" nogil:
    void *memmem(const void *text, size_t text_length, const void *part, size_t part_length)


cdef enum:
    IDENTITY_DIGITS = 12             # the number in a message id: always as long, so that headers are, too
    ACK_SUBJECT_TOKENS = 9           # $JS.ACK.stream.consumer.deliveries.sequence.consumer sequence.time.pending
    LONG_ACK_SUBJECT_TOKENS = 11     # the same with a domain and an account before the stream
    ACK_FRAME_LENGTH = 256           # of an acknowledgement, without the names of stream and consumer
    PULL_LENGTH = 128                # of the body of a pull
    KEY_DIGITS = 6
    KEY_STRIDE = 7919                # from one key to the next: a prime, so that all keys have their turn
    HEADER_LENGTHS = 48              # ` <length> <length>\r\n`


cdef class StreamLoad(Load):
    cdef uint8_t *seen               # a bit for every sequence that must come exactly once
    cdef int64_t seen_first
    cdef int64_t seen_count
    cdef int64_t to_pull             # by those who share a consumer, and nobody has asked for yet
    cdef readonly int64_t refusals   # error answers, and messages that no stream took
    cdef readonly int64_t duplicates # acknowledged as already known
    cdef char refusal[256]           # the first of them

    cdef bint take_sequence(self, int index, int64_t sequence) noexcept nogil
    cdef ClientConnection *add_targets(self, int descriptor, bytes verb, bytes subject, bytes inbox, bytes request_end,
                                       int64_t requests, int64_t in_flight, int64_t keys, int64_t more) except NULL
    cdef void put_target(self, ClientConnection *connection) noexcept nogil
    cdef void put_header(self, ClientConnection *connection) noexcept nogil
    cdef void take_acknowledgement(self, int index) noexcept nogil
    cdef void take_stored(self, int index, int64_t sequence) noexcept nogil
    cdef void take_value(self, int index) noexcept nogil
    cdef void take_pulled(self, int index) noexcept nogil
    cdef void refuse(self, const char *text, int64_t length) noexcept nogil
    cdef void pull(self, int index, int64_t now) noexcept nogil
