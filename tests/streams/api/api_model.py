"""Streams, consumers and an account as plain lists and sets: what requests about them should do.

Each `Op` is a request. `Model.apply` says what the answer has to be (an error code, 0 for success, and what
else is known) and changes the model as the server should have changed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

MAX_STREAMS = 3
ROOM = 1_000_000
"""That the account may reserve, of memory and of disk."""
NOT_FOUND, EXISTS, TOO_MANY, OVERLAP = 10059, 10058, 10027, 10065
NO_ROOM = {"file": 10047, "memory": 10028}
CONSUMER_NOT_FOUND, TOO_MANY_CONSUMERS = 10014, 10026
NO_MESSAGE = 10037
ANY_ERROR = -1
"""One whose code depends on the storage."""

ACCOUNT = f"""
accounts {{ A {{
  users [{{user: a, password: a}}]
  jetstream {{ max_file: {ROOM}, max_mem: {ROOM}, max_streams: {MAX_STREAMS} }}
}} }}
no_auth_user: a
"""


@dataclass(frozen=True)
class Op:
    """A request to the API, or with the verb PUB a message."""

    verb: str
    stream: str = ""
    subjects: tuple[str, ...] = ()
    storage: str = "memory"
    max_msgs: int = -1
    max_bytes: int = -1
    max_consumers: int = -1
    name: str = ""
    """Of a consumer, or the id of a message."""
    seq: int = 0
    keep: int = 0

    @property
    def subject(self) -> str:
        if self.verb == "PUB":
            return self.subjects[0]
        suffix = f".{self.name}" if self.verb.startswith("CONSUMER") else ""
        return f"$JS.API.{self.verb}.{self.stream}{suffix}"

    @property
    def body(self) -> bytes:
        fields: dict[str, Any] = {}
        if self.verb in ("STREAM.CREATE", "STREAM.UPDATE"):
            fields = {"name": self.stream, "subjects": self.subjects, "storage": self.storage}
            fields |= {"max_msgs": self.max_msgs, "max_bytes": self.max_bytes}
            fields["max_consumers"] = self.max_consumers
        elif self.verb == "CONSUMER.CREATE":
            fields = {"stream_name": self.stream, "config": {"durable_name": self.name, "name": self.name}}
        elif self.verb in ("STREAM.MSG.GET", "STREAM.MSG.DELETE"):
            fields = {"seq": self.seq}
        elif self.verb == "STREAM.PURGE":
            chosen = {"seq": self.seq, "keep": self.keep, "filter": "".join(self.subjects)}
            fields = {key: value for key, value in chosen.items() if value}
        return json.dumps(fields).encode() if fields else b""


@dataclass
class ModelStream:
    config: Op
    messages: dict[int, str] = field(default_factory=dict)
    last: int = 0
    first: int = 0
    ids: dict[str, int] = field(default_factory=dict)
    consumers: set[str] = field(default_factory=set)

    def append(self, subject: str) -> int:
        self.last += 1
        self.messages[self.last] = subject
        self.trim()
        return self.last

    def trim(self) -> None:
        while 0 < self.config.max_msgs < len(self.messages):
            del self.messages[min(self.messages)]
        self._settle()

    def remove(self, seqs: list[int]) -> int:
        for seq in seqs:
            del self.messages[seq]
        self._settle()
        return len(seqs)

    def _settle(self) -> None:
        """The first sequence is that of a message, or of the next one."""
        if self.messages:
            self.first = min(self.messages)
        elif self.last:
            self.first = self.last + 1

    def state(self) -> dict[str, int]:
        return {
            "messages": len(self.messages),
            "first_seq": self.first,
            "last_seq": self.last,
            "num_subjects": len(set(self.messages.values())),
            "consumer_count": len(self.consumers),
        }


@dataclass
class Expected:
    code: int = 0
    fields: dict[str, Any] = field(default_factory=dict)


class Model:
    def __init__(self) -> None:
        self.streams: dict[str, ModelStream] = {}

    def owner(self, subject: str, but: str = "") -> str:
        """Whose subject it is; "" if nobody's."""
        owners = [n for n, stream in self.streams.items() if n != but and subject in stream.config.subjects]
        assert len(owners) <= 1
        return owners[0] if owners else ""

    def apply(self, op: Op) -> Expected:
        if op.verb == "PUB":
            return self._publish(op)
        if op.verb == "STREAM.CREATE":
            return self._create(op)
        stream = self.streams.get(op.stream)
        if stream is None:
            return Expected(NOT_FOUND)
        handlers = {
            "STREAM.UPDATE": self._update,
            "STREAM.DELETE": self._delete,
            "STREAM.PURGE": self._purge,
            "STREAM.INFO": lambda op, stream: Expected(0, {"state": stream.state()}),
            "STREAM.MSG.GET": self._get,
            "STREAM.MSG.DELETE": self._delete_message,
            "CONSUMER.CREATE": self._create_consumer,
            "CONSUMER.DELETE": self._delete_consumer,
        }
        return handlers[op.verb](op, stream)

    def _reserved(self, storage: str, but: str) -> int:
        others = [stream.config for name, stream in self.streams.items() if name != but]
        return sum(max(config.max_bytes, 0) for config in others if config.storage == storage)

    def _has_room(self, op: Op) -> bool:
        return max(op.max_bytes, 1) + self._reserved(op.storage, op.stream) <= ROOM

    def _create(self, op: Op) -> Expected:
        existing = self.streams.get(op.stream)
        if len(self.streams) - (existing is not None) >= MAX_STREAMS:
            return Expected(TOO_MANY)
        if not self._has_room(op):
            return Expected(NO_ROOM[op.storage])
        if existing is not None:
            same = existing.config.body == op.body
            return Expected(0, {"state": existing.state()}) if same else Expected(EXISTS)
        if any(self.owner(subject, op.stream) for subject in op.subjects):
            return Expected(OVERLAP)
        self.streams[op.stream] = ModelStream(op)
        return Expected(0, {"state": ModelStream(op).state()})

    def _update(self, op: Op, stream: ModelStream) -> Expected:
        if op.storage != stream.config.storage:
            return Expected(10052)
        if op.max_bytes > 0 and not self._has_room(op):
            return Expected(NO_ROOM[op.storage])
        if any(self.owner(subject, op.stream) for subject in op.subjects):
            return Expected(OVERLAP)
        stream.config = op
        stream.trim()
        return Expected(0, {"state": stream.state()})

    def _delete(self, op: Op, stream: ModelStream) -> Expected:
        del self.streams[op.stream]
        return Expected(0, {"success": True})

    def _purge(self, op: Op, stream: ModelStream) -> Expected:
        matching = [s for s, subject in stream.messages.items() if not op.subjects or subject in op.subjects]
        if op.keep:
            matching = matching[: max(len(matching) - op.keep, 0)]
        if op.seq:
            matching = [seq for seq in matching if seq < op.seq]
        purged = stream.remove(matching)
        if op.seq and not op.subjects and op.seq > stream.last + 1:
            stream.last, stream.first = op.seq - 1, op.seq
        elif not (op.subjects or op.keep or op.seq):
            stream.first = stream.last + 1
        return Expected(0, {"success": True, "purged": purged})

    def _get(self, op: Op, stream: ModelStream) -> Expected:
        if op.seq not in stream.messages:
            return Expected(NO_MESSAGE)
        return Expected(0, {"message": {"seq": op.seq, "subject": stream.messages[op.seq]}})

    def _delete_message(self, op: Op, stream: ModelStream) -> Expected:
        if op.seq not in stream.messages:
            return Expected(ANY_ERROR)
        stream.remove([op.seq])
        return Expected(0, {"success": True})

    def _create_consumer(self, op: Op, stream: ModelStream) -> Expected:
        limit = stream.config.max_consumers
        if op.name not in stream.consumers and 0 < limit <= len(stream.consumers):
            return Expected(TOO_MANY_CONSUMERS)
        stream.consumers.add(op.name)
        return Expected(0, {"name": op.name})

    def _delete_consumer(self, op: Op, stream: ModelStream) -> Expected:
        if op.name not in stream.consumers:
            return Expected(CONSUMER_NOT_FOUND)
        stream.consumers.remove(op.name)
        return Expected(0, {"success": True})

    def _publish(self, op: Op) -> Expected:
        owner = self.owner(op.subjects[0])
        if not owner:
            return Expected(503)
        stream = self.streams[owner]
        if op.name in stream.ids:
            return Expected(0, {"stream": owner, "seq": stream.ids[op.name], "duplicate": True})
        seq = stream.append(op.subjects[0])
        if op.name:
            stream.ids[op.name] = seq
        return Expected(0, {"stream": owner, "seq": seq})
