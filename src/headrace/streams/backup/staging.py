"""Where a restored stream is assembled: out of sight until it is complete.

    <account>/streams/.deleted-<name>-<random>/meta.json, msgs/, consumers/

The name of the directory is that of a deleted stream, which the server removes when it starts. So a restore
leaves nothing behind, whenever the server is killed. When everything in it is written and synced, it is
renamed: from that moment on the stream exists. A stream in memory is assembled in a
`Stream` that nothing else knows.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.engine.store.log import Log
from headrace.streams.api.stream_requests import write_meta
from headrace.streams.config import ConsumerConfig, StreamConfig
from headrace.streams.consumers.consumer import Consumer
from headrace.streams.consumers.on_disk import directory as consumer_store
from headrace.streams.consumers.on_disk.directory import ConsumerMeta
from headrace.streams.consumers.on_disk.state import ConsumerState
from headrace.streams.errors import StoreError, api_error
from headrace.streams.files import (
    DELETED_PREFIX,
    MESSAGES,
    exists,
    in_thread,
    is_leftover,
    make_directory,
    remove_retired,
    remove_tree,
    retire_directory,
    sync_directory,
)
from headrace.streams.jetstream_limits import RESOURCES_EXCEEDED
from headrace.streams.slices import outcome
from headrace.streams.stream import Stream
from headrace.streams.usage import StreamUsage

if TYPE_CHECKING:
    from headrace.streams.jetstream_account import JetStreamAccount

BACKLOG_BYTES = 16 * 1024 * 1024
RestoredConsumer = tuple[ConsumerMeta, ConsumerState]


class Staging:
    """`open`, fill the `log`, `publish`; or `discard`."""

    def __init__(self, account: JetStreamAccount, config: StreamConfig) -> None:
        self._account = account
        self._config = config
        self._created = account.jetstream.now()
        self._directory = ""
        if config.storage == "file":
            name = f"{DELETED_PREFIX}{config.name[:40]}-{secrets.token_hex(8)}"
            self._directory = os.path.join(account.directory, name)
            self.log = Log(
                os.path.join(self._directory, MESSAGES),
                committer=account.jetstream.committer,
                compression=config.compression,
            )
        else:
            self._stream = Stream(account, config, self._created, None)
            self.log = self._stream.log
        self._usage: StreamUsage | None = None

    async def open(self, first_seq: int, size: int) -> None:
        """Its messages begin at `first_seq` and count about `size` bytes. Raises ApiError, OSError."""
        resources, storage = self._account.resources, self._config.storage
        if resources.usage.would_exceed(storage, size) or resources.server.usage.would_exceed(storage, size):
            raise api_error(RESOURCES_EXCEEDED[storage])
        if self._directory:
            await in_thread(make_directory, self.log.directory or "")
            self.log.recover()
        self._usage = StreamUsage(
            resources.server.usage, resources.usage, self.log, storage, on_change=lambda: None
        )
        if first_seq > 1:
            self.log.skip(first_seq)
        if self._config.discard == "old":
            config = self._config
            self.log.configure(
                max_msgs=config.max_msgs,
                max_bytes=config.max_bytes,
                max_msgs_per_subject=config.max_msgs_per_subject,
            )

    async def keep_up(self) -> None:
        """Some messages were added. Raises ApiError if there is no room for them, or the disk fails."""
        assert self._usage is not None
        storage = self._config.storage
        if self._usage.is_full or self._usage.would_exceed(0):
            raise api_error(RESOURCES_EXCEEDED[storage])
        self.log.commit()
        if self.log.backlog_bytes > BACKLOG_BYTES:
            await self.committed()

    async def committed(self) -> None:
        """Wait until all of it is written. Raises ApiError."""
        self.log.commit()
        if failure := await outcome(self.log.when_committed):
            raise api_error("stream_store_failed", err=failure)

    def release(self) -> None:
        """Its bytes no longer count as those of a restore."""
        if self._usage is not None:
            self._usage.leave()
            self._usage = None

    async def discard(self) -> None:
        """Leave nothing behind."""
        self.release()
        self.log.abandon()
        if self._directory:
            await in_thread(remove_tree, self._directory)

    async def publish(self, consumers: list[RestoredConsumer]) -> Stream:
        """Make it a stream of the account, with consumers. Raises ApiError, OSError; then nothing is left.

        The caller has checked that there may be such a stream, and holds the lock for changes of streams.
        """
        if self._directory:
            self._stream = await self._move(consumers)
        stream, account = self._stream, self._account
        self.release()
        try:
            await account.add(stream)
            stream.start(is_new=False)
            await account.jetstream.slices.result(stream.subscribe())
            for meta, state in consumers:
                consumer = Consumer(stream, meta.name, meta.config, meta.created, state)
                stream.consumers[meta.name] = consumer
            for consumer in list(stream.consumers.values()):
                await consumer.count()
                consumer.start()
            stream.on_consumers_recovered()
        except BaseException:
            stream.delete_consumers()
            stream.stop()
            await account.remove(stream)
            await _remove(stream)
            raise
        return stream

    async def _move(self, consumers: list[RestoredConsumer]) -> Stream:
        account, config = self._account, self._config
        await self.committed()
        self.log.abandon()  # everything is written; the index of the last file is made when it is opened
        target = account.stream_directory(config) or ""
        await in_thread(_move_directory, self._directory, target, config, self._created, consumers)
        self._directory = ""
        stream = Stream(account, config, self._created, target)
        try:
            damages = await in_thread(stream.open)
            if damages:
                raise StoreError(damages[0])
        except BaseException:
            await _remove(stream)
            raise
        return stream


async def _remove(stream: Stream) -> None:
    """A stream that was not announced to anybody."""
    stream.log.abandon()
    if stream.directory:
        with suppress(OSError):
            await in_thread(remove_retired, retire_directory(stream.directory, stream.name))


def _move_directory(
    staged: str,
    target: str,
    config: StreamConfig,
    created: int,
    consumers: list[RestoredConsumer],
) -> None:
    """Write what is missing, sync everything, and rename it. Blocks. Raises OSError, StoreError."""
    for meta, state in consumers:
        if _is_stored(meta.config):
            consumer_store.save_new(staged, meta, state)
    messages = os.path.join(staged, MESSAGES)
    for name in os.listdir(messages):
        _sync_file(os.path.join(messages, name))
    sync_directory(messages)
    write_meta(staged, config, created)
    if exists(target):
        if not is_leftover(target):
            raise StoreError(f"{target} holds a stream that could not be read")
        remove_tree(target)
    os.rename(staged, target)
    try:
        sync_directory(os.path.dirname(target))
    except OSError:
        os.rename(target, staged)  # otherwise it would appear after the next start
        raise


def _is_stored(config: ConsumerConfig) -> bool:
    return not (config.mem_storage or config.direct)


def _sync_file(path: str) -> None:
    """With a `sync_interval` the log does not sync what it writes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
