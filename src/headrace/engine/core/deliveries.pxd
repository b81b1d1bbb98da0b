# Who gets a message, and in which frame. The theory is at the top of deliveries.pyx.

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.grammar cimport Token
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport Link
from headrace.engine.core.message cimport Message
from headrace.engine.core.outboxes cimport Outboxes
from headrace.engine.core.routes cimport Group, Route
from headrace.engine.core.slow_consumers cimport SlowConsumers
from headrace.engine.core.trie cimport Subscription

cdef class Deliveries:
    cdef Outboxes outboxes
    cdef SlowConsumers slow_consumers
    cdef char *scratch             # for a frame that has to be put into its usual form
    cdef Py_ssize_t scratch_capacity
    cdef uint32_t body             # the rest of the message in hand, in the arena, if that is the one of
    cdef uint64_t body_placed_in   # this number
    cdef bint overran              # the message in hand met a congested receiver
    cdef bint met_critical         # the message in hand met a critical one
    cdef uint64_t random_state
    cdef list expired              # subscriptions that reached their maximum with the message in hand; None: none did
    cdef long long out_msgs
    cdef long long out_bytes
    cdef bint denied               # a receiver of the last send_to was not allowed to get its message
    cdef const char *destination   # of the message in hand in send_to; NULL: the subject of the message
    cdef uint32_t destination_length
    cdef Link fullest              # of the receivers of the last send_to, and how much it has queued
    cdef Py_ssize_t fullest_bytes

    cdef int send_message(self, Interest interest, Message *message) except -1
    cdef int send_past_shadows(self, Interest interest, Message *message) except -1
    cdef int send_once(self, Interest interest, Message *message) except -1
    cdef int send_to(self, Interest interest, const char *destination, uint32_t destination_length,
                     Message *message) except -1
    cdef bint send_along(self, Link publisher, Route *route, Message *message) except -1
    cdef int write_rest(self, Message *message, Token header, Token size) except -1
    cdef int _expire(self, Subscription subscription) except -1
    cdef int _end_expired(self) except -1
    cdef int _send_stored_along(self, Route *route, Message *message, bint past_shadows) except -1
    cdef int _send_stored(self, Subscription subscription, Message *message) except -1
    cdef bint _send_to_one(self, Route *route, Message *message) except -1
    cdef bint _give_head(self, Route *route, Group *group, Message *message) except -1
    cdef bint _send_to_group(self, Link publisher, Route *route, Group *group, Message *message) except -1
    cdef int _place(self, Route *route, Group *group, Message *message) except -1
    cdef int _hand_over(self, Link publisher, Subscription subscription, const char *prefix,
                        Py_ssize_t prefix_length, Message *message) except -1
    cdef int _send_without_headers(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                                   Message *message) except -1
    cdef int _note_delivery(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                            Message *message) except -1
    cdef int _trace_delivery(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                             Message *message) except -1
    cdef uint32_t _random(self, uint32_t below) noexcept
