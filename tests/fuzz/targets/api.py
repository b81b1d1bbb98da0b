"""Requests to the JetStream API of a server in this process, through the real dispatcher, and publishes in
between.

    input     up to MOST_STEPS steps, between bytes of 0xFF
    step      byte 0: which request, or a publish; byte 1: which stream and consumer; rest: the body

Each input begins with one stream S of three messages and one consumer c: those of the input before, if that
one changed nothing. Right is: every request is answered, and no answer is an internal error; a bug is
reported nowhere; at the end the server still answers.
"""

from __future__ import annotations

import os
import pickle
import re
import tempfile
from collections.abc import Generator

import msgspec

from headrace.broker.broker import Broker
from headrace.broker.internal import InternalClient
from headrace.config.options import Options
from headrace.engine.core.sinks import InboxMessage
from headrace.logs import Logger, LogSettings
from headrace.streams.api.routes import ROUTES
from headrace.streams.consumers.consumer import Consumer
from headrace.streams.consumers.deliver_policy import find_start
from headrace.streams.jetstream import JetStream
from headrace.streams.slices import at_once
from headrace.streams.stream import Stream
from tests.fuzz.loop import Loop

MOST_STEPS = 4
API = b"$JS.API."
INBOX = b"_R.%d"
STREAMS = (b"S", b"S", b"S", b"T", b"no")
CONSUMERS = (b"c", b"c", b"d", b"no", b"\xc3x")  # the last is not UTF-8
SUBJECTS = sorted(
    [API + route.pattern.encode() for route in ROUTES]
    + [API + b"DIRECT.GET.*", API + b"DIRECT.GET.*.s.a", b"s.a"]
)
PUBLISH = SUBJECTS.index(b"s.a")
READING = re.compile(rb"INFO|NAMES|LIST|DIRECT|STREAM\.MSG\.GET")
STREAM = {"name": "S", "subjects": ["s.>"], "storage": "memory", "allow_direct": True, "allow_msg_ttl": True,
          "allow_rollup_hdrs": True, "allow_msg_schedules": True, "allow_atomic": True}  # fmt: skip
CONSUMER = {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "explicit"}}
HELLO = b"s.a", b"hello", b""
Asked = tuple[bytes, bytes, bytes]
"""Subject, body and headers of a request."""
Session = Generator[Asked, bytes, None]
"""Asks, and gets the first answer to that; b"" if nobody listens."""


class Errors(Logger):
    """A log that goes nowhere, and keeps the errors."""

    def __init__(self) -> None:
        super().__init__(LogSettings(path=os.devnull))
        self.errors: list[str] = []

    def error(self, text: str) -> None:
        self.errors.append(text)


