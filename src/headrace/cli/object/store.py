"""A bucket of an object store: a stream `OBJ_name` that has chunks of objects, and a description of each.

What it looks like on the wire is NATS ADR-20: chunks have the subject `$O.bucket.C.id`, the description,
which replaces the one before, `$O.bucket.M.name` with the name in base64.
"""

from __future__ import annotations

import base64
import json
import secrets
import string
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from headrace.cli.jetstream.api import JetStream, StoredMessage
from headrace.cli.jetstream.publisher import Publisher
from headrace.cli.jetstream.reader import Reader
from headrace.errors import HeadraceError
from headrace.go_formats import format_time

PREFIX = "OBJ_"
CHUNK_BYTES = 128 * 1024
IN_FLIGHT_BYTES = 8 * 1024 * 1024
MOST_LINKS = 8
_ID_CHARACTERS = string.ascii_letters + string.digits
ZERO_TIME = "0001-01-01T00:00:00Z"


class ObjectMissingError(HeadraceError):
    """There is no object of that name."""


@dataclass(frozen=True)
class Store:
    jetstream: JetStream
    name: str
    info: dict[str, Any]

    @property
    def stream(self) -> str:
        return f"{PREFIX}{self.name}"

    def chunk_subject(self, identifier: str) -> str:
        return f"$O.{self.name}.C.{identifier}"

    def meta_subject(self, name: str) -> str:
        return f"$O.{self.name}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    # -- descriptions -------------------------------------------------------------------------------------

    async def find(self, name: str) -> dict[str, Any] | None:
        """The description of an object, None if there is none or it was removed."""
        message = await self.jetstream.message(self.info, last_by_subj=self.meta_subject(name))
        if message is None:
            return None
        meta = self._meta(message)
        return None if meta.get("deleted") else meta

    async def describe(self, name: str) -> dict[str, Any]:
        """Raises ObjectMissingError."""
        meta = await self.find(name)
        if meta is None:
            raise ObjectMissingError(
                f"bucket {self.name} has no object {name}", hint=f"see `headrace object ls {self.name}`"
            )
        return meta

    async def objects(self) -> list[dict[str, Any]]:
        """The descriptions of all objects, in the order of their names."""
        reader = Reader(
            self.jetstream,
            self.stream,
            f"$O.{self.name}.M.>",
            {"deliver_policy": "last_per_subject"},
            batch=500,
        )
        found = {message.subject: self._meta(message) async for message in reader}
        return sorted(
            (meta for meta in found.values() if not meta.get("deleted")), key=lambda meta: str(meta["name"])
        )

    def _meta(self, message: StoredMessage) -> dict[str, Any]:
        """With `mtime` from the stream. Whoever may publish may have written anything: types are checked."""
        try:
            meta: dict[str, Any] = json.loads(message.data)
            for field, kind in (
                ("name", str),
                ("nuid", str),
                ("size", int),
                ("chunks", int),
                ("digest", str),
            ):
                if not isinstance(meta.setdefault(field, kind()), kind):
                    raise ValueError(f"{field} is {meta[field]!r}")
        except (ValueError, AttributeError, RecursionError) as error:
            raise HeadraceError(
                f"bucket {self.name} has an invalid description of an object: {error}"
            ) from None
        return meta | {"mtime": format_time(message.time)}

    async def put_meta(self, meta: dict[str, Any]) -> None:
        payload = json.dumps(meta | {"mtime": ZERO_TIME}).encode()
        await self.jetstream.publish(self.meta_subject(meta["name"]), payload, {"Nats-Rollup": "sub"})

    # -- contents -----------------------------------------------------------------------------------------

    async def chunks(self, meta: dict[str, Any]) -> AsyncIterator[bytes]:
        """In order; whether they are all, and the right ones, the digest tells."""
        average = max(1, meta["size"] // max(1, meta["chunks"]))
        batch = min(500, max(1, IN_FLIGHT_BYTES // average))
        subject = self.chunk_subject(meta["nuid"])
        async for message in Reader(
            self.jetstream, self.stream, subject, {"deliver_policy": "all"}, batch=batch
        ):
            yield message.data

    def publisher(self) -> Publisher:
        return Publisher(self.jetstream)

    async def remove_chunks(self, identifier: str) -> None:
        await self.jetstream.request(
            f"STREAM.PURGE.{self.stream}", {"filter": self.chunk_subject(identifier)}
        )

    async def remove(self, meta: dict[str, Any]) -> None:
        await self.put_meta(meta | {"deleted": True, "size": 0, "chunks": 0, "digest": ""})
        await self.remove_chunks(meta["nuid"])

    async def resolve(self, name: str) -> tuple[Store, dict[str, Any]]:
        """The object, or the one that it is a link to. Raises HeadraceError."""
        store, meta = self, await self.describe(name)
        for _ in range(MOST_LINKS):
            link = (meta.get("options") or {}).get("link")
            if not isinstance(link, dict):
                return store, meta
            if not link.get("name"):
                raise HeadraceError(f"{name} is a link to bucket {link.get('bucket')}, not to an object")
            store = await open_store(self.jetstream, str(link.get("bucket")))
            meta = await store.describe(str(link["name"]))
        raise HeadraceError(f"{name} is a link to a link to a link…")


def new_identifier() -> str:
    """Of the chunks of one version of an object."""
    return "".join(secrets.choice(_ID_CHARACTERS) for _ in range(22))


async def open_store(jetstream: JetStream, name: str) -> Store:
    info = await jetstream.stream(f"{PREFIX}{name}")
    if info is None:
        raise HeadraceError(
            f"there is no bucket {name}",
            hint="`headrace object ls` shows all; `headrace object add` makes one",
        )
    return Store(jetstream, name, info)
