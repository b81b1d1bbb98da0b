"""Bytes in to bytes out: reading, parsing, delivering and flushing, for all connections, in ticks.

A tick. The event loop calls `Hub.poll` when any socket is ready. Poll asks epoll which ones (one more system call per
tick, but no Python per event, and no per-connection object in the event loop), and for each readable link
  1. reads as much as fits into the one shared buffer (reader.pyx),
  2. parses it to the end (parser.pyx),
  3. appends every message to its receivers' outboxes (deliveries.pyx);
then each outbox that got something is written with one system call (outboxes.pyx). A publisher whose receivers do not
keep up waits (publishers.pyx).

Pace. A poll gives the event loop its turn after POLL_SECONDS. If it finds nothing more to do it may linger for a
moment, and if messages arrive one at a time it may gather some before it reads: see pace.pyx.

The parts, in the order in which they are built; each knows only those before it:

    tick, events    what all of them share: the current tick, and epoll
    slow_consumers  which receivers do not keep up
    outboxes        what links have to send
    publishers      which links are temporarily not read
    deliveries      who gets a message
    parser, reader  from bytes to operations
"""

cimport cython
from cpython.mem cimport PyMem_Free
from libc.stdint cimport uint32_t

from headrace.engine.core.deliveries cimport Deliveries
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport (AWAITING_AUTH, CLOSED, DIRTY, GATHERS, GREETING, NO_HEADERS, PAUSED, PEDANTIC,
                                        SOURCE, UNREAD, VERBOSE, WANTS_WRITE, Link, LinkHost)
from headrace.engine.core.message cimport Message, fill_message
from headrace.engine.core.outboxes cimport Outboxes
from headrace.engine.core.pace cimport Pace
from headrace.engine.core.parser cimport Parser
from headrace.engine.core.publishers cimport Publishers
from headrace.engine.core.reader cimport Reader
from headrace.engine.basics.system cimport EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, epoll_event, epoll_wait, monotonic
from headrace.engine.core.slow_consumers cimport SlowConsumers
from headrace.engine.core.tick cimport EventQueue, Tick, tell_owner
from headrace.engine.core.transport cimport UNREAD_INSIDE, SocketTransport, Transport
from headrace.engine.basics.wide_map cimport WideMap

DEF MAX_EVENTS = 256
cdef double POLL_SECONDS = 0.003             # after which the event loop gets its turn


