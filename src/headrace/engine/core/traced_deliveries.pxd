# A message whose path is recorded. The theory is at the top of traced_deliveries.pyx.

from libc.stdint cimport uint32_t

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport Link
from headrace.engine.core.message cimport Message
from headrace.engine.core.trie cimport Subscription

cdef class TracedDeliveries:
    cdef Deliveries deliveries

    cdef bint send(self, Link publisher, Interest interest, const char *destination, uint32_t destination_length,
                   Message *message, object trace, bint past_shadows) except -1
    cdef bint _send_to(self, Link publisher, Subscription subscription, bytes destination, Message *message,
                       object trace) except -1
    cdef object _obstacle(self, Link publisher, Link receiver, Subscription subscription, Message *message)
    cdef object _late_obstacle(self, Link receiver, Subscription subscription)
