"""A key-value bucket: a stream `KV_name` with a subject `$KV.name.key` per key.

What a bucket looks like on the wire is NATS ADR-8; the configuration is the one that nats.go makes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from headrace.cli.jetstream.api import WRONG_LAST_SEQUENCE, JetStream, StoredMessage
from headrace.cli.jetstream.reader import Reader
from headrace.client.errors import ApiError
from headrace.errors import HeadraceError
from headrace.go_formats import NANOSECONDS

PREFIX = "KV_"
SUBJECTS = "$KV.*.>"
DUPLICATE_WINDOW = 120 * NANOSECONDS
PUT, DELETE, PURGE = "PUT", "DELETE", "PURGE"
_OPERATIONS = {"DEL": DELETE, "PURGE": PURGE}
_MARKERS = {"MaxAge": PURGE, "Purge": PURGE, "Remove": DELETE}
"""What a marker that the server placed means, by its reason."""


@dataclass(frozen=True)
class Entry:
    """A value of a key, or that it was removed. `created` is in nanoseconds since 1970."""

    bucket: str
    key: str
    revision: int
    created: int
    operation: str
    value: bytes
    size: int

    @property
    def is_removal(self) -> bool:
        return self.operation != PUT


class KeyMissingError(HeadraceError):
    """There is no value: it was never stored, or it was removed."""


@dataclass(frozen=True)
class Bucket:
    jetstream: JetStream
    name: str
    info: dict[str, Any]

    @property
    def stream(self) -> str:
        return f"{PREFIX}{self.name}"

    @property
    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = self.info["config"]
        return config

    @property
    def prefix(self) -> str:
        """A mirror has the subjects of its origin."""
        origin = (self.config.get("mirror") or {}).get("name", self.stream)
        return f"$KV.{origin.removeprefix(PREFIX)}."

    @property
    def write_prefix(self) -> str:
        """Where to publish: a mirror of another domain is reached through that domain's API."""
        external = ((self.config.get("mirror") or {}).get("external") or {}).get("api")
        return f"{external}.{self.prefix}" if external else self.prefix

    # -- reading ------------------------------------------------------------------------------------------

    async def get(self, key: str, revision: int = 0) -> Entry:
        """Raises KeyMissingError."""
        subject = self.prefix + key
        which: dict[str, Any] = {"seq": revision} if revision else {"last_by_subj": subject}
        message = await self.jetstream.message(self.info, **which)
        if message is None or message.subject != subject:
            what = f"revision {revision} of {key}" if revision else f"key {key}"
            raise KeyMissingError(f"bucket {self.name} has no {what}")
        entry = self.entry(message)
        if entry.is_removal and not revision:
            verb = "purged" if entry.operation == PURGE else "deleted"
            raise KeyMissingError(f"key {key} of bucket {self.name} was {verb}")
        return entry

    async def entries(self, keys: str = ">", *, history: bool = False) -> list[Entry]:
        """What is stored now, removals too: the last entry of each matching key, or all, in order."""
        start = "all" if history else "last_per_subject"
        reader = Reader(self.jetstream, self.stream, self.prefix + keys, {"deliver_policy": start})
        return [self.entry(message) async for message in reader]

    async def keys(self, keys: str = ">") -> list[Entry]:
        """The last entry of each matching key that has a value, without the value."""
        reader = Reader(
            self.jetstream,
            self.stream,
            self.prefix + keys,
            {"deliver_policy": "last_per_subject"},
            headers_only=True,
            batch=1000,
        )
        found = {message.subject: self.entry(message) async for message in reader}
        return [entry for entry in found.values() if not entry.is_removal]

    async def watch(self, keys: str, start: dict[str, Any]) -> AsyncIterator[Entry]:
        """Without an end."""
        async for message in Reader(self.jetstream, self.stream, self.prefix + keys, start, follow=True):
            yield self.entry(message)

    def entry(self, message: StoredMessage) -> Entry:
        headers = message.headers
        operation = _OPERATIONS.get(headers.get("KV-Operation", ""), PUT)
        if "KV-Operation" not in headers:
            operation = _MARKERS.get(headers.get("Nats-Marker-Reason", ""), PUT)
        return Entry(
            bucket=self.name,
            key=message.subject.removeprefix(self.prefix),
            revision=message.seq,
            created=message.time,
            operation=operation,
            value=message.data,
            size=int(headers.get("Nats-Msg-Size", len(message.data))),
        )

    # -- writing ------------------------------------------------------------------------------------------

    async def put(self, key: str, value: bytes, headers: dict[str, str] | None = None) -> int:
        """The revision."""
        answer = await self.jetstream.publish(self.write_prefix + key, value, headers)
        return int(answer["seq"])

    async def create(self, key: str, value: bytes, ttl: int = 0) -> int:
        """Raises HeadraceError if the key has a value."""
        headers = {"Nats-TTL": ttl_text(ttl)} if ttl else {}
        try:
            return await self._put_after(key, value, 0, headers)
        except ApiError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
        # What is there may be the mark of a removal: then the new value replaces it, and nothing else.
        last = await self.jetstream.message(self.info, last_by_subj=self.prefix + key)
        if last is not None and not self.entry(last).is_removal:
            raise HeadraceError(
                f"key {key} of bucket {self.name} exists (revision {last.seq})",
                hint="replace it with `headrace kv put` or `headrace kv update`",
            )
        return await self._put_after(key, value, last.seq if last else 0, headers)

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """Raises HeadraceError if the key has another revision by now."""
        try:
            return await self._put_after(key, value, revision, {})
        except ApiError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
        raise HeadraceError(
            f"key {key} of bucket {self.name} does not have revision {revision} any more",
            hint=f"see `headrace kv get {self.name} {key}`",
        )

    async def _put_after(self, key: str, value: bytes, revision: int, headers: dict[str, str]) -> int:
        return await self.put(key, value, {"Nats-Expected-Last-Subject-Sequence": str(revision), **headers})

    async def delete(self, key: str) -> int:
        return await self.put(key, b"", {"KV-Operation": "DEL"})

    async def purge(self, key: str, ttl: int = 0) -> int:
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
        if ttl:
            headers["Nats-TTL"] = ttl_text(ttl)
        return await self.put(key, b"", headers)


def ttl_text(nanoseconds: int) -> str:
    """As the header wants it: in whole seconds, at least one."""
    return f"{max(1, round(nanoseconds / NANOSECONDS))}s"


async def open_bucket(jetstream: JetStream, name: str) -> Bucket:
    info = await jetstream.stream(f"{PREFIX}{name}")
    if info is None:
        raise HeadraceError(
            f"there is no bucket {name}", hint="`headrace kv ls` shows all; `headrace kv add` makes one"
        )
    return Bucket(jetstream, name, info)


async def list_buckets(jetstream: JetStream) -> list[dict[str, Any]]:
    """The infos of their streams."""
    infos = await jetstream.streams()
    return [info for info in infos if str(info["config"]["name"]).startswith(PREFIX)]