class Room:
    """The server: without listener and signals, with everything behind them."""

    def __init__(self) -> None:
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        options = Options(
            port=-1,
            jetstream=True,
            store_dir=tempfile.mkdtemp(prefix="headrace-fuzz-", dir=shared),
            jetstream_max_memory=1 << 30,
            jetstream_max_store=1 << 30,
        )
        self.logger = Errors()
        self.broker = Broker(options, self.logger)
        self.jetstream = JetStream(options, self.broker, self.logger)
        (self.account,) = self.jetstream.accounts.values()
        self.client = InternalClient(self.broker.hub, self.broker.interest, self.broker.on_bug)
        self.configs = b""
        """Of S and c when they are new. The server may change what it gets, so it gets copies."""
        self.session: Session | None = None
        self.failure: BaseException | None = None
        self.inbox = b""
        self.asked = 0
        self.is_changed = True

    def start(self) -> None:
        LOOP.serve(self.broker.hub)
        self.jetstream.start()
        assert self.account.api is not None
        self.api = self.account.api
        self.client.subscribe(b"_R.*", self.on_answer)
        self.client.subscribe(b"$JS.EVENT.ADVISORY.API", lambda _: None)  # audits are written only if read

    def on_answer(self, message: InboxMessage) -> None:
        if message.subject == self.inbox:
            self.go_on(message.payload)

    def go_on(self, answer: bytes | None = None) -> None:
        """Ask the next, at the end of the hub's tick, which is when requests of clients arrive, too."""
        assert self.session is not None
        try:
            while True:
                subject, body, headers = self.session.send(answer)  # type: ignore[arg-type]  # None to start it
                self.asked += 1
                self.inbox = INBOX % self.asked
                if self.client.publish(subject, body, reply=self.inbox, headers=headers):
                    return
                answer = b""
        except StopIteration:
            self.session, self.inbox = None, b""
        except BaseException as failure:  # which the client would take for a bug of the server
            self.failure, self.session, self.inbox = failure, None, b""

    def run(self, session: Session) -> None:
        """To its end. If an answer does not come, libFuzzer's patience ends."""
        self.logger.errors.clear()
        self.session = session
        self.broker.hub.defer(self.go_on)
        self.broker.hub.flush()
        LOOP.run_until(lambda: self.session is None)
        if self.failure is not None:
            raise self.failure
        LOOP.run_until(lambda: self.api.in_flight == 0)  # a request has work left after its answer
        assert self.logger.errors == []
        assert LOOP.failures == []

    def reset(self) -> Session:
        for name in list(self.account.streams):
            yield API + b"STREAM.DELETE." + name.encode(), b"", b""
        yield API + b"STREAM.CREATE.S", msgspec.json.encode(STREAM), b""
        yield from (HELLO for _ in range(3))
        yield API + b"CONSUMER.CREATE.S.c", msgspec.json.encode(CONSUMER), b""
        assert list(self.account.streams) == ["S"], self.logger.errors
        assert list(self.account.streams["S"].consumers) == ["c"], self.logger.errors
        stream = self.account.streams["S"]
        self.configs = pickle.dumps((stream.config, stream.consumers["c"].config))

    def renew(self) -> Session:
        """The same without requests, if nothing but S has to go, and nobody works on it: as the server does
        it after the checks, and without the pauses in which it would serve others.
        """
        account, old = self.account, self.account.streams["S"]
        old.delete_consumers()
        old.stop()
        del account.streams["S"]
        at_once(account.resources.remove_subjects(old.config))
        old.log.destroy()
        config, consumer_config = pickle.loads(self.configs)
        stream = account.streams["S"] = Stream(account, config, self.jetstream.now(), None)
        at_once(account.resources.add_subjects(config))
        stream.open()
        stream.start(is_new=True)
        at_once(stream.subscribe())
        yield from (HELLO for _ in range(3))
        start = at_once(find_start(consumer_config, stream.log, config.max_msgs_per_subject))
        consumer = Consumer(stream, "c", consumer_config, self.jetstream.now(), start=start)
        stream.consumers["c"] = consumer
        consumer.start()

    @property
    def is_renewable(self) -> bool:
        streams = self.account.streams
        is_alone = list(streams) == ["S"] and not streams["S"].directory
        return is_alone and not self.jetstream.changing_streams.locked()  # as a backup may at its end

    def step(self, step: bytes) -> Session:
        place, names, body = step[0] % len(SUBJECTS), step[1], step[2:]
        if place == PUBLISH:
            block, _, payload = body.partition(b"\0")
            headers = b"NATS/1.0\r\n" + block + b"\r\n\r\n" if block else b""
            answer = yield b"s.a", payload, headers
            is_reading = False
        else:
            stream, consumer = STREAMS[names % len(STREAMS)], CONSUMERS[names // 16 % len(CONSUMERS)]
            subject = SUBJECTS[place].replace(b"*", stream, 1).replace(b"*", consumer).replace(b">", b"s.a")
            answer = yield subject, body, b""
            is_reading = READING.search(SUBJECTS[place]) is not None
        self.is_changed = self.is_changed or not (is_reading or b'"error":' in answer)
        assert b'"internal error"' not in answer, (answer, self.logger.errors)

    def check(self, steps: list[bytes]) -> Session:
        if self.is_changed:
            yield from self.renew() if self.is_renewable else self.reset()
            self.is_changed = False
            assert list(self.account.streams) == ["S"], self.logger.errors
            assert list(self.account.streams["S"].consumers) == ["c"], self.logger.errors
            assert self.account.streams["S"].log.last_seq == 3
        for step in steps:
            yield from self.step(step)
        assert (yield API + b"INFO", b"", b"")


LOOP = Loop()
ROOM = Room()
ROOM.start()


def check(data: bytes) -> None:
    steps = [step for step in data.split(b"\xff")[:MOST_STEPS] if len(step) >= 2]
    ROOM.run(ROOM.check(steps))