@cython.final
cdef class Hub(LinkHost):
    """All links of a server. Poll it whenever `fileno()` is readable; call `flush` after sending outside of a poll.

    The owner of a link decides. It is called, always from within `poll`, with
      on_greeting() while the link is greeting, whenever there is something to read,
      on_connect(json), on_subscribe(subject, queue or None, sid), on_unsubscribe(sid, maximum or -1), on_info(json),
      on_pong(), on_first_ping() (the PONG is already in the outbox), on_early_operation() (before authentication),
      on_violation(kind, detail), on_trace(direction, operation, argument), on_bug(exception),
      on_traced(subject, headers, size) and on_oversized(...) for messages whose headers ask for a trace (parser.pyx),
      on_closed(reason) once the socket is closed.
    """

    def __cinit__(self, *, long long max_payload, long long max_pending, Py_ssize_t max_control_line):
        self.links = {}
        self.sources = {}
        self.tick = Tick()
        self.events = EventQueue()
        self.slow_consumers = SlowConsumers(self.tick)
        self.outboxes = Outboxes(self.tick, self.events, self.slow_consumers)
        self.publishers = Publishers(self.tick, self.events, self.slow_consumers, self.outboxes, self.links)
        self.deliveries = Deliveries(self.outboxes, self.slow_consumers)
        self.parser = Parser(self.tick, self.deliveries, self.outboxes, self.publishers)
        self.reader = Reader(self.tick, self.publishers, self.parser)
        self.pace = Pace()
        self.max_payload = max_payload
        self.max_pending = max_pending
        self.max_control_line = max_control_line

    def fileno(self):
        return self.events.epoll

    # -- limits and counters ------------------------------------------------------------------------------------

    @property
    def max_payload(self):
        return self.parser.max_payload

    @max_payload.setter
    def max_payload(self, long long limit):
        self.parser.max_payload = limit

    @property
    def max_control_line(self):
        return self.parser.control_line_limit

    @max_control_line.setter
    def max_control_line(self, Py_ssize_t limit):
        self.reader.set_control_line_limit(limit)

    @property
    def max_pending(self):
        return self.slow_consumers.pending_limit

    @max_pending.setter
    def max_pending(self, long long limit):
        self.slow_consumers.set_limits(limit, self.slow_consumers.drops)

    @property
    def never_waits(self):
        """Publishers do not wait: messages for a receiver with 75 % of max_pending queued are dropped."""
        return self.slow_consumers.drops

    @never_waits.setter
    def never_waits(self, bint never):
        self.slow_consumers.set_limits(self.slow_consumers.pending_limit, never)

    @property
    def on_bug(self):
        """Called with an exception that a deferred action or a source raised."""
        return self.tick.on_bug

    @on_bug.setter
    def on_bug(self, action):
        self.tick.on_bug = action

    @property
    def in_msgs(self):
        return self.parser.in_msgs

    @property
    def in_bytes(self):
        return self.parser.in_bytes

    @property
    def out_msgs(self):
        return self.deliveries.out_msgs

    @property
    def out_bytes(self):
        return self.deliveries.out_bytes

    @property
    def stalls(self):
        """How often publishers had to wait."""
        return self.publishers.stalls

    # -- links and sources --------------------------------------------------------------------------------------

    def attach(self, int fd, owner, Transport transport=None, *, bint greets=False):
        """Serve a connected, non-blocking socket, and eventually close it. The link accepts only CONNECT until `join`.

        Its bytes come from and go to `transport`; by default, that is the socket as it is.
        A greeting link does not read: its owner first agrees with the peer on a transport, until `end_greeting`.
        """
        cdef Link link = Link.__new__(Link)
        link.fd = fd
        link.transport = SocketTransport(fd) if transport is None else transport
        link.flags = AWAITING_AUTH | VERBOSE | PEDANTIC | NO_HEADERS     # until CONNECT says otherwise
        if link.transport.gathers:
            link.flags |= GATHERS
        if greets:
            link.flags |= GREETING
        link.hub = self
        link.owner = owner
        link.subscriptions = WideMap()
        link.active_at = link.written_at = monotonic()
        self.links[fd] = link          # first: epoll has only a pointer to it
        try:
            self.events.add(link)
        except OSError:
            del self.links[fd]
            link.transport.close()
            raise
        return link

    def add_source(self, int fd, action):
        """Call `action()` in a poll whenever the descriptor is readable. The caller keeps ownership of it."""
        cdef Link link = Link.__new__(Link)
        link.fd = fd
        link.flags = SOURCE
        link.hub = self
        link.owner = action
        self.sources[fd] = link        # first: epoll has only a pointer to it
        try:
            self.events.add(link)
        except OSError:
            del self.sources[fd]
            raise

    def remove_source(self, int fd):
        self.events.remove(fd)
        del self.sources[fd]

    cdef int send(self, Link link, bytes data) except -1:
        return self.outboxes.append(link, data, len(data), NULL, 0)

    cdef int hold(self, Link link) except -1:
        link.flags |= PAUSED
        return self.events.update(link)

    cdef int resume(self, Link link) except -1:
        link.flags &= ~(<uint32_t> PAUSED)
        self.events.update(link)
        if link.transport.inside & UNREAD_INSIDE:
            self.tick.read_again(link)
        return self.reader.parse_partial(link)

    cdef int resume_held(self, Link link) except -1:
        if self.tick.running:
            raise RuntimeError("a link is resumed outside of a poll")
        if link.flags & PAUSED and not link.flags & CLOSED:
            self.tick.running = True
            try:
                self.resume(link)
            except Exception as error:
                self.tick.report_bug(link, error)
            finally:
                self.tick.running = False
        self.flush()
        return 0

    cdef int await_greeting(self, Link link, bint writable) except -1:
        if writable == bool(link.flags & PAUSED):        # a WANTS_WRITE without PAUSED is for the outbox
            return 0
        if writable:
            link.flags |= WANTS_WRITE | PAUSED
        else:
            link.flags &= ~(<uint32_t> (WANTS_WRITE | PAUSED))
        return self.events.update(link)

    cdef int end_greeting(self, Link link, Transport transport) except -1:
        self.await_greeting(link, False)
        link.flags &= ~(<uint32_t> GREETING)
        if transport is not None:
            link.transport = transport
            link.flags = link.flags | GATHERS if transport.gathers else link.flags & ~(<uint32_t> GATHERS)
        return 0

    cdef int close_link(self, Link link, object reason) except -1:
        return self.tick.close_link(link, reason)

    cdef int at_end_of_tick(self, object action) except -1:
        self.tick.deferred.append(action)
        return 0

    # -- from within the process --------------------------------------------------------------------------------

    def publish(self, Interest interest not None, bytes subject not None, bytes payload not None,
                bytes reply=b'', bytes headers=b'', *, bytes shown=None, bint past_shadows=False):
        """A message from within this process, delivered at once. Returns whether anybody got it.

        It is delivered as if it had been published to `shown`, if that is given. `past_shadows`: not to importers
        of the subject in other accounts.

        Call it at the end of a tick (`defer`) or outside of one, then `flush`; never while a message is delivered.
        """
        cdef Message message
        cdef bytes body = headers + payload
        fill_message(&message, subject, reply, len(headers), body)
        if shown is not None:
            message.subject = shown
            message.subject_length = <uint32_t> len(shown)
            return bool(self.deliveries.send_to(interest, subject, <uint32_t> len(subject), &message))
        if past_shadows:
            return bool(self.deliveries.send_past_shadows(interest, &message))
        return bool(self.deliveries.send_message(interest, &message))

    def publish_traced(self, trace, Interest interest not None, bytes subject not None, bytes payload not None,
                       bytes reply=b'', bytes headers=b'', *, bytes shown=None):
        """The same past shadows, for a message that is being traced."""
        cdef Message message
        cdef bytes body = headers + payload
        cdef bytes seen = subject if shown is None else shown
        cdef bint delivered
        fill_message(&message, seen, reply, len(headers), body)
        delivered = self.parser.traced_deliveries.send(None, interest, subject, <uint32_t> len(subject), &message, trace,
                                                       True)
        self.deliveries.met_critical = self.deliveries.overran = False
        return delivered

    def defer(self, action):
        """Call `action()` at the end of the tick; it may publish and subscribe. Outside of a tick, call `flush`."""
        self.tick.deferred.append(action)

    # -- ticks --------------------------------------------------------------------------------------------------

    def poll(self):
        """Handle whatever is ready. Returns soon, so that the event loop can serve others."""
        cdef epoll_event events[MAX_EVENTS]
        cdef int count, handled, k
        cdef long long messages
        cdef bint ticked = False
        cdef Tick tick = self.tick
        tick.start(POLL_SECONDS)
        try:
            while tick.now < tick.ends:
                self.pace.gather()
                count = epoll_wait(self.events.epoll, events, MAX_EVENTS, 0)
                if count == 0 and ticked and not tick.unread:
                    count = self.pace.linger(self.events.epoll, events, MAX_EVENTS)
                if count <= 0 and not tick.unread:
                    break
                ticked = True
                messages = self.parser.in_msgs
                for handled in range(count):
                    if handled and monotonic() > tick.ends:
                        break
                    # epoll reports links that are still ready in the same order again: start where we stopped.
                    k = <int> (self.turn % count)
                    self.turn += 1
                    if events[k].data.ptr == NULL:
                        self.events.acknowledge_timer()
                    else:
                        self._handle_event(<Link> events[k].data.ptr, events[k].events)
                if tick.unread:
                    self._read_again()
                tick.now = monotonic()
                self.pace.watch(tick.now, self.parser.in_msgs - messages, self.parser.in_msgs)
                self._end_tick(in_poll=True)
        finally:
            tick.running = False

    cdef int _handle_event(self, Link link, unsigned int what) except -1:
        try:
            if link.flags & (SOURCE | GREETING):
                return self._call_owner(link)
            if what & EPOLLOUT and not link.flags & CLOSED:
                self.outboxes.flush_link(link)
            if what & (EPOLLERR | EPOLLHUP) and not link.flags & CLOSED:
                self._hung_up(link)
            elif what & EPOLLIN and not link.flags & CLOSED:
                self.reader.readable(link)
        except Exception as error:
            if link.flags & SOURCE:
                self.tick.report(error)
            else:
                self.tick.report_bug(link, error)
        return 0

    cdef int _read_again(self) except -1:
        """Receive what is buffered inside transports: once each, as if epoll had reported them."""
        cdef Link link
        cdef list unread = self.tick.unread
        cdef Py_ssize_t k
        self.tick.unread = []
        for k in range(len(unread)):
            link = <Link> unread[k]
            if k and monotonic() > self.tick.ends:
                self.tick.unread = unread[k:] + self.tick.unread
                break
            link.flags &= ~(<uint32_t> UNREAD)
            if not link.flags & (CLOSED | PAUSED):      # a paused one is read when it resumes
                self._handle_event(link, EPOLLIN)
        return 0

    cdef int _call_owner(self, Link link) except -1:
        if link.flags & SOURCE:
            link.owner()
        elif not link.flags & CLOSED:
            link.owner.on_greeting()
            if not link.flags & (GREETING | CLOSED):
                self.reader.readable(link)       # its transport may have read further than the greeting
        return 0

    cdef int _hung_up(self, Link link) except -1:
        """The peer is gone, which epoll reports even for a paused link: read what it sent before."""
        if link.flags & PAUSED:
            self.resume(link)
        if link.flags & (CLOSED | PAUSED):
            return 0
        return self.reader.read(link)

    def flush(self):
        """Write what was sent outside of a poll, and close what was closed there. Within a poll this does nothing.

        Publishers that wait for their turn get it in the next poll. When flush resumed them, a thousand timers that each
        sent a PING and flushed blocked the loop for half a second.
        """
        if not self.tick.running:
            self.tick.start(POLL_SECONDS)
            try:
                self._end_tick(in_poll=False)
            finally:
                self.tick.running = False

    def flush_soon(self):
        """Make the next poll write what was sent outside of one, and run what was deferred there."""
        if not self.tick.running:
            self.events.wake_soon()

    def tidy(self, double deadline):
        """Close the links whose socket has accepted too little for `deadline` seconds; free buffers not in use."""
        cdef Link link
        cdef double now = monotonic()
        for link in self.links.values():
            self.slow_consumers.check_deadline(link, now, deadline)
        self.outboxes.backlogs.trim()
        self.flush()

    def close(self):
        """Close every link and the hub's own descriptors."""
        cdef Link link
        for link in self.links.values():
            self.tick.close_link(link, 'Server Shutdown')
        self.flush()
        self.events.close()

    cdef int _end_tick(self, bint in_poll) except -1:
        cdef Tick tick = self.tick
        tick.run_deferred()
        self.outboxes.flush_all()
        if in_poll:
            self.publishers.resume_ready()
        else:
            self.publishers.set_timer_again()
        while tick.first_closing != NULL or tick.deferred:
            self._reap()
            if tick.deferred and monotonic() > tick.ends:
                return self.events.wake_soon()
            tick.run_deferred()
            self.outboxes.flush_all()
        if self.events.woken_early:
            self.events.woken_early = False
            self.publishers.set_timer_again()
        if tick.unread:
            self.events.wake_soon()
        return 0

    # -- the end of a link --------------------------------------------------------------------------------------

    cdef int _reap(self) except -1:
        """Really close what was closed in this tick: no route that contains it is being walked any more."""
        cdef Link link
        while self.tick.first_closing != NULL:
            link = <Link> self.tick.first_closing
            if link.flags & DIRTY:
                self.outboxes.flush_all()
            try:
                link.unsubscribe_some()
            except MemoryError:
                self.events.wake_soon()         # it stays in the chain, and a later tick tries again
                raise
            self.tick.first_closing = link.next_closing
            self._reap_link(link)
        return 0

    cdef int _reap_link(self, Link link) except -1:
        self.slow_consumers.ignore(link)
        link.flags &= ~(<uint32_t> (WANTS_WRITE | PAUSED))
        self.events.remove(link.fd)
        if link.backlog_head == link.backlog_tail:       # otherwise these would not be the last bytes
            link.transport.say_goodbye(link.close_reason)
        link.transport.close()
        del self.links[link.fd]
        link.fd = -1
        self.outboxes.backlogs.free(link)
        PyMem_Free(link.partial)
        link.partial = NULL
        link.partial_length = link.frame_total = 0
        if link.waiters is not None:
            self.tick.deferred.extend(link.waiters)
            link.waiters = None
        try:
            link.owner.on_closed(link.close_reason)
        except Exception as error:
            tell_owner(link.owner, error)
        return 0
