"""Receivers within this process: they subscribe as a client does, and have no socket.

A sink is a Link that receives its messages where a socket's would be written. While a message is being delivered its
route is being walked, so nothing may subscribe or publish then. A sink therefore only notes what it got, and acts on
all of it at the end of the tick, where the hub calls `settle`. That is also what makes it cheap: Python is called
once per tick and sink, not once per message.
"""

from libc.stdint cimport uint32_t, uint64_t

from headrace.engine.core.hub cimport Hub
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport CONNECTED, SINK, Link
from headrace.engine.core.message cimport Message
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.tick cimport Tick
from headrace.engine.core.trie cimport Subscription
from headrace.engine.core.wide_map cimport WideMap

cdef Py_ssize_t MESSAGES_AT_A_TIME = 256
cdef int ACK_TOKENS = 5              # deliveries, stream sequence, consumer sequence, time, pending


cdef class Sink(Link):
    """The base: `settle` is called at the end of every tick in which it got something."""

    def __cinit__(self, Hub hub not None, Interest interest not None, *_):
        self.fd = -1
        self.flags = SINK | CONNECTED
        self.hub = hub
        self.tick = hub.tick
        self.publishers = hub.publishers
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

    def __init__(self, bytes subject, bytes reply=b'', bytes headers=b'', bytes payload=b'', bytes sid=b'',
                 publisher=None):
        self.subject = subject
        self.sid = sid
        self.reply = reply
        self.headers = headers
        self.payload = payload
        self.publisher = publisher

    def __repr__(self):
        return f'InboxMessage({self.subject!r}, {self.reply!r}, {self.headers!r}, {self.payload!r})'


cdef class Inbox(Sink):
    """Hands its messages to `receive(messages)` as a list, at the end of the tick."""

    def __init__(self, Hub hub, Interest interest, receive):
        self.owner = receive
        self.messages = []

    cdef int receive(self, Link publisher, Subscription subscription, Message *message) except -1:
        cdef Py_ssize_t header = message.header_length
        self.messages.append(InboxMessage(
            message.subject[:message.subject_length],
            message.reply[:message.reply_length],
            message.payload[:header],
            message.payload[header:message.size],
            subscription.sid,
            None if publisher is None else publisher.owner))
        if publisher is not None and len(self.messages) % MESSAGES_AT_A_TIME == 0:
            self.publishers.end_turn(publisher)     # every one of them is handled in Python, at the end of this tick
        return self.note()

    def settle(self):
        cdef list messages = self.messages
        self.noted = False
        self.messages = []
        self.owner(messages)


cdef class AckInbox(Sink):
    """Acknowledgements of a consumer's messages: the numbers in their subject are read here.

    Hands them to `receive(acks)` at the end of the tick, as a list of
    (stream sequence, consumer sequence, deliveries, body, reply). A subject of another form is ignored.
    """

    def __init__(self, Hub hub, Interest interest, receive):
        self.owner = receive
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
        self.acks.append((numbers[1], numbers[2], numbers[0],
                          message.payload[message.header_length:message.size] if message.size else b'',
                          message.reply[:message.reply_length] if message.reply_length else b''))
        return self.note()

    def settle(self):
        cdef list acks = self.acks
        self.noted = False
        self.acks = []
        self.owner(acks)
