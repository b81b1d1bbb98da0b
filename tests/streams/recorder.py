"""Plays the same requests to two servers and keeps the answers, without what must differ: ids, times,
names.

A session is an async function that gets a `Recorder`. What it asks and receives is written down line by
line; the lines of both servers are compared by the tests.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from nats import connect
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from headrace.subjects.grammar import matches
from tests.servers import Server

API = "$JS.API."
MINUTE = 60_000_000_000
ACK = re.compile(r"(\$JS\.ACK\.[^.]+\.[^.]+\.\d+\.\d+\.\d+)\.\d+\.(\d+)")
TIMES = {"created", "ts", "timestamp", "last_active", "pinned_ts", "first_ts", "last_ts", "time"}
HIDDEN = {"id", "pinned_client_id", "pinned_id", "pause_remaining", "ack_time"}
WAIT_SECONDS = 30.0
PATIENCE_SECONDS = 30.0
SESSION_SECONDS = 120.0

Session = Callable[["Recorder"], Awaitable[None]]


class Recorder:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.lines: list[str] = []
        self.received: list[Msg] = []
        """All messages that `receive` has seen, statuses too."""
        self.hides_pending = False
        self._inboxes: dict[str, Any] = {}
        self._last: dict[str, str] = {}

    def note(self, what: str) -> None:
        self.lines.append(what)

    async def ask(self, subject: str, body: Any = b"", *, headers: dict[str, str] | None = None) -> Any:
        """An API request; the answer is noted and returned."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            answer = await self.client.request(API + subject, payload, timeout=WAIT_SECONDS, headers=headers)
        except NoRespondersError:
            self.note(f"{subject} -> no responders")
            return {}
        value = json.loads(answer.data)
        self.note(f"{subject} {payload.decode()}\n" + show(value))
        return value

    async def stream(self, **config: Any) -> None:
        name = config.setdefault("name", "S")
        config.setdefault("subjects", ["s.>"])
        config.setdefault("storage", "memory")
        await self.client.request(f"{API}STREAM.DELETE.{name}", b"", timeout=WAIT_SECONDS)
        answer = await self.client.request(
            f"{API}STREAM.CREATE.{name}", json.dumps(config).encode(), timeout=WAIT_SECONDS
        )
        error = json.loads(answer.data).get("error")
        assert error is None, error

    async def consumer(
        self, name: str = "C", *, action: str = "", pedantic: bool = False, **config: Any
    ) -> Any:
        """Create or update a consumer of stream S the way that newer clients do."""
        body = {"stream_name": "S", "config": {"name": name, **config}, "action": action}
        if pedantic:
            body["pedantic"] = True
        return await self.ask(f"CONSUMER.CREATE.S.{name}", body)

    async def info(self, name: str = "C") -> Any:
        return await self.ask(f"CONSUMER.INFO.S.{name}")

    async def publish(
        self, *subjects: str, payload: bytes = b"x", headers: dict[str, str] | None = None
    ) -> None:
        """Store one message on each subject, until the consumers that nobody asks have counted them.

        nats-server acknowledges a message and only then tells its consumers, in another goroutine: whoever
        asks in between is told the number before. A consumer that delivers at once counts as it delivers.
        """
        idle = [each for each in await self._consumers() if not _delivers(each)]
        stored = {}
        for subject in subjects:
            answer = await self.client.request(subject, payload, timeout=WAIT_SECONDS, headers=headers)
            stored[json.loads(answer.data)["seq"]] = subject
        for each in idle:
            counted = each["num_pending"] + sum(_takes(each, *message) for message in stored.items())
            await self._until(
                each["name"], lambda now, counted=counted: _delivers(now) or now["num_pending"] == counted
            )

    async def _consumers(self) -> list[Any]:
        answer = await self.client.request(f"{API}CONSUMER.LIST.S", b"", timeout=WAIT_SECONDS)
        return json.loads(answer.data).get("consumers") or []

    async def _until(self, name: str, reached: Callable[[Any], bool]) -> None:
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while True:
            answer = await self.client.request(f"{API}CONSUMER.INFO.S.{name}", b"", timeout=WAIT_SECONDS)
            if reached(found := json.loads(answer.data)):
                return
            assert asyncio.get_running_loop().time() < end, found
            await asyncio.sleep(0.01)

    async def until_waiting(self, count: int, name: str = "C") -> None:
        """Until the consumer knows of that many requests."""
        await self._until(name, lambda now: now["num_waiting"] == count)

    async def until_stored(self, count: int) -> None:
        """Until the stream has that many messages, which is then noted.

        An acknowledgement is confirmed before a message that nobody needs any more is removed.
        """
        end = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while True:
            answer = await self.client.request(f"{API}STREAM.INFO.S", b"", timeout=WAIT_SECONDS)
            if (state := json.loads(answer.data)["state"])["messages"] == count:
                break
            assert asyncio.get_running_loop().time() < end, state
            await asyncio.sleep(0.01)
        self.note(answer.data.decode().split('"state":')[1].split("first_ts")[0])

    async def until_unbound(self, name: str = "C") -> None:
        """Until the consumer has noticed that nobody listens to its subject."""
        await self._until(name, lambda now: not now.get("push_bound"))

    async def listen(self, subject: str, queue: str = "") -> None:
        self._inboxes[subject] = await self.client.subscribe(subject, queue=queue)
        await self.client.flush()

    async def leave(self, subject: str) -> None:
        await self._inboxes.pop(subject).unsubscribe()
        await self.client.flush()

    async def pull(self, body: Any = b"", *, name: str = "C", to: str = "in", listening: bool = True) -> None:
        """Send a pull request; `receive` gets what comes."""
        if listening and to not in self._inboxes:
            await self.listen(to)
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.client.publish(f"{API}CONSUMER.MSG.NEXT.S.{name}", payload, reply=to)
        await self.client.flush()

    async def receive(self, count: int = 1, *, at: str = "in") -> list[Msg]:
        """The next messages there, each noted."""
        messages = []
        for _ in range(count):
            try:
                message = await self._inboxes[at].next_msg(timeout=WAIT_SECONDS)
            except TimeoutError:
                self.note(f"{at}: nothing")
                break
            messages.append(message)
            self.note(f"{at}: " + self._describe(message))
        self.received += messages
        return messages

    async def receive_late(self, since: float, seconds: float, *, at: str = "in") -> None:
        """The next message there, which may come only when so much time has passed; later is not wrong."""
        await self.receive(at=at)
        is_late = asyncio.get_running_loop().time() - since >= seconds
        self.note(f"{at}: not before {seconds} s" if is_late else f"{at}: too early")

    async def receive_changes(self, count: int, *, at: str = "in") -> list[Msg]:
        """So many messages that differ from the one before; those that repeat it are not noted.

        How many heartbeats come between two messages depends on how busy the machine is.
        """
        messages: list[Msg] = []
        while len(messages) < count:
            message = await self._inboxes[at].next_msg(timeout=WAIT_SECONDS)
            line = f"{at}: " + self._describe(message)
            if line != self._last.get(at):
                messages.append(message)
                self.note(line)
            self._last[at] = line
        self.received += messages
        return messages

    def _describe(self, message: Msg) -> str:
        text = describe(message)
        return re.sub(r"<time>\.\d+", "<time>.<pending>", text) if self.hides_pending else text

    async def nothing(self, *, at: str = "in", seconds: float = 0.15) -> None:
        """Nothing more may have come by now."""
        try:
            message = await self._inboxes[at].next_msg(timeout=seconds)
        except TimeoutError:
            self.note(f"{at}: silence")
        else:
            self.note(f"{at}: unexpectedly " + describe(message))

    async def ack(self, message: Msg, body: bytes = b"+ACK", *, double: bool = False) -> None:
        if not double:
            await self.client.publish(message.reply, body)
            await self.client.flush()
            return
        answer = await self.client.request(message.reply, body, timeout=WAIT_SECONDS)
        self.note(f"ack of the ack: {describe(answer)}")


