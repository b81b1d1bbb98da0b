"""A message to its receivers: to everybody on its route, in the frames that each of them understands.

Messages come from a link (the parser has found a frame, which can usually be copied as it is: `send_along`), from
within the process (`send_message` writes the frame) and from a stream (`send_to`: the receivers of one subject get a
message that was published to another). A sink receives its messages as calls; they are not written.
"""

cimport cython
from cpython.mem cimport PyMem_Free
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memcpy

from headrace.engine.basics.buffers cimport resize_buffer
from headrace.engine.basics.copying cimport copy_over
from headrace.engine.basics.decimals cimport write_decimal
from headrace.engine.core.grammar cimport Token
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport (CLOSED, CONGESTED, CRITICAL, GATHERS, NO_ECHO, NO_HEADERS, RESPONDS, SINK, TRACED,
                                        Link, Piece, backlog_length)
from headrace.engine.core.message cimport Message
from headrace.engine.core.outboxes cimport ARENA_SIZE, MOST_PIECES, Outboxes, append_span, owes_much
from headrace.engine.core.pieces cimport LONG_FRAME
from headrace.engine.core.routes cimport Group, Route
from headrace.engine.core.slow_consumers cimport BUDGET, SlowConsumers
from headrace.engine.core.trie cimport Shadow, Subscription

import os

# For such a receiver something has to be decided, or noted, with each message.
cdef uint32_t SPECIAL = CLOSED | NO_ECHO | CONGESTED | CRITICAL | SINK | TRACED | RESPONDS


