"""Direct get: messages straight from a stream, with their metadata in headers instead of JSON.

A request to `$JS.API.DIRECT.GET.<stream>` has a body, one to `$JS.API.DIRECT.GET.<stream>.<subject>` asks for
the last message of a subject. A request may ask for several messages, which end with a message without
payload and with status 204. Mirrors with `mirror_direct` answer for their origin, too; a queue group picks
who does.

The plainest requests, which key-value stores send, are answered by the engine (engine/streams/last_gets.pyx).
All others are handled here. Even a short response may take a long search, and there may be many, so all of
them run in slices (slices.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from headrace.broker.internal import Handler, InternalClient
from headrace.engine.basics.filters import Filter
from headrace.engine.core.sinks import InboxMessage
from headrace.engine.store.log import Log
from headrace.engine.store.readings import Stored
from headrace.engine.store.store import Watcher
from headrace.engine.streams.last_gets import LastGets
from headrace.streams import headers
from headrace.streams.api.json_requests import decode
from headrace.streams.api.message_lookup import MessageGetRequest, find_last
from headrace.streams.errors import ApiError
from headrace.streams.formats import format_time, parse_store_time
from headrace.streams.slices import STEP_RECORDS, Slices
from headrace.subjects.grammar import encode

QUEUE = b"_sys_"
SUBJECT = b"$JS.API.DIRECT.GET."
SUBJECT_TOKENS = 5  # of the subject, up to and including the stream's name
MOST_MULTI_RESULTS = 1024
STEP_MESSAGES = 20
"""Sent at a time; about half a millisecond."""
EVERYTHING = Filter(())


@dataclass
class Batch:
    """A request for several messages, and the progress of its response."""

    request: MessageGetRequest
    reply: bytes
    filter: Filter
    seq: int
    counted: Watcher = field(default_factory=Watcher)
    """Counts the messages before the first is sent."""
    pending: int = 0
    last_seq: int = 0
    sent: int = 0
    sent_bytes: int = 0
    up_to: int = 0
    echoed: int = 0
    """As in the request, so possibly beyond the end."""
    last: dict[bytes, int] = field(default_factory=dict)
    """For a request for the last messages of several subjects: those that were found."""
    place: int = 0
    """Where to look for more of them in the index."""
    search: Iterator[None] = field(default_factory=lambda: iter(()))
    """For a request for the last message of one subject."""
    seqs: Iterator[int] = field(default_factory=lambda: iter(()))
    """Those that are still to be sent."""


class DirectGet:
    """Answers for one stream. `max_bytes` is how much one request gets unless it asks for less.

    `when_current` is for requests to the origin of a mirror: it calls its argument when the mirror has all
    that the origin has.
    """

    def __init__(
        self,
        name: str,
        log: Log,
        slices: Slices,
        client: InternalClient,
        max_bytes: int,
        *,
        when_current: Callable[[Callable[[], None]], None],
    ) -> None:
        self._name = name.encode()
        self._when_current = when_current
        self._log = log
        self._slices = slices
        self._client = client
        self._max_bytes = max_bytes
        self._subscriptions: dict[str, list[int]] = {}
        self._last_gets = LastGets(
            client.hub,
            client.interest,
            log,
            self._name,
            client.each(self._once_committed(self.on_last_by_subject)),
            self._fail,
        )

    def serve(self, names: set[str]) -> None:
        """Answer for streams of these names, and no others."""
        for name in set(self._subscriptions) - names:
            for handle in self._subscriptions.pop(name):
                self._client.unsubscribe(handle)
            if name.encode() == self._name:
                self._last_gets.unsubscribe_all()
        for name in names - set(self._subscriptions):
            subject = SUBJECT + name.encode()
            if name.encode() == self._name:
                handler = self._once_committed(self.on_request)
                self._last_gets.subscribe(subject + b".>", QUEUE, b"1")
                self._subscriptions[name] = [self._client.subscribe(subject, handler, queue=QUEUE)]
                continue
            self._subscriptions[name] = [
                self._client.subscribe(subject, self._once_current(self.on_request), queue=QUEUE),
                self._client.subscribe(
                    subject + b".>", self._once_current(self.on_last_by_subject), queue=QUEUE
                ),
            ]

    # -- requests

    def _once_committed(self, handler: Handler) -> Handler:
        """Wait until earlier publishes are on disk: they are part of the response."""

        def answer(message: InboxMessage) -> None:
            try:
                handler(message)
            except OSError as error:
                self._fail(message.reply, error)

        def handle(message: InboxMessage) -> None:
            if self._log.committed_seq == self._log.last_seq:
                answer(message)
            else:
                self._log.when_committed(lambda _: answer(message))

        return handle

    def _once_current(self, handler: Handler) -> Handler:
        """The same for requests to the origin."""
        handle = self._once_committed(handler)
        return lambda message: self._when_current(lambda: handle(message))

    def _fail(self, reply: bytes, error: OSError) -> None:
        """Answer that the stream cannot be read at present, which is not the same as a missing message."""
        reason = " ".join((error.strerror or str(error)).split())
        self._status(reply, b"500 " + reason.encode("utf-8", "replace"))

    def on_request(self, message: InboxMessage) -> None:
        request = self._read(message, may_be_empty=False)
        if request is None:
            return
        if request.asks_for_nothing:
            self._status(message.reply, b"408 Empty Request")
        elif request.contradicts_itself:
            self._status(message.reply, b"408 Bad Request")
        elif request.multi_last:
            self._multi(request, message.reply)
        else:
            self._get(request, message.reply)

    def on_last_by_subject(self, message: InboxMessage) -> None:
        request = self._read(message, may_be_empty=True)
        if request is None:
            return
        subject = message.subject.split(b".", SUBJECT_TOKENS)[-1]
        if not request.asks_for_nothing or request.batch or request.up_to_seq or request.up_to_time:
            self._status(message.reply, b"408 Bad Request")
            return
        request.last_by_subj = subject.decode("utf-8", "surrogateescape")
        self._get(request, message.reply)

    def _read(self, message: InboxMessage, *, may_be_empty: bool) -> MessageGetRequest | None:
        """The request; None if it has been answered, or needs no response."""
        if not message.reply:
            return None
        if headers.is_level_too_high(message.headers):
            self._status(message.reply, b"412 Required Api Level")
        elif not message.payload and not may_be_empty:
            self._status(message.reply, b"408 Empty Request")
        else:
            try:
                return decode(message.payload, MessageGetRequest, strict=False)
            except ApiError:
                self._status(message.reply, b"408 Malformed Request")
        return None

    # -- one message, or the next few

    def _get(self, request: MessageGetRequest, reply: bytes) -> None:
        log = self._log
        seq = log.seek_time(parse_store_time(request.start_time)) if request.start_time else request.seq
        filter_ = Filter((encode(request.next_by_subj),)) if request.next_by_subj else EVERYTHING
        batch = Batch(request, reply, filter_, seq)
        if request.last_by_subj and request.batch == 0:
            batch.search = find_last(log, request.last_by_subj)
            self._begin(self._send_last, batch)
        elif request.batch == 0:
            self._begin(self._send_one, batch)
        else:
            self._begin(self._begin_to_count, batch)

    def _begin_to_count(self, batch: Batch) -> bool:
        """Each message says how many are pending, so count them first."""
        batch.counted.next_seq, batch.counted.filter = batch.seq, batch.filter
        self._log.begin_to_watch(batch.counted)
        self._begin(self._count, batch)
        return True

    def _count(self, batch: Batch) -> bool:
        if not self._log.count_ahead(batch.counted, STEP_RECORDS):
            return False
        self._log.remove_watcher(batch.counted)
        batch.pending = max(batch.counted.num_pending, 0)
        if batch.request.batch > 0:
            self._begin(self._send_some, batch)
        else:
            self._end(batch.reply, batch.pending, 0)
        return True

    def _begin(self, step: Callable[[Batch], bool], batch: Batch) -> None:
        """Run it in slices; it ends if the stream is deleted or nobody listens any more."""
        is_first = True

        def step_while_wanted() -> bool:
            nonlocal is_first
            if is_first or (self._subscriptions and self._client.has_interest(batch.reply)):
                is_first = False
                try:
                    return step(batch)
                except OSError as error:
                    self._fail(batch.reply, error)
            self._log.remove_watcher(batch.counted)
            return True

        self._slices.add(step_while_wanted)

    def _send_one(self, batch: Batch) -> bool:
        message, next_seq = self._find(batch, exactly=True)
        if next_seq:
            batch.seq = next_seq
            return False
        self._send(batch, message)
        return True

    def _send_last(self, batch: Batch) -> bool:
        try:
            next(batch.search)
        except StopIteration as end:
            self._send(batch, end.value)
            return True
        return False

    def _send(self, batch: Batch, message: Stored | None) -> None:
        if message is None:
            self._status(batch.reply, b"404 Message Not Found")
        else:
            block = b"" if batch.request.no_hdr else self._headers(message, None)
            self._client.publish(batch.reply, message.payload, headers=block)

    def _send_some(self, batch: Batch) -> bool:
        request = batch.request
        for _ in range(STEP_MESSAGES):
            message, next_seq = self._find(batch, exactly=False)
            if next_seq:
                batch.seq = next_seq
                return False
            if message is None:
                if request.batch > 1 and batch.sent:
                    break
                self._status(batch.reply, b"404 Message Not Found")
                return True
            batch.seq = message.seq + 1
            block = b""
            if not request.no_hdr:  # nats-server counts only headers that it writes
                batch.pending = max(batch.pending - 1, 0)
                block = self._headers(message, (batch.pending, batch.last_seq))
            batch.last_seq = message.seq
            self._client.publish(batch.reply, message.payload, headers=block)
            batch.sent += 1
            batch.sent_bytes += len(message.subject) + len(message.headers) + len(message.payload)
            if batch.sent == request.batch or batch.sent_bytes >= (request.max_bytes or self._max_bytes):
                break
        else:
            return False
        self._end(batch.reply, batch.pending, batch.last_seq)
        return True

    def _find(self, batch: Batch, *, exactly: bool) -> tuple[Stored | None, int]:
        """The next message, None if there is none; or the sequence to continue the search from later."""
        log, request = self._log, batch.request
        if not request.next_by_subj and exactly:
            return log.get(batch.seq) if batch.seq <= log.committed_seq else None, 0
        return log.look_for(batch.seq, batch.filter, STEP_RECORDS)

    # -- the last message of several subjects

    def _multi(self, request: MessageGetRequest, reply: bytes) -> None:
        log = self._log
        up_to = request.up_to_seq
        if request.up_to_time is not None:
            up_to = log.seek_time(parse_store_time(request.up_to_time))
            if up_to <= log.first_seq:
                self._status(reply, b"404 No Results")
                return
            up_to -= 1
        echoed = up_to or log.last_seq
        up_to = min(echoed, log.last_seq)
        filter_ = Filter(tuple(encode(pattern) for pattern in request.multi_last))
        batch = Batch(request, reply, filter_, up_to + 1, up_to=up_to, echoed=echoed)
        self._begin(self._look_in_index, batch)

    def _look_in_index(self, batch: Batch) -> bool:
        seq, batch.place = self._log.first_up_to(
            batch.last, batch.filter, batch.up_to, batch.place, STEP_RECORDS
        )
        batch.seq = min(batch.seq, seq)
        if batch.place < self._log.places(batch.filter) and len(batch.last) <= MOST_MULTI_RESULTS:
            return False
        self._begin(self._look_for_last, batch)
        return True

    def _look_for_last(self, batch: Batch) -> bool:
        """For subjects with newer messages, a pass through the older ones finds the last of each."""
        if batch.seq <= batch.up_to and len(batch.last) <= MOST_MULTI_RESULTS:
            batch.seq = self._log.note_last(batch.last, batch.filter, batch.seq, batch.up_to, STEP_RECORDS)
            return False
        self._send_multi(batch)
        return True

    def _send_multi(self, batch: Batch) -> None:
        reply = batch.reply
        seqs = sorted(batch.last.values())
        if len(seqs) > MOST_MULTI_RESULTS:
            self._status(reply, b"413 Too Many Results")
            return
        if not seqs:
            self._status(reply, b"404 No Results")
            return
        batch.pending, batch.seqs = len(seqs), iter(seqs)
        self._begin(self._send_found, batch)

    def _send_found(self, batch: Batch) -> bool:
        request = batch.request
        for seq in islice(batch.seqs, STEP_MESSAGES):
            batch.pending -= 1
            message = self._log.get(seq) if seq >= request.seq else None
            if message is None:
                continue
            block = self._headers(message, (batch.pending, batch.last_seq))
            self._client.publish(batch.reply, message.payload, headers=block)
            batch.last_seq = seq
            batch.sent_bytes += len(message.subject) + len(message.headers) + len(message.payload)
            batch.sent += 1
            if batch.sent_bytes >= (request.max_bytes or self._max_bytes) or batch.sent == request.batch:
                break
        else:
            if batch.pending:
                return False
        self._end(batch.reply, batch.pending, batch.last_seq, batch.echoed)
        return True

    # -- sending

    def _headers(self, message: Stored, progress: tuple[int, int] | None) -> bytes:
        """The message's own headers and its metadata; `progress`: messages to come, sequence before."""
        lines = [
            (b"Nats-Stream", self._name),
            (b"Nats-Subject", message.subject),
            (b"Nats-Sequence", b"%d" % message.seq),
            (b"Nats-Time-Stamp", format_time(message.time).encode()),
        ]
        if progress:
            lines += [
                (b"Nats-Num-Pending", b"%d" % progress[0]),
                (b"Nats-Last-Sequence", b"%d" % progress[1]),
            ]
        block = message.headers or b"NATS/1.0\r\n\r\n"
        return block[:-2] + b"".join(b"%b: %b\r\n" % line for line in lines) + b"\r\n"

    def _status(self, reply: bytes, status: bytes) -> None:
        self._client.publish(reply, headers=b"NATS/1.0 " + status + b"\r\n\r\n")

    def _end(self, reply: bytes, pending: int, last_seq: int, up_to: int = 0) -> None:
        lines = b"Nats-Num-Pending: %d\r\nNats-Last-Sequence: %d\r\n" % (pending, last_seq)
        if up_to:
            lines += b"Nats-UpTo-Sequence: %d\r\n" % up_to
        self._client.publish(reply, headers=b"NATS/1.0 204 EOB\r\n" + lines + b"\r\n")