def _delivers(consumer: Any) -> bool:
    return bool(consumer["num_waiting"] or consumer.get("push_bound"))


def _takes(consumer: Any, seq: int, subject: str) -> bool:
    """It may start beyond the end of its stream."""
    config = consumer["config"]
    filters = config.get("filter_subjects") or [config.get("filter_subject", ">")]
    return seq > consumer["delivered"]["stream_seq"] and any(matches(subject, each) for each in filters)


def describe(message: Msg) -> str:
    raw = message.headers or {}
    headers = {key: "<id>" if key == "Nats-Pin-Id" else value for key, value in raw.items()}
    subject = "<inbox>" if message.subject.startswith("_INBOX") else message.subject
    reply = ACK.sub(r"\1.<time>.\2", message.reply)
    reply = re.sub(r"(\$JS\.FC\.[^.]+\.[^.]+\.).*", r"\1<id>", reply)
    data = message.data.decode()
    if subject.startswith("$JS.EVENT"):
        data = show(json.loads(data))
    return f"{subject} reply={reply} headers={headers} {data}"


def show(value: Any) -> str:
    return json.dumps(hide(value), indent=1, sort_keys=True)


def hide(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _hide_field(key, each) for key, each in value.items()}
    return [hide(each) for each in value] if isinstance(value, list) else value


def _hide_field(key: str, value: Any) -> Any:
    if key in TIMES and isinstance(value, str):
        return value if value.startswith("0001-") else "<time>"
    return "<hidden>" if key in HIDDEN and value else hide(value)


async def play(server: Server, session: Session) -> list[str]:
    client = await connect(f"nats://{server.host}:{server.port}", allow_reconnect=False)
    recorder = Recorder(client)
    try:
        await asyncio.wait_for(session(recorder), SESSION_SECONDS)
        await client.request(f"{API}STREAM.DELETE.S", b"", timeout=WAIT_SECONDS)
    finally:
        await client.close()
    return recorder.lines