@cython.final
cdef class Deliveries:
    """Puts each message into the outboxes of its receivers."""

    def __cinit__(self, Outboxes outboxes not None, SlowConsumers slow_consumers not None):
        self.outboxes = outboxes
        self.slow_consumers = slow_consumers
        self.random_state = int.from_bytes(os.urandom(8), 'little') | 1

    def __dealloc__(self):
        PyMem_Free(self.scratch)

    # -- from within the process -------------------------------------------------------------------------------

    cdef int send_message(self, Interest interest, Message *message) except -1:
        """Deliver a message that has no frame yet. Returns whether anybody got it."""
        cdef Route *route = interest.lookup(message.subject, message.subject_length)
        cdef Token header, size
        cdef char header_digits[24]
        cdef char size_digits[24]
        cdef bint delivered
        if route.target_count + route.queue_count == 0:
            return 0
        header.start = header_digits
        header.length = write_decimal(header_digits, message.header_length) if message.header_length else 0
        size.start = size_digits
        size.length = write_decimal(size_digits, message.size)
        self.write_rest(message, header, size)
        delivered = self.send_along(None, route, message)
        self.met_critical = self.overran = False
        return delivered

    cdef int send_past_shadows(self, Interest interest, Message *message) except -1:
        """The same, but not to other accounts: a message from another account is not exported again."""
        cdef Route *route = interest.lookup(message.subject, message.subject_length)
        if not route.has_shadows:
            return self.send_message(interest, message)
        return self._send_stored_along(route, message, True) > 0

    cdef int send_once(self, Interest interest, Message *message) except -1:
        """The same for a subject that will not be used again: no route is made for it."""
        cdef uint32_t k
        if not interest.find(message.subject, message.subject_length):
            return self.send_message(interest, message)
        for k in range(interest.trie.found.count):
            self._send_stored(<Subscription> interest.trie.found.items[k], message)
        if self.expired is not None:
            self._end_expired()
        return 0

    cdef int write_rest(self, Message *message, Token header, Token size) except -1:
        """Write what follows subject and sid in a frame: `[reply ][header size ]<size>\\r\\n<payload>\\r\\n`.

        The result is in the scratch buffer until the next call, and so is the payload. The sizes are as their publisher
        wrote them; without a header size there are no headers.
        """
        cdef Py_ssize_t needed = message.reply_length + header.length + size.length + 6 + message.size
        cdef char *at
        if needed > self.scratch_capacity:
            resize_buffer(&self.scratch, &self.scratch_capacity, needed)
        at = self.scratch
        if message.reply_length:
            at = put(put(at, message.reply, message.reply_length), b' ', 1)
        if header.length:
            at = put(put(at, header.start, header.length), b' ', 1)
        at = put(put(at, size.start, size.length), b'\r\n', 2)
        at = put(put(at, message.payload, message.size), b'\r\n', 2)
        message.rest = self.scratch
        message.rest_length = at - self.scratch
        message.payload = message.rest + message.rest_length - 2 - message.size
        return 0

    # -- from a stream -----------------------------------------------------------------------------------------

    cdef int send_to(self, Interest interest, const char *destination, uint32_t destination_length,
                     Message *message) except -1:
        """Deliver a stored message, under the subject that it was published to, to the subscribers of `destination`.

        Returns how many got it; `fullest` is the one of them whose outbox is the fullest. If all of them were denied
        it, it returns 1, as if it had been received, so that the message does not block the next one.
        """
        cdef Route *route = interest.lookup(destination, destination_length)
        cdef int receivers
        self.fullest = None
        self.fullest_bytes = -1
        self.denied = False
        self.destination = destination
        self.destination_length = destination_length
        receivers = self._send_stored_along(route, message, False)
        self.destination = NULL
        return receivers or self.denied

    cdef int _send_stored_along(self, Route *route, Message *message, bint past_shadows) except -1:
        """Write its frame for everybody on a route, and for one member of each queue group. Returns how many got it."""
        cdef uint32_t k, g, count, start, queue
        cdef int receivers = 0
        cdef Subscription target
        for k in range(route.target_count):
            target = <Subscription> route.targets[k]
            if not (past_shadows and isinstance(target, Shadow)):
                receivers += self._send_stored(target, message)
        g = route.plain_group_count
        for queue in range(route.queue_count):
            count = route.queue_ends[queue] - g
            start = self._random(count)
            for k in range(count):
                target = <Subscription> route.targets[route.groups[g + (start + k) % count].first]
                if not (past_shadows and isinstance(target, Shadow)) and self._send_stored(target, message):
                    receivers += 1
                    break
            g = route.queue_ends[queue]
        if self.expired is not None:
            self._end_expired()
        return receivers

    cdef int _send_stored(self, Subscription subscription, Message *message) except -1:
        """Write the frame straight into the receiver's outbox. Returns 1 if it gets it, otherwise 0."""
        cdef Link receiver = <Link> subscription.receiver
        cdef Py_ssize_t header = message.header_length, size = message.size
        cdef const char *body = message.payload
        cdef char *at
        if receiver.flags & CLOSED:
            return 0
        if receiver.flags & SINK:
            receiver.receive(None, subscription, message)
            return 1
        if subscription.filter is not None \
                and subscription.filter.denies(message.subject, message.subject_length):
            self.denied = True
            return 0
        subscription.delivered += 1
        if subscription.maximum and subscription.delivered >= subscription.maximum:
            if subscription.delivered > subscription.maximum:
                return 0
            self._expire(subscription)
        if receiver.flags & NO_HEADERS and header:
            body += header
            size -= header
            header = 0
        # five for HMSG, four spaces, two numbers of at most 20 digits, two line ends
        at = self.outboxes.begin_frame(
            receiver, 53 + message.subject_length + len(subscription.sid) + message.reply_length + size)
        if header:
            at = put(at, b'H', 1)
        at = put(put(put(at, b'MSG ', 4), message.subject, message.subject_length), b' ', 1)
        at = put(put(at, subscription.sid, len(subscription.sid)), b' ', 1)
        if message.reply_length:
            at = put(put(at, message.reply, message.reply_length), b' ', 1)
        if header:
            at = put(at + write_decimal(at, header), b' ', 1)
        at += write_decimal(at, size)
        at = put(put(put(at, b'\r\n', 2), body, size), b'\r\n', 2)
        if receiver.flags & (TRACED | RESPONDS):
            if receiver.flags & RESPONDS and message.reply_length:
                receiver.responses.note(message.reply, message.reply_length)
            if receiver.flags & TRACED:
                receiver.owner.on_trace('out', b'MSG', message.subject[:message.subject_length])
        receiver.out_msgs += 1
        receiver.out_bytes += size
        self.out_msgs += 1
        self.out_bytes += size
        self.outboxes.end_frame(receiver, at)
        if backlog_length(receiver) > self.fullest_bytes:
            self.fullest_bytes = backlog_length(receiver)
            self.fullest = receiver
        return 1

    # -- along a route -----------------------------------------------------------------------------------------

    cdef bint send_along(self, Link publisher, Route *route, Message *message) except -1:
        """Deliver a message to everybody on its route. Returns whether anybody got it.

        `overran` and `met_critical` are then what its publisher may have to wait for.
        """
        cdef uint32_t g, k, count, start, queue, plain_groups = route.plain_group_count
        cdef bint delivered = False
        # Several heads, one shared rest. For a single receiver that would cost an extra copy.
        cdef bint apart = route.plain_group_count + route.queue_count > 1 and not route.has_one_receiver \
            and message.rest_length <= ARENA_SIZE // 2
        self.body_placed_in = 0
        if route.has_one_receiver and route.target_count > 1 and self._send_to_one(route, message):
            delivered = True
            plain_groups = 0
        for g in range(plain_groups):
            if apart and self._give_head(route, &route.groups[g], message) \
                    or self._send_to_group(publisher, route, &route.groups[g], message):
                delivered = True
        g = route.plain_group_count
        for queue in range(route.queue_count):
            # One member of each queue group, chosen at random; if it does not get the message, the next one.
            count = route.queue_ends[queue] - g
            start = self._random(count)
            for k in range(count):
                if apart and self._give_head(route, &route.groups[g + (start + k) % count], message) \
                        or self._send_to_group(publisher, route, &route.groups[g + (start + k) % count], message):
                    delivered = True
                    break
            g = route.queue_ends[queue]
        if self.expired is not None:
            self._end_expired()
        if owes_much(self.outboxes):
            self.outboxes.flush_all()
            if self.slow_consumers.fair_total > BUDGET:
                self.overran = True
        return delivered

    cdef bint _send_to_one(self, Route *route, Message *message) except -1:
        """Several subscriptions of one connection: write all frames at once, if nothing has to be decided about it.

        Row 1-10-on-one of the benchmark.
        """
        cdef uint32_t k, plain = message.header_length == 0  # then the first letter of HMSG is left out
        cdef Link receiver = <Link> (<Subscription> route.targets[0]).receiver
        cdef Outboxes outboxes = self.outboxes
        cdef Py_ssize_t length = 0, start
        cdef Group *group
        cdef char *at
        if receiver.flags & (SPECIAL if plain else SPECIAL | NO_HEADERS) or message.rest_length > LONG_FRAME \
                or route.plain_group_count != route.target_count or route.queue_count:
            return False
        for k in range(route.target_count):
            if (<Subscription> route.targets[k]).maximum:
                return False
            length += route.groups[k].prefix_length - plain + message.rest_length
        if length > ARENA_SIZE // 2:
            return False
        if outboxes.arena_used + length > ARENA_SIZE:
            outboxes.flush_all()
        start = outboxes.arena_used
        at = outboxes.gathering.arena + start
        # Copied once to a place where blocks may be read beyond its end; nothing is being gathered there now.
        memcpy(outboxes.gathering.joined, message.rest, message.rest_length)
        for k in range(route.target_count):
            (<Subscription> route.targets[k]).delivered += 1
            group = &route.groups[k]
            at = copy_over(at, route.text + group.prefix + plain, group.prefix_length - plain)
            at = copy_over(at, outboxes.gathering.joined, <uint32_t> message.rest_length)
        outboxes.arena_used += length
        outboxes.arena_frames += route.target_count
        receiver.out_msgs += route.target_count
        receiver.out_bytes += route.target_count * message.size
        self.out_msgs += route.target_count
        self.out_bytes += route.target_count * message.size
        append_span(outboxes, receiver, start, length)
        return True

    cdef bint _give_head(self, Route *route, Group *group, Message *message) except -1:
        """Deliver a frame whose rest is in the arena already, if nothing has to be decided about its receiver."""
        cdef uint32_t plain = message.header_length == 0     # then the first letter of HMSG is left out
        cdef uint32_t special = SPECIAL if plain else SPECIAL | NO_HEADERS
        if group.count > 1 or not is_simple(<Subscription> route.targets[group.first], special):
            return False
        if group.placed_in != self.outboxes.arena_number or self.body_placed_in != self.outboxes.arena_number:
            self._place(route, group, message)
        give(self.outboxes, <Subscription> route.targets[group.first],
             <Link> (<Subscription> route.targets[group.first]).receiver, message.size,
             group.placed + plain, group.prefix_length - plain, self.body, message.rest_length)
        self.out_msgs += 1
        self.out_bytes += message.size
        return True

    cdef bint _send_to_group(self, Link publisher, Route *route, Group *group, Message *message) except -1:
        """Write the frame once and append it to the outbox of every member of the group."""
        cdef const char *prefix = route.text + group.prefix
        cdef Py_ssize_t prefix_length = group.prefix_length
        cdef Py_ssize_t length, start = -1
        cdef uint32_t k
        cdef Link receiver
        cdef Subscription subscription
        cdef Outboxes outboxes = self.outboxes
        cdef bint delivered = False
        # A group of one among many would only be copied from the arena to its backlog: write it to the backlog
        # directly.
        cdef bint shared = group.count > 1 or route.has_one_receiver
        if message.header_length == 0:
            prefix += 1
            prefix_length -= 1
        length = prefix_length + message.rest_length
        if length > ARENA_SIZE // 2:
            shared = False
        for k in range(group.first, group.first + group.count):
            subscription = <Subscription> route.targets[k]
            receiver = <Link> subscription.receiver
            if receiver.flags & (CLOSED | NO_ECHO | CONGESTED | CRITICAL | SINK):
                if receiver.flags & SINK:
                    if route.has_shadows:
                        self._hand_over(publisher, subscription, route.text + group.prefix, group.prefix_length, message)
                    else:
                        receiver.receive(publisher, subscription, message)
                    delivered = True
                    continue
                if receiver.flags & CLOSED or (receiver.flags & NO_ECHO and receiver is publisher):
                    continue
                if self.slow_consumers.drops and receiver.flags & CRITICAL:
                    continue
                if receiver.flags & CONGESTED:
                    self.overran = True
                if receiver.flags & CRITICAL:
                    self.met_critical = True
            subscription.delivered += 1
            if subscription.maximum and subscription.delivered >= subscription.maximum:
                if subscription.delivered > subscription.maximum:
                    continue
                self._expire(subscription)
            delivered = True
            receiver.out_msgs += 1
            self.out_msgs += 1
            if receiver.flags & (TRACED | RESPONDS):
                self._note_delivery(receiver, prefix, prefix_length, message)
            if receiver.flags & NO_HEADERS and message.header_length:
                self._send_without_headers(receiver, prefix + 1, prefix_length - 1, message)
                continue
            receiver.out_bytes += message.size
            self.out_bytes += message.size
            if shared:
                if start < 0:
                    start = outboxes.arena_frame(prefix, prefix_length, message.rest, message.rest_length)
                append_span(outboxes, receiver, start, length)
            else:
                outboxes.append(receiver, prefix, prefix_length, message.rest, message.rest_length)
        return delivered

    cdef int _place(self, Route *route, Group *group, Message *message) except -1:
        """Put the head of the group and the rest of the message into the arena, unless they are there already."""
        cdef Outboxes outboxes = self.outboxes
        if outboxes.arena_used + group.prefix_length + message.rest_length > ARENA_SIZE:
            outboxes.flush_all()
        if self.body_placed_in != outboxes.arena_number:
            self.body = <uint32_t> outboxes.add_body(message.rest, message.rest_length)
            self.body_placed_in = outboxes.arena_number
        if group.placed_in != outboxes.arena_number:
            group.placed = <uint32_t> outboxes.arena_frame(route.text + group.prefix, group.prefix_length, NULL, 0)
            group.placed_in = outboxes.arena_number
        return 0

    cdef int _hand_over(self, Link publisher, Subscription subscription, const char *prefix,
                        Py_ssize_t prefix_length, Message *message) except -1:
        """To a sink that may get it under another subject: the one in the prefix, `HMSG <subject> <sid> `."""
        cdef Message shown = message[0]
        shown.subject = prefix + 5
        shown.subject_length = <uint32_t> (prefix_length - 7 - len(subscription.sid))
        return (<Link> subscription.receiver).receive(publisher, subscription, &shown)

    cdef int _send_without_headers(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                                   Message *message) except -1:
        """For a peer that cannot read headers: the same message with its headers removed."""
        cdef Py_ssize_t size = message.size - message.header_length
        cdef bytes line = prefix[:prefix_length]
        if message.reply_length:
            line += message.reply[:message.reply_length] + b' '
        line += b'%d\r\n' % size
        receiver.out_bytes += size
        self.out_bytes += size
        return self.outboxes.append(receiver, line, len(line), message.payload + message.header_length, size + 2)

    cdef int _note_delivery(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                            Message *message) except -1:
        if receiver.flags & RESPONDS and message.reply_length:
            receiver.responses.note(message.reply, message.reply_length)
        if receiver.flags & TRACED:
            self._trace_delivery(receiver, prefix, prefix_length, message)
        return 0

    cdef int _trace_delivery(self, Link receiver, const char *prefix, Py_ssize_t prefix_length,
                             Message *message) except -1:
        cdef const char *line_end = <const char *> memchr(message.rest, c'\r', message.rest_length)
        line = prefix[:prefix_length] + message.rest[:line_end - message.rest]
        try:
            receiver.owner.on_trace('out', b'', line)
            receiver.owner.on_trace('out', b'MSG_PAYLOAD', message.payload[:message.size])
        except Exception as error:
            self.outboxes.tick.report_bug(receiver, error)
        return 0

    cdef uint32_t _random(self, uint32_t below) noexcept:
        """A number in [0, below), by xorshift; it only has to be fair."""
        self.random_state ^= self.random_state << 13
        self.random_state ^= self.random_state >> 7
        self.random_state ^= self.random_state << 17
        return <uint32_t> ((self.random_state >> 32) % below)

    cdef int _expire(self, Subscription subscription) except -1:
        """It has reached its maximum.

        An empty list is None instead: looking into a list would cost every message another cache line
        (row 1-1 of the benchmark).
        """
        if self.expired is None:
            self.expired = []
        self.expired.append(subscription)
        return 0

    cdef int _end_expired(self) except -1:
        """End the subscriptions that have reached their maximum, now that no route is being walked."""
        cdef Subscription subscription
        cdef Link receiver
        for subscription in self.expired:
            if subscription.node == NULL:
                continue         # its link has been closed since, and may be gone
            receiver = <Link> subscription.receiver
            receiver.end(subscription)
            del receiver.subscriptions[subscription.sid]
        self.expired = None
        return 0


