"""No responders: a request that nobody subscribes to is answered at once, with status 503 on its own reply subject.

Only if the requester asked for it (`no_responders` in CONNECT), and only if it subscribes to the reply subject itself.
"""

from libc.stdint cimport uint32_t

from headrace.engine.core.routes cimport Route
from headrace.engine.core.trie cimport Subscription


cdef int answer_no_responders(Outboxes outboxes, Link link, Message *message) except -1:
    """Nobody got this request: tell its publisher."""
    cdef Route *route = link.interest.lookup(message.reply, message.reply_length)
    cdef Subscription subscription
    cdef bytes subject, headers, line
    cdef uint32_t k
    for k in range(route.target_count):
        subscription = <Subscription> route.targets[k]
        if subscription.receiver == <void *> link:
            subject = message.subject[:message.subject_length]
            headers = b'NATS/1.0 503\r\nNats-Subject: ' + subject + b'\r\n\r\n'
            line = b'HMSG %b %b %d %d\r\n%b\r\n' % (message.reply[:message.reply_length], subscription.sid,
                                                  len(headers), len(headers), headers)
            return outboxes.append(link, line, len(line), NULL, 0)
    return 0
