"""The JetStream of one account: its streams, its API and its in-process client.

`start` reads what is on disk, before the first client connects. A stream whose files are too damaged to be
read, or cannot be read at present, is reported and its directory left alone; nothing is ever deleted because
it could not be read. That includes its consumers: without one of them nobody knows which messages it needs.

    <store_dir>/jetstream/<account>/streams/<name>/meta.json, msgs/, consumers/
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.accounts.account import Account
from headrace.broker.ids import random_id
from headrace.broker.internal import InternalClient
from headrace.config.identity import AccountLimits as ConfiguredLimits
from headrace.config.options import API_LEVEL
from headrace.engine.core.interest import Interest
from headrace.streams import formats
from headrace.streams.api.advisories import client_info
from headrace.streams.api.dispatch import Api, Request
from headrace.streams.api.domain import DomainApi
from headrace.streams.api.message_trace import RequestTracer
from headrace.streams.api.routes import REFUSALS, ROUTES
from headrace.streams.backup.transfers import Transfers
from headrace.streams.config import StreamConfig, Wire
from headrace.streams.consumers.on_disk.directory import StoredConsumers, load_all
from headrace.streams.consumers.on_disk.recovery import recover_consumers
from headrace.streams.errors import StoreError
from headrace.streams.files import (
    META,
    child_directory,
    is_leftover,
    list_directory,
    make_directory,
    read_checked,
    reason_of,
)
from headrace.streams.jetstream_limits import AccountLimits, AccountResources
from headrace.streams.slices import Work, at_once
from headrace.streams.stream import Stream
from headrace.streams.wire_types import Int, Int64, Uint64, always
from headrace.subjects.grammar import encode
from headrace.unreadable import UNREADABLE_JSON

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

API_INFO = "$JS.API.INFO"
ADVISORY_TYPE = "io.nats.jetstream.advisory.v1."
STOP_REQUESTS_SECONDS = 5.0
STOP_CONSUMERS_SECONDS = 10.0
STREAM_ACTIONS = {"create": "CREATED", "modify": "UPDATED", "delete": "DELETED"}


class StreamMeta(Wire):
    """The contents of meta.json."""

    config: StreamConfig
    created: Int64


class ApiUse(Wire):
    level: Int = always(API_LEVEL)
    total: Uint64 = always(0)
    errors: Uint64 = always(0)


class AccountInfo(Wire):
    memory: Uint64 = always(0)
    storage: Uint64 = always(0)
    reserved_memory: Uint64 = always(0)
    reserved_storage: Uint64 = always(0)
    streams: Int = always(0)
    consumers: Int = always(0)
    limits: AccountLimits = always(None)
    domain: str = ""
    api: ApiUse = always(None)


class JetStreamAccount:
    """`interest` has the subscriptions of the account's clients."""

    def __init__(
        self,
        jetstream: JetStream,
        name: str,
        interest: Interest,
        *,
        limits: ConfiguredLimits | None,
        is_enabled: bool,
    ) -> None:
        self.jetstream = jetstream
        self.name: str = name
        self.interest = interest
        self.directory = os.path.join(jetstream.directory, name, "streams")
        self.client = InternalClient(jetstream.hub, interest, jetstream.on_bug)
        self.client.trace_with(RequestTracer(jetstream.system_account))
        self.streams: dict[str, Stream] = {}
        self.resources = AccountResources(
            self.streams, jetstream.resources, is_enabled=is_enabled, limits=limits
        )
        self.transfers = Transfers(jetstream.logger)
        self.api: Api | None = None
        self.api_total = 0
        self.api_errors = 0

    @property
    def is_enabled(self) -> bool:
        return self.resources.is_enabled

    def fits(self, account: Account) -> bool:
        """Whether the account has, or lacks, streams of its own, as when this was created."""
        is_enabled = account.options.jetstream is not None
        return self.is_enabled == is_enabled and (is_enabled or not account.imports_service(API_INFO))

    # -- starting and stopping

    def start(self) -> None:
        """Raises StoreError if the directory cannot be used."""
        consumers = self._recover_all() if self.is_enabled else {}
        for stream in list(self.streams.values()):
            stream.start(is_new=False)
            at_once(stream.subscribe())
            if recover_consumers(stream, consumers[stream.name]):
                stream.on_consumers_recovered()
        jetstream = self.jetstream
        if jetstream.domain:
            DomainApi(jetstream.domain, self.client)
        self.api = Api(
            self,
            ROUTES if self.is_enabled else REFUSALS,
            limit=jetstream.options.jetstream_request_queue_limit,
            audit=self._audit,
        )

    async def stop(self) -> None:
        """Stop accepting requests and messages, and write everything to disk.

        Requests and saves that do not finish in time are abandoned, and logged: none was acknowledged.
        """
        logger = self.jetstream.logger
        for subject in await self.api.stop(STOP_REQUESTS_SECONDS) if self.api else ():
            logger.warn(f"JetStream Shutdown: gave up on a request that does not end: {subject}")
        await self.transfers.stop()
        await self._save_consumers()
        for stream in self.streams.values():
            stream.stop()
        for stream in self.streams.values():
            stream.close()
        self.client.close()

    async def _save_consumers(self) -> None:
        """All at once, so that they do not wait for the disk one after another."""
        saves = {
            asyncio.ensure_future(consumer.save()): f"{stream.name} > {consumer.name}"
            for stream in self.streams.values()
            for consumer in stream.consumers.values()
        }
        if not saves:
            return
        logger = self.jetstream.logger
        saved, unsaved = await asyncio.wait(saves, timeout=STOP_CONSUMERS_SECONDS)
        for save in unsaved:
            self.jetstream.logger.warn(
                f"JetStream Shutdown: gave up on saving the state of consumer {saves[save]!r}"
            )
        for save in saved:
            if error := save.exception():
                logger.error(f"The state of consumer {saves[save]!r} is not saved: {error!r}")

    def _recover_all(self) -> dict[str, StoredConsumers]:
        """The consumers of all streams that could be read, by stream."""
        try:
            make_directory(self.directory)
            names = list_directory(self.directory)
        except OSError as error:
            raise StoreError(reason_of(error)) from None
        found = {}
        for name in names:
            consumers = self._recover(name)
            if consumers is not None:
                found[name] = consumers
        return found

    def _recover(self, name: str) -> StoredConsumers | None:
        """None: there is no such stream, or it is not available."""
        logger = self.jetstream.logger
        directory = os.path.join(self.directory, name)
        try:
            if is_leftover(directory):
                return None  # the server was killed before this stream existed
            meta = _read_meta(directory, name)
            consumers = load_all(directory)
            stream = Stream(self, meta.config, meta.created, directory)
            damages = stream.open()
        except (OSError, StoreError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else error
            logger.error(f"Stream {name!r} is not available and its files are left alone: {reason}")
            return None
        for damage in damages:
            logger.warn(f"Stream {name!r}: {damage}")
        at_once(self._add(stream))
        logger.info(f"  Restored {stream.log.count:,} messages for stream '{self.name} > {name}'")
        return consumers

    async def add(self, stream: Stream) -> None:
        """From here on no other stream can have its name or its subjects.

        The caller holds the lock for changes of streams, here and in `remove`.
        """
        await self.jetstream.slices.result(self._add(stream))

    def _add(self, stream: Stream) -> Work[None]:
        self.streams[stream.name] = stream
        yield from self.resources.add_subjects(stream.config)

    async def remove(self, stream: Stream) -> None:
        """Others may have its name at once, and its subjects when this returns."""
        self.streams.pop(stream.name, None)  # a request that is cancelled may not have added it yet
        await self.jetstream.slices.result(self.resources.remove_subjects(stream.config))

    def stream_directory(self, config: StreamConfig) -> str | None:
        """The directory of a stream; None in memory. Raises StoreError if no directory can have its name."""
        return child_directory(self.directory, config.name) if config.storage == "file" else None

    # -- requests and advisories

    def count_request(self, *, failed: bool) -> None:
        if self.is_enabled:
            self.api_total += 1
            self.api_errors += failed

    def info(self) -> AccountInfo:
        resources = self.resources
        return AccountInfo(
            memory=resources.used("memory"),
            storage=resources.used("file"),
            reserved_memory=resources.reserved("memory"),
            reserved_storage=resources.reserved("file"),
            streams=len(self.streams),
            consumers=sum(len(stream.consumers) for stream in self.streams.values()),
            limits=resources.limits,
            domain=self.jetstream.domain,
            api=ApiUse(total=self.api_total, errors=self.api_errors),
        )

    def publish_advisory(self, subject: str, kind: str, fields: dict[str, Any]) -> None:
        """Publish it if anybody listens. `kind` completes the type."""
        if not self.client.has_interest(subject.encode()):
            return
        body = {
            "type": ADVISORY_TYPE + kind,
            "id": random_id(),
            "timestamp": formats.format_time(self.jetstream.now()),
            **fields,
        }
        if domain := self.jetstream.domain:
            body["domain"] = domain
        self.client.publish(subject.encode(), msgspec.json.encode(body))

    def announce(self, stream: Stream, action: str) -> None:
        """`action` is create, modify or delete."""
        subject = f"$JS.EVENT.ADVISORY.STREAM.{STREAM_ACTIONS[action]}.{stream.name}"
        self.publish_advisory(subject, "stream_action", {"stream": stream.name, "action": action})

    def _audit(self, request: Request, answer: bytes) -> None:
        text = partial(bytes.decode, encoding="utf-8", errors="replace")
        fields: dict[str, Any] = {
            "server": self.jetstream.server_name,
            "client": client_info(request.publisher, self.jetstream.server_name, self.name),
            "subject": text(encode(request.subject)),
            "response": text(answer),
        }
        if request.payload:
            fields["request"] = text(request.payload)
        self.publish_advisory("$JS.EVENT.ADVISORY.API", "api_audit", fields)


def _read_meta(directory: str, name: str) -> StreamMeta:
    """Raises StoreError if it is damaged, OSError if it cannot be read."""
    path = os.path.join(directory, META)
    try:
        meta = msgspec.json.decode(read_checked(path), type=StreamMeta)
    except UNREADABLE_JSON as error:
        raise StoreError(f"{path}: {error}") from None
    if meta.config.name != name:
        raise StoreError(f"{directory}: holds the stream {meta.config.name!r}")
    return meta
