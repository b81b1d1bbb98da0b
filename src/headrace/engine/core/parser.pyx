"""From bytes to operations: the client protocol, and what follows from each operation.

The grammar follows nats-server's parser byte by byte: an error is raised at the first byte that cannot be right, and
arguments are split as its parser splits them (a lone CR inside a line that ends in a bare LF costs its last byte).
Messages are delivered here; everything else is a line that the link's owner decides on.

A link's turn ends after TURN_BYTES of deliveries: with a wide fan-out one buffer from a publisher makes work for many
milliseconds. But deliveries have to be written, and a system call costs as much as copying some kilobytes: a turn lasts
until every receiver gets WRITE_BYTES, or OWED_LIMIT is reached. With 10,000 receivers that takes a third of the time
per message (`python -m benchmarks.growth subscribers`), and with 1,000 receivers two thirds (row 10-1000). A buffer full of SUB also
makes work for many milliseconds; such a turn ends when the time of the poll is up.
"""

cimport cython
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memcmp

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.grammar cimport (CONNECT, HMSG, HPUB, INFO, NAME_LENGTHS, NAMES, OK, PING, PONG, PUB, SUB,
                                           UNFINISHED, UNKNOWN, UNSUB, PublishArguments, Token, asks_for_trace,
                                           has_usual_form, is_literal_subject, is_reserved_reply, is_reserved_subject,
                                           is_space, parse_size, recognise, shorten_spaces, split_publish)
from headrace.engine.core.link cimport (AWAITING_AUTH, CLOSED, CONNECTED, NO_HEADERS, PAUSED, PEDANTIC, PONGED,
                                        RESTRICTED, TRACED, VERBOSE, Link)
from headrace.engine.core.message cimport Message
from headrace.engine.core.no_responders cimport answer_no_responders, wants_no_responders
from headrace.engine.core.outboxes cimport OWED_LIMIT, Outboxes
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.routes cimport Route
from headrace.engine.basics.decimals cimport write_decimal
from headrace.engine.basics.system cimport monotonic
from headrace.engine.core.tick cimport Tick
from headrace.engine.core.traced_deliveries cimport TracedDeliveries

cdef long long TURN_BYTES = 8 * 1024 * 1024    # that one link may cause to be delivered before others get their turn
cdef long long WRITE_BYTES = 24 * 1024         # for each receiver, if that is more
cdef long long HEAD_BYTES = 32                 # about what a frame has besides its payload, which may be empty
cdef uint64_t LINES_AT_A_TIME = 64             # SUB and the like, between two looks at the clock


