"""A message to its receivers, one by one; the trace of the message notes each of them.

This is the path of the few messages whose headers ask for a trace; all others take that of deliveries.pyx, which knows
nothing of traces. A trace (broker/message_trace/trace.py) lists everybody who subscribes to the message, including
those who do not get it, and why. Routes have only those who do get it, so they are no help here. If the message is
trace-only, no client gets it.
"""

cimport cython
from libc.stdint cimport uint32_t

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport CLOSED, CONGESTED, CRITICAL, NO_ECHO, SINK, Link
from headrace.engine.core.message cimport Message
from headrace.engine.core.trie cimport Shadow, Subscription

NO_ECHO_ERROR = "Not delivered because of no echo"
DENIED_ERROR = "Not delivered because subscription denies this subject"
CLOSED_ERROR = "Not delivered because client is closed"
MAXIMUM_ERROR = "Not delivered because auto-unsubscribe exceeded"
SLOW_ERROR = "Not delivered because fast producer not stalled and consumer is slow"


@cython.final
cdef class TracedDeliveries:
    def __cinit__(self, Deliveries deliveries not None):
        self.deliveries = deliveries

    cdef bint send(self, Link publisher, Interest interest, const char *destination, uint32_t destination_length,
                   Message *message, object trace, bint past_shadows) except -1:
        """Deliver to those who subscribe to `destination`. Returns whether anybody got it, or would have.

        `past_shadows`: not to those in other accounts.
        """
        cdef Deliveries deliveries = self.deliveries
        cdef Subscription subscription
        cdef Py_ssize_t k, start, count
        cdef bint delivered = False
        cdef bytes subject = destination[:destination_length]
        plain, queues = interest.everybody(destination, destination_length)
        for subscription in plain:
            if not (past_shadows and isinstance(subscription, Shadow)) \
                    and self._send_to(publisher, subscription, subject, message, trace):
                delivered = True
        for members in queues:
            count = len(members)
            start = deliveries._random(<uint32_t> count)
            for k in range(count):
                subscription = members[(start + k) % count]
                if not (past_shadows and isinstance(subscription, Shadow)) \
                        and self._send_to(publisher, subscription, subject, message, trace):
                    delivered = True
                    break
        if deliveries.expired is not None:
            deliveries._end_expired()
        return delivered

    cdef bint _send_to(self, Link publisher, Subscription subscription, bytes destination, Message *message,
                       object trace) except -1:
        """Returns whether its receiver gets the message, or would get it."""
        cdef Link receiver = <Link> subscription.receiver
        cdef Message shown = message[0]
        cdef bytes subject
        cdef bint is_shown = True
        if isinstance(subscription, Shadow):
            # In an account that imports a stream and may not want to show who gets its messages.
            transform = (<Shadow> subscription).transform
            subject = destination if transform is None else transform(destination)
            shown.subject = subject
            shown.subject_length = <uint32_t> len(subject)
            trace.on_exported(receiver.interest, subject)
            is_shown = (<Shadow> subscription).allows_trace
            if not is_shown and trace.is_only:
                return True
        if receiver.flags & SINK:
            if is_shown:
                return receiver.receive_traced(publisher, subscription, &shown, trace)
            receiver.receive(publisher, subscription, &shown)
            return True
        obstacle = self._obstacle(publisher, receiver, subscription, &shown)
        if obstacle is None and not trace.is_only:
            obstacle = self._late_obstacle(receiver, subscription)
        if is_shown:
            trace.on_egress(receiver.owner, subscription.subject, subscription.queue, obstacle)
        return obstacle is None and (trace.is_only or self.deliveries._send_stored(subscription, &shown))

    cdef object _obstacle(self, Link publisher, Link receiver, Subscription subscription, Message *message):
        """Why its receiver does not get the message, whether or not it is trace-only; None: it does."""
        if receiver.flags & NO_ECHO and receiver is publisher:
            return NO_ECHO_ERROR
        if subscription.filter is not None \
                and not subscription.filter.delivers(message.subject, message.subject_length):
            return DENIED_ERROR
        return None

    cdef object _late_obstacle(self, Link receiver, Subscription subscription):
        """The same for reasons that only apply on delivery. Its publisher may have to wait for the receiver."""
        cdef Deliveries deliveries = self.deliveries
        if 0 < subscription.maximum <= subscription.delivered:
            return MAXIMUM_ERROR
        if deliveries.slow_consumers.drops and receiver.flags & CRITICAL:
            return SLOW_ERROR
        if receiver.flags & CLOSED:
            return CLOSED_ERROR
        if receiver.flags & CONGESTED:
            deliveries.overran = True
        if receiver.flags & CRITICAL:
            deliveries.met_critical = True
        return None
