# Frames of a peer into the bytes of a link. The rules are at the top of decoder.pyx.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from headrace.engine.transports.encoder cimport FrameEncoder
from headrace.engine.transports.frames cimport LONGEST_CONTROL, LONGEST_HEAD
from headrace.engine.transports.inflater cimport Inflater

cdef enum State:
    OPEN
    CLOSED_BY_PEER               # it has sent a close frame: the end, as if it had hung up
    FAILED                       # it has broken the rules

cdef class FrameDecoder:
    cdef FrameEncoder encoder      # for pongs
    cdef long long max_payload
    cdef bint masks                # the peer masks its frames
    cdef Inflater inflater         # None: it must not compress
    cdef State state
    cdef str failure               # what is wrong with what the peer has sent
    cdef bytes goodbye             # the close frame that the peer's frames have called for
    # the frame that is arriving
    cdef uint8_t head[LONGEST_HEAD]
    cdef int head_length
    cdef int head_needed           # as far as is known
    cdef bint in_payload           # the head is complete
    cdef uint64_t left             # what is missing of the payload
    cdef uint32_t key              # for the next byte of it
    cdef uint8_t control[LONGEST_CONTROL]
    cdef int control_length
    # the message that is arriving
    cdef bint in_message           # its last frame has not begun
    cdef bint is_deflated

    cdef char *decode(self, char *at, char *end, char **out, char *out_end) except NULL
    cdef bint is_busy(self) noexcept
    cdef char *_decode(self, char *at, char *end, char **out, char *out_end) except NULL
    cdef char *_add_to_inflater(self, char *at, char *end) except NULL
    cdef char *_inflate(self, char *out, char *out_end) except NULL
    cdef char *_read_head(self, char *at, char *end) except NULL
    cdef int _check_first(self) except -1
    cdef int _check_second(self) except -1
    cdef int _begin_payload(self) except -1
    cdef char *_read_control(self, char *at, char *end) except NULL
    cdef int _end_control(self) except -1
    cdef int _peer_closes(self) except -1
    cdef int _break_rule(self, str rule) except -1
    cdef int _fail(self, str text) except -1
