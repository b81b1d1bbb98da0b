"""Receivers within this process: they subscribe as a client does, and have no socket.

A sink is a Link that receives its messages where a socket's would be written. While a message is being delivered its
route is being walked, so nothing may subscribe or publish. A sink therefore only notes what it got, and acts on
all of it at the end of the tick, where the hub calls `settle`. That is also what makes it cheap: Python is called
once per tick and sink, not once per message.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp

from headrace.engine.core.hub cimport Hub
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport CONNECTED, SINK, Link
from headrace.engine.core.message cimport Message
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.tick cimport Tick
from headrace.engine.core.trie cimport Subscription
from headrace.engine.basics.wide_map cimport WideMap

cdef Py_ssize_t MESSAGES_AT_A_TIME = 256
cdef int ACK_TOKENS = 5              # deliveries, stream sequence, consumer sequence, time, pending


cdef class Sink(Link):
    """The base: `settle` is called at the end of every tick in which it got something."""

    def __cinit__(self, Hub hub not None, Interest interest not None, *_):
        self.fd = -1
        self.flags = SINK | CONNECTED
        self.imports = False           # APIs and the like: a request in another account is not one in this account
        self.hub = hub
        self.tick = hub.tick
        self.publishers = hub.publishers
        self.deliveries = hub.deliveries
        self.interest = interest
        self.subscriptions = WideMap()

    cdef int note(self) except -1:
        if not self.noted:
            self.tick.deferred.append(self.settle)
            self.noted = True
        return 0

    def settle(self):
        raise NotImplementedError


cdef class InboxMessage:
    """A message that an Inbox got."""
    cdef readonly bytes subject
    cdef readonly bytes reply
    cdef readonly bytes headers
    cdef readonly bytes payload
    cdef readonly bytes sid
    cdef readonly object publisher         # the owner of the link that published it; None from within
    cdef readonly bytes destination        # what it was sent to; for a stored message not the subject that it shows
    cdef readonly object trace             # records what happens to it; None: nobody asked for a trace

    def __init__(self, bytes subject, bytes reply=b'', bytes headers=b'', bytes payload=b'', bytes sid=b'',
                 publisher=None, bytes destination=None):
        self.subject = subject
        self.sid = sid
        self.reply = reply
        self.headers = headers
        self.payload = payload
        self.publisher = publisher
        self.destination = subject if destination is None else destination

    def __repr__(self):
        return f'InboxMessage({self.subject!r}, {self.reply!r}, {self.headers!r}, {self.payload!r})'


cdef class Inbox(Sink):
    """Hands its messages to `receive(messages)` as a list, at the end of the tick.

    A `prompt` one does so before a PONG is sent, so that a client gets the results of its publish before the PONG.
    """

    def __init__(self, Hub hub, Interest interest, receive, bint prompt=False):
        self.owner = receive
        self.messages = []
        self.prompt = prompt

    cdef int receive(self, Link publisher, Subscription subscription, Message *message) except -1:
        cdef Py_ssize_t header = message.header_length
        cdef bytes destination = None
        if self.deliveries.destination != NULL:
            destination = self.deliveries.destination[:self.deliveries.destination_length]
        self.messages.append(InboxMessage(
            message.subject[:message.subject_length],
            message.reply[:message.reply_length],
            message.payload[:header],
            message.payload[header:message.size],
            subscription.sid,
            None if publisher is None else publisher.owner,
            destination))
        if publisher is not None and len(self.messages) % MESSAGES_AT_A_TIME == 0:
            self.publishers.end_turn(publisher)     # every one of them is handled in Python, at the end of this tick
        if self.prompt and len(self.messages) == 1:
            self.tick.prompt.append(self._settle_early)
        return self.note()

    cdef bint receive_traced(self, Link publisher, Subscription subscription, Message *message, object trace) except -1:
        """An inbox with a `tracer` handles the trace itself."""
        if self.tracer is not None and not self.tracer(trace, message.subject[:message.subject_length]):
            return False
        self.receive(publisher, subscription, message)
        if self.tracer is not None:
            (<InboxMessage> self.messages[len(self.messages) - 1]).trace = trace
        return True

    def _settle_early(self):
        """It stays noted, and finds nothing at the end of the tick."""
        messages = self.take()
        if messages:
            self.owner(messages)

    def settle(self):
        self.noted = False
        messages = self.take()
        if messages:
            self.owner(messages)

    def take(self):
        """What has arrived since the last time, for a caller that does not wait for the end of the tick."""
        cdef list messages = self.messages
        self.messages = []
        return messages


cdef class AckInbox(Sink):
    """Acknowledgements of a consumer's messages: the numbers in their subject are parsed here.

    Most of them only say that a pending message is done. They are settled here, if `begin()`, which is called
    for the first one in a tick, allows it: the message is removed from `pending` (stream sequence -> (consumer sequence,
    time)) and from the `others`. From the first that says something else on, all of this tick are kept, so that they
    stay in order.

    At the end of the tick, `receive(acks, settled, lowest)` gets what was kept, as a list of
    (stream sequence, consumer sequence, deliveries, body, reply), how many were settled, and the lowest consumer sequence
    of these. A subject of another form is ignored.
    """

    def __init__(self, Hub hub, Interest interest, receive, begin, dict pending not None, tuple others not None):
        self.owner = receive
        self.begin = begin
        self.pending = pending
        self.others = others
        self.acks = []

    cdef int receive(self, Link publisher, Subscription subscription, Message *message) except -1:
        cdef uint64_t numbers[5]
        cdef const char *end = message.subject + message.subject_length
        cdef const char *at = end
        cdef int place = ACK_TOKENS
        cdef uint64_t value, scale
        while place:
            place -= 1
            value = 0
            scale = 1
            while at > message.subject and c'0' <= (at - 1)[0] <= c'9':
                at -= 1
                value += scale * <uint64_t> (at[0] - c'0')
                scale *= 10
            if scale == 1 or at == message.subject or (at - 1)[0] != c'.':
                return 0
            numbers[place] = value
            at -= 1
        if not self.noted:
            self.settles = self.begin()
        if self.settles and message.reply_length == 0 and is_done(message) and self._settle_one(numbers[1]):
            return self.note()
        self.settles = False
        self.acks.append((numbers[1], numbers[2], numbers[0],
                          message.payload[message.header_length:message.size] if message.size else b'',
                          message.reply[:message.reply_length] if message.reply_length else b''))
        return self.note()

    cdef bint _settle_one(self, uint64_t seq) except -1:
        """Returns False if the message is not pending."""
        cdef uint64_t consumer_seq
        cdef dict other
        key = seq
        entry = self.pending.pop(key, None)
        if entry is None:
            return False
        for other in self.others:
            if other:
                other.pop(key, None)
        consumer_seq = (<tuple> entry)[0]
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


cdef bint is_done(Message *message) noexcept:
    """Whether it is a plain acknowledgement: no body, `+ACK` or `+OK`."""
    cdef const char *body = message.payload + message.header_length
    cdef Py_ssize_t length = message.size - message.header_length
    return length == 0 or length == 4 and memcmp(body, b'+ACK', 4) == 0 or length == 3 and memcmp(body, b'+OK', 3) == 0
