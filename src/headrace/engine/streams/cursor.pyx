"""The position of a consumer in its stream, and the delivery of the next messages.

Python decides who gets how many messages and calls `deliver` once for a batch; the loop here finds the messages in
the log, writes the frames into the receiver's outbox and records what waits for an acknowledgement.

A batch ends early when the receiver's outbox is full (`blocked`). It is written at the end of the tick, and when the
socket has accepted all of it `wake` is called, so a consumer never fills memory with what a slow client does not read.
It also ends early when the filter had to skip very many messages, or when those of the other consumers had in this tick:
a thousand may look for theirs among the same messages. It does not begin before it is known how many messages are
pending, which each message says.
"""

from cpython.mem cimport PyMem_Free
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from headrace.engine.basics.decimals cimport write_decimal
from headrace.engine.basics.filters cimport Filter
from headrace.engine.core.hub cimport Hub
from headrace.engine.core.interest cimport Interest
from headrace.engine.core.link cimport Link, backlog_length
from headrace.engine.store.log cimport Log
from headrace.engine.core.message cimport Message
from headrace.engine.streams.pending cimport Pending
from headrace.engine.store.store cimport NOTHING, TIRED, Watcher
from headrace.engine.segments.windows cimport Record, Window

cdef Py_ssize_t FULL_OUTBOX = 512 * 1024
cdef uint64_t MOST_PASSED_OVER = 8192        # messages of other subjects, in one call
DEF REPLY_SIZE = 1024
DEF NUMBERS_SIZE = 5 * 21                    # what follows the prefix of an acknowledgement's subject