@cython.final
cdef class Parser:
    def __cinit__(self, Tick tick not None, Deliveries deliveries not None, Outboxes outboxes not None,
                  Publishers publishers not None):
        self.tick = tick
        self.deliveries = deliveries
        self.traced_deliveries = TracedDeliveries(deliveries)
        self.outboxes = outboxes
        self.publishers = publishers

    cdef char *parse(self, Link link, char *at, char *end) except NULL:
        """Carry out the complete operations. Returns where the first incomplete one starts."""
        cdef char *after
        self.turn_began = self._delivered()
        self.tick.turns += 1
        while at < end and not link.flags & (CLOSED | PAUSED):
            if link.skipping:
                after = <char *> memchr(at, c'\n', end - at)
                if after == NULL:
                    return end
                at = after + 1
                self._short(link, link.skipping)
                continue
            after = self._operation(link, at, end)
            if after == at:
                break
            at = after
        return at

    cdef char *_operation(self, Link link, char *at, char *end) except NULL:
        """Carry out the operation at `at` and return where it ends; `at` itself if it is not complete."""
        cdef int operation
        cdef char *argument
        cdef char *argument_end
        cdef char *newline
        if link.flags & AWAITING_AUTH and at[0] != c'C' and at[0] != c'c':
            link.owner.on_early_operation()
            if link.flags & (CLOSED | AWAITING_AUTH):
                return end
        if end - at > 4 and memcmp(at, b'PUB ', 4) == 0:
            operation = PUB
            argument = at + 4
        elif end - at > 5 and memcmp(at, b'HPUB ', 5) == 0:
            operation = HPUB
            argument = at + 5
        else:
            operation = recognise(at, end)
            if operation == UNFINISHED:
                return at
            if operation == UNKNOWN:
                self._violation(link, 'parse', at[:min(end - at, 32)])
                return end
            argument = at + NAME_LENGTHS[operation]
            if operation == PING or operation == PONG or operation == OK:
                link.skipping = operation
                return argument
            if argument == end:
                return at
            if not is_space(argument[0]) and operation != CONNECT and operation != INFO:
                self._violation(link, 'parse', at[:min(end - at, 32)])
                return end
        while argument < end and is_space(argument[0]):
            argument += 1
        if argument - at > NAME_LENGTHS[operation] + 1:
            # One space is enough: leading spaces must not let an unfinished line grow past its limit.
            return shorten_spaces(at, argument, NAME_LENGTHS[operation])
        if argument == end:
            return at
        # The first byte of the argument is never the end of the line: that is how nats-server reads it.
        newline = <char *> memchr(argument + 1, c'\n', end - argument - 1)
        if newline == NULL:
            if end - argument > self.control_line_limit + 1:
                self._violation(link, 'control_line', NAMES[operation])
                return end
            return at
        argument_end = newline
        if newline - 1 > argument and (newline - 1)[0] == c'\r':
            argument_end -= 1
        elif memchr(argument + 1, c'\r', newline - argument - 1) != NULL:
            argument_end -= 1
        if argument_end - argument > self.control_line_limit:
            self._violation(link, 'control_line', NAMES[operation])
            return end
        if operation == PUB or operation == HPUB or operation == HMSG:
            return self._publish_frame(link, operation, at, argument, argument_end, newline + 1, end)
        self._line(link, operation, argument, argument_end)
        return newline + 1

    cdef int _short(self, Link link, int operation) except -1:
        """PING, PONG and +OK: anything between the name and the end of the line is ignored."""
        link.skipping = 0
        if link.flags & TRACED:
            link.owner.on_trace('in', NAMES[operation], b'')
        if operation == PING:
            if self.tick.prompt:
                self.tick.run_prompt()
                if link.flags & CLOSED:
                    return 0
            self.outboxes.append(link, b'PONG\r\n', 6, NULL, 0)
            if link.flags & CONNECTED and not link.flags & PONGED:
                link.flags |= PONGED
                link.owner.on_first_ping()
        elif operation == PONG:
            link.owner.on_pong()
        return 0

    cdef int _line(self, Link link, int operation, char *argument, char *argument_end) except -1:
        """The operations that are one line; the owner decides them."""
        cdef bytes line = argument[:argument_end - argument]
        cdef list tokens
        if link.flags & TRACED:
            link.owner.on_trace('in', NAMES[operation], line)
        if operation == CONNECT:
            link.owner.on_connect(line)
        elif operation == SUB:
            tokens = split_line(line)
            if len(tokens) == 2:
                link.owner.on_subscribe(tokens[0], None, tokens[1])
            elif len(tokens) == 3:
                link.owner.on_subscribe(tokens[0], tokens[1], tokens[2])
            else:
                self._violation(link, 'arguments', b'SUB ' + line)
        elif operation == UNSUB:
            tokens = split_line(line)
            if len(tokens) == 1:
                link.owner.on_unsubscribe(tokens[0], -1)
            elif len(tokens) == 2:
                link.owner.on_unsubscribe(tokens[0], parse_size(tokens[1], len(tokens[1])))
            else:
                self._violation(link, 'arguments', b'UNSUB ' + line)
        elif operation == INFO:
            link.owner.on_info(line)
        else:
            self._violation(link, 'peer_error', line)
        self.lines += 1
        if self.lines % LINES_AT_A_TIME == 0 and monotonic() > self.tick.ends:
            self.publishers.end_turn(link)
        return 0

    # -- publishing ---------------------------------------------------------------------------------------------

    cdef char *_publish_frame(self, Link link, int operation, char *at, char *argument, char *argument_end,
                              char *payload, char *end) except NULL:
        """A PUB or HPUB, and the payload after it. Returns where it ends; `at` itself if it is not complete."""
        cdef PublishArguments arguments
        cdef Token header
        cdef Message message
        cdef Py_ssize_t size
        cdef char *frame_end
        if operation == HPUB and link.flags & NO_HEADERS:
            self._violation(link, 'headers', argument[:argument_end - argument])
            return end
        if not split_publish(operation, argument, argument_end, &arguments):
            self._violation(link, 'arguments', argument[:argument_end - argument])
            return end
        size = arguments.size
        if size > self.max_payload or size > link.max_payload:
            if arguments.header:
                self._report_oversized(link, &arguments, payload, min(end - payload, arguments.header))
            self._violation(link, 'payload', b'%d vs %d' % (size, min(self.max_payload, link.max_payload)))
            return end
        if end - payload > size and payload[size] != c'\r' or end - payload > size + 1 and payload[size + 1] != c'\n':
            self._violation(link, 'parse', at[:min(end - at, 32)])
            return end
        frame_end = payload + size + 2
        if frame_end > end:
            if frame_end - at > self.longest_in_buffer:
                link.frame_total = frame_end - at
            return at
        if link.flags & (TRACED | PEDANTIC):
            if link.flags & TRACED:
                link.owner.on_trace('in', NAMES[operation], argument[:argument_end - argument])
                link.owner.on_trace('in', b'MSG_PAYLOAD', payload[:size])
            if link.flags & PEDANTIC and operation != HMSG \
                    and not is_literal_subject(arguments.tokens[0].start, arguments.tokens[0].length):
                self._violation(link, 'publish_subject', arguments.tokens[0].start[:arguments.tokens[0].length])
        message.subject = arguments.tokens[0].start
        message.subject_length = <uint32_t> arguments.tokens[0].length
        message.reply = arguments.tokens[1].start
        message.reply_length = <uint32_t> arguments.reply_length
        message.header_length = arguments.header
        message.size = size
        message.payload = payload
        if has_usual_form(operation, &arguments, payload):
            message.rest = arguments.tokens[1].start
            message.rest_length = frame_end - message.rest
        else:
            header = arguments.tokens[arguments.count - 2]
            if arguments.header == 0:
                header.length = 0
            self.deliveries.write_rest(&message, header, arguments.tokens[arguments.count - 1])
        if arguments.header and self._asks_for_trace(link, payload, arguments.header):
            self._publish_traced(link, &message)
        else:
            self._publish(link, &message)
        return frame_end

    cdef int _publish(self, Link link, Message *message) except -1:
        cdef Route *route
        if link.interest.mappings is not None:
            self._map(link, message)
        link.in_msgs += 1
        link.in_bytes += message.size
        self.in_msgs += 1
        self.in_bytes += message.size
        if link.flags & RESTRICTED and not self._may_publish(link, message) \
                or is_reserved_subject(message.subject, message.subject_length):
            return self._violation(link, 'publish', message.subject[:message.subject_length])
        if message.reply_length and is_reserved_reply(message.reply, message.reply_length):
            return self._violation(link, 'reply', message.reply[:message.reply_length])
        if link.flags & VERBOSE:
            self.outboxes.append(link, b'+OK\r\n', 5, NULL, 0)
        route = link.interest.lookup(message.subject, message.subject_length)
        if route.target_count + route.queue_count == 0 or not self.deliveries.send_along(link, route, message):
            if wants_no_responders(link, message):
                answer_no_responders(self.outboxes, link, message)
            return 0
        if self.deliveries.met_critical:
            self.deliveries.met_critical = False
            self.publishers.stall(link, message.size)
        if self.deliveries.overran:
            self.deliveries.overran = False
            self.publishers.overran(link)
        elif self._delivered() - self.turn_began > TURN_BYTES and self._turn_is_over():
            self.publishers.pause(link)
        return 0

    cdef inline long long _delivered(self) noexcept:
        return self.deliveries.out_bytes + HEAD_BYTES * self.deliveries.out_msgs

    cdef bint _turn_is_over(self) noexcept:
        """After TURN_BYTES. What is owed was usually delivered in this turn; after a flush there are no receivers."""
        return self._delivered() - self.turn_began > min(WRITE_BYTES * self.outboxes.dirty_count, OWED_LIMIT)

    # -- messages of which a trace is made ------------------------------------------------------------------------

    cdef bint _asks_for_trace(self, Link link, const char *headers, Py_ssize_t length) noexcept:
        """Not inlined: that would cost messages without headers a nanosecond."""
        return asks_for_trace(headers, length, link.interest.traces_parents)

    cdef int _report_oversized(self, Link link, PublishArguments *arguments, const char *headers,
                               Py_ssize_t length) except -1:
        """The part of its headers that has arrived may ask for a trace."""
        if self._asks_for_trace(link, headers, length):
            link.owner.on_oversized(arguments.tokens[0].start[:arguments.tokens[0].length], headers[:length],
                                    arguments.size)
        return 0

    cdef int _publish_traced(self, Link link, Message *message) except -1:
        """Ask the owner what to do with a message whose headers ask for a trace.

        None: publish it like any other; bytes: with these headers; False: drop it; otherwise the answer is a trace,
        which notes what happens to it.
        """
        trace = link.owner.on_traced(message.subject[:message.subject_length], message.payload[:message.header_length],
                                     message.size)
        if trace is None:
            return self._publish(link, message)
        if isinstance(trace, bytes):
            self._change_headers(message, trace)
            return self._publish(link, message)
        if trace is False:
            return 0
        link.in_msgs += 1
        link.in_bytes += message.size
        self.in_msgs += 1
        self.in_bytes += message.size
        try:
            self._send_traced(link, message, trace)
        finally:
            trace.finish()
        if monotonic() > self.tick.ends:         # Python records every receiver, which takes a while
            self.publishers.end_turn(link)
        return 0

    cdef int _send_traced(self, Link link, Message *message, object trace) except -1:
        """The same steps as in `_publish`."""
        cdef bytes subject = message.subject[:message.subject_length]
        if link.interest.mappings is not None:
            self._map(link, message)
            if self.mapped != subject:
                trace.on_mapped(self.mapped)
        if link.flags & RESTRICTED and not self._may_publish(link, message) \
                or is_reserved_subject(message.subject, message.subject_length):
            return self._refuse_traced(link, 'publish', message.subject[:message.subject_length], trace)
        if message.reply_length and is_reserved_reply(message.reply, message.reply_length):
            return self._refuse_traced(link, 'reply', message.reply[:message.reply_length], trace)
        if link.flags & VERBOSE:
            self.outboxes.append(link, b'+OK\r\n', 5, NULL, 0)
        if self.traced_deliveries.send(link, link.interest, message.subject, message.subject_length, message, trace,
                                       False):
            if self.deliveries.met_critical:
                self.deliveries.met_critical = False
                self.publishers.stall(link, message.size)
            if self.deliveries.overran:
                self.deliveries.overran = False
                self.publishers.overran(link)
        elif wants_no_responders(link, message):
            answer_no_responders(self.outboxes, link, message)
        return 0

    cdef int _refuse_traced(self, Link link, object kind, bytes detail, object trace) except -1:
        trace.on_refused(kind, detail)
        return self._violation(link, kind, detail)

    cdef int _change_headers(self, Message *message, bytes headers) except -1:
        cdef Token header, size
        cdef char header_digits[24]
        cdef char size_digits[24]
        self.changed = headers + message.payload[message.header_length:message.size]
        message.payload = self.changed
        message.header_length = len(headers)
        message.size = len(self.changed)
        header.start = header_digits
        header.length = write_decimal(header_digits, message.header_length)
        size.start = size_digits
        size.length = write_decimal(size_digits, message.size)
        return self.deliveries.write_rest(message, header, size)

    cdef bint _may_publish(self, Link link, Message *message) except -1:
        return link.permissions.allows_publish(message.subject, message.subject_length) \
            or link.responses is not None and link.responses.allows(message.subject[:message.subject_length])

    cdef int _map(self, Link link, Message *message) except -1:
        """Publish to the subject that the account maps this one to."""
        cdef bytes subject = message.subject[:message.subject_length]
        self.mapped = link.interest.mappings.map(subject)
        if self.mapped != subject:
            if link.flags & TRACED:
                link.owner.on_trace('in', b'MAPPING', subject + b' -> ' + self.mapped)
            message.subject = self.mapped
            message.subject_length = <uint32_t> len(self.mapped)
        return 0

    cdef int _violation(self, Link link, object kind, bytes detail) except -1:
        link.owner.on_violation(kind, detail)
        return 0


cdef list split_line(bytes line):
    """The tokens of a SUB or UNSUB line; a CR or LF that got into it separates too."""
    line = line.replace(b'\r', b' ').replace(b'\n', b' ').replace(b'\t', b' ')
    return [token for token in line.split(b' ') if token]