cdef inline char *put(char *at, const char *text, Py_ssize_t length) noexcept:
    memcpy(at, text, length)
    return at + length


cdef inline bint is_simple(Subscription subscription, uint32_t special) noexcept:
    """Whether a receiver gets a message as it is, and nothing has to be decided."""
    return (<Link> subscription.receiver).flags & (special | GATHERS) == GATHERS and subscription.maximum == 0


cdef inline int give(Outboxes outboxes, Subscription subscription, Link receiver, Py_ssize_t size, uint32_t head,
                     uint32_t head_length, uint32_t body, Py_ssize_t body_length) except -1:
    """Append a frame that is in the arena in two parts: the step that is taken for most messages delivered."""
    cdef Piece *last
    subscription.delivered += 1
    receiver.out_msgs += 1
    receiver.out_bytes += size
    if receiver.piece_count == 0 or receiver.piece_count == MOST_PIECES:
        return outboxes.append_message(receiver, head, head_length, body)
    last = &receiver.pieces[receiver.piece_count - 1]
    if last.head == head and last.first + last.count == body:
        last.count += 1
    else:
        last[1].head = head
        last[1].head_length = head_length
        last[1].first = body
        last[1].count = 1
        receiver.piece_count += 1
    receiver.pieces_length += head_length + body_length
    outboxes.owed += head_length + body_length
    return 0
