"""Receivers within this process: they subscribe as a client does, and have no socket.

A sink is a Link that receives its messages where a socket's would be written. While a message is being delivered its
route is being walked, so nothing may subscribe or publish. A sink therefore only notes what it got, and acts on
all of it at the end of the tick, where the hub calls `settle`. That is also what makes it cheap: Python is called
once per tick and sink, not once per message.
"""

from headrace.engine.core.hub cimport Hub
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport CONNECTED, SINK, Link
from headrace.engine.core.message cimport Message
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.tick cimport Tick
from headrace.engine.core.trie cimport Subscription
from headrace.engine.basics.wide_map cimport WideMap

cdef Py_ssize_t MESSAGES_AT_A_TIME = 256


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