cdef class Cursor(Watcher):
    """See cursor.pyi."""

    def __init__(self, Hub hub not None, Interest interest not None, Log log not None, Filter filter not None,
                 wake, *, bytes ack_prefix not None, bint headers_only=False):
        if len(ack_prefix) + NUMBERS_SIZE > REPLY_SIZE:
            raise ValueError('the names of the stream and the consumer are too long')
        self.hub = hub
        self.deliveries = hub.deliveries
        self.interest = interest
        self.log = log
        self.filter = filter
        self.wake = wake
        self.ack_prefix = ack_prefix
        self.headers_only = headers_only
        self.pending = Pending()
        self.window = Window()
        self.prefix_length = len(ack_prefix)
        memcpy(self.reply, <const char *> ack_prefix, self.prefix_length)

    def deliver(self, bytes destination not None, *, long long count, long long max_bytes=0, int64_t now=0,
                bytes extra_headers=b''):
        """Deliver up to `count` of the next messages, `max_bytes` in all (0: no limit); (messages, bytes) delivered.

        Raises OSError if the next one cannot be read; then nothing was delivered, and nothing has changed.
        """
        cdef Record record
        cdef Message message
        cdef long long delivered = 0, total = 0, size
        cdef Py_ssize_t reply_length
        cdef bytes changed = None
        cdef bint slow = self.headers_only or bool(extra_headers)
        cdef uint64_t place, allowed = min(MOST_PASSED_OVER, self.hub.tick.looks), looks = allowed
        cdef int outcome
        self.blocked = self.exceeded = self.unwanted = False
        if self.is_counting():
            self.blocked = True              # whoever counts wakes us
            return 0, 0
        try:
            while delivered < count:
                place = self.next_seq
                outcome = self.log.store.search(self.window, &place, self.filter, &looks, &record)
                if outcome == TIRED:
                    self.next_seq = place
                    self._go_on_later()
                    break
                if outcome == NOTHING:
                    self.next_seq = max(self.next_seq, self.log.store.committed_seq + 1)
                    self.num_pending = 0       # damaged messages were skipped, and had counted until now
                    break
                looks += 1
                reply_length = self._write_reply(1, &record, self.delivered_seq + 1, self.num_pending - 1)
                message.reply = self.reply
                message.reply_length = <uint32_t> reply_length
                if slow:
                    changed = self._changed(&record, extra_headers)
                self._fill(&record, changed, &message)
                size = message.size + message.subject_length + reply_length
                if max_bytes and total + size > max_bytes:
                    self.exceeded = True
                    break
                if self.deliveries.send_to(self.interest, destination, <uint32_t> len(destination), &message) == 0:
                    self.unwanted = True
                    break
                delivered += 1
                total += size
                self._move_past(record.seq, now)
                if self.deliveries.fullest_bytes > FULL_OUTBOX:
                    self._look_at_outbox()
                    break
        except (OSError, MemoryError):
            if delivered == 0:
                raise              # the caller tries again; what was delivered before counts
        self.hub.tick.looks -= min(self.hub.tick.looks, allowed - looks)
        return delivered, total

    def redeliver(self, uint64_t seq, bytes destination not None, uint64_t deliveries, *, long long max_bytes=0,
                  int64_t now=0, bytes extra_headers=b''):
        """Redeliver a message, as its delivery number `deliveries`. Returns its size; 0 if it is gone."""
        cdef Record record
        cdef Message message
        cdef bytes changed = None
        cdef long long size
        self.blocked = self.exceeded = self.unwanted = False
        if not self.log.store.read(self.window, seq, &record):
            return 0
        message.reply = self.reply
        message.reply_length = <uint32_t> self._write_reply(deliveries, &record, self.delivered_seq + 1,
                                                            self.num_pending)
        if self.headers_only or extra_headers:
            changed = self._changed(&record, extra_headers)
        self._fill(&record, changed, &message)
        size = message.size + message.subject_length + message.reply_length
        if max_bytes and size > max_bytes:
            self.exceeded = True
            return size
        if self.deliveries.send_to(self.interest, destination, <uint32_t> len(destination), &message) == 0:
            self.unwanted = True
            return size
        self.delivered_seq += 1
        if self.track:
            self.pending.add(record.seq, self.delivered_seq, now)
        if self.deliveries.fullest_bytes > FULL_OUTBOX:
            self._look_at_outbox()
        return size

    def release(self):
        """Free the read-ahead buffer: nothing will be delivered for a while."""
        self.window.release()

    cdef int _move_past(self, uint64_t seq, int64_t time) except -1:
        """The next message was delivered."""
        self.delivered_seq += 1
        self.num_pending -= 1
        self.next_seq = seq + 1
        self.last_delivered = seq
        if self.track:
            self.pending.add(seq, self.delivered_seq, time)
        return 0

    cdef int _look_at_outbox(self) except -1:
        """Try to write a full outbox at once; if the socket does not accept it all, wait until it has."""
        cdef Link receiver = self.deliveries.fullest
        self.hub.outboxes.flush_link(receiver)
        if backlog_length(receiver) > 0:
            self.blocked = True
            receiver.when_drained(self.wake)
        else:
            self._go_on_later()
        return 0

    cdef int _go_on_later(self) except -1:
        """Others get a turn first."""
        self.blocked = True
        self.hub.tick.deferred.append(self.wake)
        self.hub.flush_soon()
        return 0

    cdef Py_ssize_t _write_reply(self, uint64_t deliveries, Record *record, uint64_t consumer_seq,
                                 long long pending) noexcept:
        cdef char *at = self.reply + self.prefix_length
        at += write_decimal(at, deliveries)
        at[0] = c'.'
        at += 1
        at += write_decimal(at, record.seq)
        at[0] = c'.'
        at += 1
        at += write_decimal(at, consumer_seq)
        at[0] = c'.'
        at += 1
        at += write_decimal(at, record.time)
        at[0] = c'.'
        at += 1
        at += write_decimal(at, pending if pending > 0 else 0)
        return at - self.reply

    cdef int _fill(self, Record *record, bytes changed, Message *message) except -1:
        message.subject = record.subject
        message.subject_length = record.subject_length
        if changed is None:
            message.payload = record.headers
            message.header_length = record.header_length
            message.size = record.header_length + record.payload_length
        else:
            message.payload = changed
            message.size = len(changed)
            message.header_length = len(changed) if self.headers_only else len(changed) - record.payload_length
        return 0

    cdef bytes _changed(self, Record *record, bytes extra_headers):
        """The headers followed by `extra_headers`, then the payload, or its size as a header instead of it."""
        cdef bytes lines = record.headers[:record.header_length - 2] if record.header_length > 2 else b'NATS/1.0\r\n'
        lines += extra_headers
        if self.headers_only:
            return lines + b'Nats-Msg-Size: %d\r\n\r\n' % record.payload_length
        return lines + b'\r\n' + record.payload[:record.payload_length]
