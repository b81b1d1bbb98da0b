"""JetStream: all streams of the server, from the start to the end.

`start` reads what is on disk, before the first client comes. A stream whose files are damaged beyond
reading is reported and its directory left alone; nothing is ever deleted because it could not be read.

    <store_dir>/jetstream/<account>/streams/<name>/meta.json, msgs/, consumers/
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from headrace.broker.broker import Broker
from headrace.broker.internal import InternalClient
from headrace.config.options import Options
from headrace.engine.store.committer import Committer
from headrace.go_formats import NANOSECONDS
from headrace.logs import Logger
from headrace.streams import formats
from headrace.streams.account import Account
from headrace.streams.api.advisories import client_info, random_id
from headrace.streams.api.dispatch import Api, Request
from headrace.streams.api.domain import DomainApi
from headrace.streams.api.routes import REFUSALS, ROUTES
from headrace.streams.config import StreamConfig, Wire
from headrace.streams.consumers.restore import recover_consumers
from headrace.streams.errors import StoreError
from headrace.streams.files import (
    META,
    child_directory,
    is_leftover,
    list_directory,
    make_directory,
    read_checked,
)
from headrace.streams.stream import Stream
from headrace.streams.usage import Usage
from headrace.streams.wire_types import Int64
from headrace.unreadable import UNREADABLE_JSON

ADVISORY_TYPE = "io.nats.jetstream.advisory.v1."
STOP_REQUESTS_SECONDS = 5.0
STOP_CONSUMERS_SECONDS = 10.0
STREAM_ACTIONS = {"create": "CREATED", "modify": "UPDATED", "delete": "DELETED"}


class StreamMeta(Wire):
    """What meta.json holds."""

    config: StreamConfig
    created: Int64


class JetStream:
    """The room itself. Everything is owned by the event loop's thread.

    `now` is the clock that messages are stamped with and expire by, in nanoseconds since 1970.
    """

    def __init__(
        self, options: Options, broker: Broker, logger: Logger, now: Callable[[], int] = formats.now
    ) -> None:
        self.now = now
        self.options = options
        self.broker = broker
        self.logger = logger
        self.hub = broker.hub
        self.interest = broker.interest
        self.domain = options.jetstream_domain
        self.server_name = options.server_name or broker.server_id
        self.directory = os.path.join(options.jetstream_directory, options.account, "streams")
        self.client = InternalClient(broker.hub, broker.interest, broker.on_bug)
        self.committer = Committer(sync_interval=options.sync_interval)
        self.streams: dict[str, Stream] = {}
        self.changing_streams = asyncio.Lock()
        """Held from the check whether a stream may have what it wants until it has it (stream_requests)."""
        self.account = Account(
            self.streams,
            name=options.account,
            is_enabled=options.account_jetstream,
            limits=options.account_limits,
            max_memory=options.jetstream_max_memory,
            max_storage=options.jetstream_max_store,
            max_duplicate_window=int(options.jetstream_limits.duplicate_window * NANOSECONDS),
            domain=self.domain,
        )
        self.usage = Usage(self.account)
        self.api: Api | None = None

    @property
    def strict(self) -> bool:
        return self.options.jetstream_strict

    @property
    def api_total(self) -> int:
        return self.account.api_total

    @property
    def api_errors(self) -> int:
        return self.account.api_errors

    @property
    def max_payload(self) -> int:
        return self.hub.max_payload

    # -- starting and stopping

    def start(self) -> None:
        """Raises StoreError if the directory cannot be used, ConfigError if the account may use too much."""
        self.account.check_promised()
        if self.account.is_enabled:
            self._open_directory()
        self.hub.add_source(self.committer.fileno(), self._on_committed)
        for name in list_directory(self.directory) if self.account.is_enabled else ():
            self._recover(name)
        for stream in list(self.streams.values()):
            stream.start(is_new=False)
            if recover_consumers(stream):
                stream.on_consumers_recovered()
        if self.domain:
            DomainApi(self.domain, self.client)
        self.api = Api(
            self,
            ROUTES if self.account.is_enabled else REFUSALS,
            self.client,
            self.account,
            self.logger,
            limit=self.options.jetstream_request_queue_limit,
            audit=self._audit,
        )

    async def stop(self) -> None:
        """Stop taking requests and messages, and bring everything to disk.

        What does not end in time is given up, and the log says so: nothing of it was acknowledged.
        """
        for subject in await self.api.stop(STOP_REQUESTS_SECONDS) if self.api else ():
            self.logger.warn(f"JetStream Shutdown: gave up on a request that does not end: {subject}")
        await self._save_consumers()
        for stream in self.streams.values():
            stream.stop()
        for stream in self.streams.values():
            stream.close()
        self.client.close()
        self.hub.remove_source(self.committer.fileno())
        self.committer.close()

    async def _save_consumers(self) -> None:
        """All at once: they would wait for the disk in turn otherwise."""
        saves = {
            asyncio.ensure_future(consumer.save()): f"{stream.name} > {consumer.name}"
            for stream in self.streams.values()
            for consumer in stream.consumers.values()
        }
        if not saves:
            return
        saved, unsaved = await asyncio.wait(saves, timeout=STOP_CONSUMERS_SECONDS)
        for save in unsaved:
            self.logger.warn(f"JetStream Shutdown: gave up on saving the state of consumer {saves[save]!r}")
        for save in saved:
            if error := save.exception():
                self.logger.error(f"The state of consumer {saves[save]!r} is not saved: {error!r}")

    def _on_committed(self) -> None:
        self.committer.poll()

    def _open_directory(self) -> None:
        try:
            make_directory(self.directory)
        except OSError as error:
            raise StoreError(f"{self.directory}: {(error.strerror or str(error)).lower()}") from None

    def _recover(self, name: str) -> None:
        directory = os.path.join(self.directory, name)
        try:
            meta = msgspec.json.decode(read_checked(os.path.join(directory, META)), type=StreamMeta)
            if meta.config.name != name:
                raise StoreError(f"{directory}: holds the stream {meta.config.name!r}")
        except (StoreError, *UNREADABLE_JSON) as error:
            if is_leftover(directory):
                return  # the server was killed before this stream existed
            self.logger.error(f"Stream {name!r} is not available and its files are left alone: {error}")
            return
        stream = Stream(self, meta.config, meta.created, directory)
        try:
            damages = stream.open()
        except OSError as error:
            reason = error.strerror or str(error)
            self.logger.error(f"Stream {name!r} is not available and its files are left alone: {reason}")
            return
        for damage in damages:
            self.logger.warn(f"Stream {name!r}: {damage}")
        self.add(stream)
        self.logger.info(
            f"  Restored {stream.log.count:,} messages for stream '{self.account.name} > {name}'"
        )

    def add(self, stream: Stream) -> None:
        """From here on its name and its subjects are taken."""
        self.streams[stream.name] = stream
        self.account.take_subjects(stream.config)

    def remove(self, stream: Stream) -> None:
        del self.streams[stream.name]
        self.account.leave_subjects(stream.config)

    def stream_directory(self, config: StreamConfig) -> str | None:
        """Where a stream is kept; None in memory. Raises StoreError for a name that is no directory's."""
        return child_directory(self.directory, config.name) if config.storage == "file" else None

    # -- what it tells others

    def publish_advisory(self, subject: str, kind: str, fields: dict[str, Any]) -> None:
        """Tell whoever listens. `kind` completes the type."""
        if not self.client.has_interest(subject.encode()):
            return
        body = {
            "type": ADVISORY_TYPE + kind,
            "id": random_id(),
            "timestamp": formats.format_time(self.now()),
            **fields,
        }
        if self.domain:
            body["domain"] = self.domain
        self.client.publish(subject.encode(), msgspec.json.encode(body))

    def announce(self, stream: Stream, action: str) -> None:
        """`action` is create, modify or delete."""
        subject = f"$JS.EVENT.ADVISORY.STREAM.{STREAM_ACTIONS[action]}.{stream.name}"
        self.publish_advisory(subject, "stream_action", {"stream": stream.name, "action": action})

    def _audit(self, request: Request, answer: bytes) -> None:
        text = partial(bytes.decode, encoding="utf-8", errors="replace")
        fields: dict[str, Any] = {
            "server": self.server_name,
            "client": client_info(request.publisher, self.server_name, self.account.name),
            "subject": request.subject,
            "response": text(answer),
        }
        if request.payload:
            fields["request"] = text(request.payload)
        self.publish_advisory("$JS.EVENT.ADVISORY.API", "api_audit", fields)
