# The answer to a request that nobody subscribes to. The rule is at the top of no_responders.pyx.

from headrace.engine.core.link cimport NO_RESPONDERS, Link
from headrace.engine.core.message cimport Message
from headrace.engine.core.outboxes cimport Outboxes


cdef inline bint wants_no_responders(Link link, Message *message) noexcept:
    """Inlined into the parser: a publish that nobody gets costs no call unless it is a request."""
    return message.reply_length != 0 and link.flags & NO_RESPONDERS != 0


cdef int answer_no_responders(Outboxes outboxes, Link link, Message *message) except -1
