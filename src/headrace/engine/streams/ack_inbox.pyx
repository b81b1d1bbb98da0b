"""Acknowledgements of a consumer's messages: the numbers in their subjects are parsed here.

    $JS.ACK.stream.consumer.deliveries.sequence.consumer sequence.time.pending

Most of them only say that a pending message is done. These are settled without Python, so that it is called once per tick
(row stream-pull of the benchmark).
"""

from libc.stdint cimport uint64_t
from libc.string cimport memcmp

from headrace.engine.core.hub cimport Hub
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport Link
from headrace.engine.core.message cimport Message
from headrace.engine.core.sinks cimport Sink
from headrace.engine.core.trie cimport Subscription
from headrace.engine.streams.pending cimport Pending


cdef class AckInbox(Sink):
    """See ack_inbox.pyi."""

    def __init__(self, Hub hub, Interest interest, receive, begin, Pending pending not None, tuple others not None):
        self.owner = receive
        self.begin = begin
        self.pending = pending
        self.others = others
        self.acks = []

    cdef int receive(self, Link publisher, Subscription subscription, Message *message) except -1:
        cdef uint64_t deliveries, seq, consumer_seq
        cdef const char *begin = message.subject
        cdef const char *at = begin + message.subject_length
        at = back_over_digits(back_over_digits(at, begin), begin)      # time and pending
        at = back_over_number(at, begin, &consumer_seq)
        at = back_over_number(at, begin, &seq)
        at = back_over_number(at, begin, &deliveries)
        if at == NULL:
            return 0
        if not self.noted:
            self.settles = self.begin()
        if self.settles and message.reply_length == 0 and is_done(message) and self._settle_one(seq):
            return self.note()
        self.settles = False
        self.acks.append((seq, consumer_seq, deliveries,
                          message.payload[message.header_length:message.size] if message.size else b'',
                          message.reply[:message.reply_length] if message.reply_length else b''))
        return self.note()

    cdef bint _settle_one(self, uint64_t seq) except -1:
        """Returns False if the message is not pending."""
        cdef uint64_t consumer_seq
        cdef dict other
        if not self.pending.remove(seq, &consumer_seq):
            return False
        for other in self.others:
            if other:
                other.pop(seq, None)
        if self.settled == 0 or consumer_seq < self.lowest:
            self.lowest = consumer_seq
        self.settled += 1
        return True

    def settle(self):
        cdef list acks = self.acks
        cdef uint64_t settled = self.settled
        self.noted = False
        self.acks = []
        self.settled = 0
        self.owner(acks, settled, self.lowest)


cdef inline const char *back_over_digits(const char *end, const char *begin) noexcept:
    """The dot before the digits that end here; NULL if there are none, or no dot, and if `end` is NULL."""
    cdef const char *at = end
    if end == NULL:
        return NULL
    while at > begin and c'0' <= (at - 1)[0] <= c'9':
        at -= 1
    return at - 1 if at != end and at > begin and (at - 1)[0] == c'.' else NULL


cdef inline const char *back_over_number(const char *end, const char *begin, uint64_t *number) noexcept:
    """The same, with the number that they are."""
    cdef const char *dot = back_over_digits(end, begin)
    cdef const char *at
    number[0] = 0
    if dot != NULL:
        at = dot + 1
        while at < end:
            number[0] = 10 * number[0] + <uint64_t> (at[0] - c'0')
            at += 1
    return dot


cdef bint is_done(Message *message) noexcept:
    """Whether it is a plain acknowledgement: no body, `+ACK` or `+OK`."""
    cdef const char *body = message.payload + message.header_length
    cdef Py_ssize_t length = message.size - message.header_length
    return length == 0 or length == 4 and memcmp(body, b'+ACK', 4) == 0 or length == 3 and memcmp(body, b'+OK', 3) == 0
