"""Sources: messages of other streams are stored here, too, as new messages with their origin in a header.

Nats-Stream-Source is `<stream> <sequence> <filter> <transform> <subject> <identity>`. Stream, filter and
transform identify a source of the stream. The identity is that of the origin's creation: a stream that was
deleted and re-created is read from its start. Where a source resumes after a restart is in
source_positions.py.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from headrace.streams import headers
from headrace.streams.errors import ApiError
from headrace.streams.formats import format_time, parse_store_time
from headrace.streams.ingest.publication import Duplicate, Publication
from headrace.streams.origins.follower import Follower, first_to_read
from headrace.streams.origins.source_positions import Position, Positions
from headrace.streams.slices import RETRY_SECONDS
from headrace.subjects import grammar

if TYPE_CHECKING:
    from headrace.engine.store.readings import Stored
    from headrace.streams.config import StreamSource
    from headrace.streams.ingest.intake import Intake
    from headrace.streams.stream import Stream

_HASH_DIGITS = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_HASH_LENGTH = 8


def short_hash(text: str) -> str:
    """Eight characters, the same as in nats-server, because they are stored in headers."""
    digest = hashlib.sha256(text.encode()).digest()[:_HASH_LENGTH]
    return bytes(_HASH_DIGITS[byte % len(_HASH_DIGITS)] for byte in digest).decode()


def identity(stream: Stream) -> str:
    return short_hash(format_time(stream.created))


def index_name(config: StreamSource) -> str:
    """Identifies a source of the stream: `<stream> <filter> <transform>`."""
    name = config.name
    if config.external is not None:
        name += ":" + short_hash(config.external.api)
    if config.consumer is not None:
        name += ":C=" + short_hash(config.consumer.name)
    everything = grammar.FULL_WILDCARD
    if not config.subject_transforms:
        return f"{name} {config.filter_subject or everything} {everything}"
    filters = "\f".join(transform.src or everything for transform in config.subject_transforms)
    targets = "\f".join(transform.dest or everything for transform in config.subject_transforms)
    return f"{name} {filters} {targets}"


class Source:
    """One of a stream's sources."""

    def __init__(self, intake: Intake, config: StreamSource, positions: Positions) -> None:
        self._intake = intake
        self.config = config
        self._positions = positions
        self._name, self._pattern, self._target = index_name(config).split(" ")
        self._identity = ""
        self.follower = Follower(intake.stream, config, self._begin, self._copy)

    @property
    def index_name(self) -> str:
        return f"{self._name} {self._pattern} {self._target}"

    def info(self) -> dict[str, Any]:
        """As stream info shows it, with the origin's sequence that was read last."""
        position = self._positions.get(self.index_name)
        return {**self.follower.info(), **({"seq": position.seq} if position else {})}

    def _begin(self, origin: Stream) -> int:
        self._identity = identity(origin)
        position = self._positions.get(self.index_name)
        if position is not None and position.identity in ("", self._identity):
            return first_to_read(origin, position.seq + 1)
        return first_to_read(origin, self._first_wanted(origin, was_read=position is not None))

    def _first_wanted(self, origin: Stream, *, was_read: bool) -> int:
        """As configured; a stream without its early messages starts at the time of its last one."""
        config, log = self.config, self._intake.log
        if config.opt_start_seq:
            return config.opt_start_seq
        if config.opt_start_time is not None:
            return origin.log.seek_time(max(parse_store_time(config.opt_start_time), log.last_time))
        if log.first_seq > 1 and log.last_time and not was_read:
            return origin.log.seek_time(log.last_time)
        return 1

    def _copy(self, message: Stored) -> bool:
        block = headers.remove(message.headers, headers.STREAM_SOURCE)
        block = headers.remove_prefixed(block, headers.EXPECTED_PREFIX)
        block = headers.remove_prefixed(block, headers.BATCH_PREFIX)
        prefix = f"{self._name} {message.seq} {self._pattern} {self._target} ".encode()
        origin = prefix + message.subject + b" " + self._identity.encode()
        block = headers.append(block, headers.STREAM_SOURCE, origin)
        subject = self.follower.transformed(message.subject)
        publication = Publication(subject, b"", block, message.payload, is_sourced=True)
        try:
            self._intake.accept(publication)
        except Duplicate:
            pass
        except ApiError:
            return False
        self._positions.advance(self.index_name, Position(message.seq, self._identity))
        return True


class Sources:
    """All sources of a stream."""

    def __init__(self, intake: Intake, positions: Positions) -> None:
        self._intake = intake
        self._positions = positions
        self._sources: list[Source] = []

    def follow(self, configs: list[StreamSource]) -> None:
        """Follow these from now on; those that are followed already continue."""
        wanted = {index_name(config): config for config in configs}
        kept = {
            source.index_name: source
            for source in self._sources
            if wanted.get(source.index_name) == source.config
        }
        for source in self._sources:
            if source.index_name not in kept:
                source.follower.stop()
        added = [
            Source(self._intake, config, self._positions)
            for name, config in wanted.items()
            if name not in kept
        ]
        self._sources = [*kept.values(), *added]
        if added:
            self._start(added)

    def _start(self, added: list[Source]) -> None:
        """Start those when it is known how far they were read, unless they are no longer followed by then."""
        slices = self._intake.stream.jetstream.slices
        search = self._positions.recover({source.index_name for source in added})

        def step() -> bool:
            followed = set(self._sources)
            wanted = [source for source in added if source in followed]
            try:
                is_found = not wanted or next(search, search) is search
            except OSError:  # the stream cannot be read at present
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._start, wanted)
                return True
            if is_found:
                for source in wanted:
                    source.follower.start()
            return is_found

        slices.add(step)

    def stop(self) -> None:
        sources, self._sources = self._sources, []
        for source in sources:
            source.follower.stop()
        self._positions.save()

    def after_commit(self) -> None:
        self._positions.after_commit()
        for source in self._sources:
            source.follower.after_own_commit()

    @property
    def followers(self) -> list[Follower]:
        return [source.follower for source in self._sources]

    def info(self) -> list[dict[str, Any]]:
        return [source.info() for source in self._sources]
