"""Streams of a server, read from the files in its storage directory: no server is needed, and none is asked.

    directory = StoreDirectory("/var/lib/headrace")
    info = directory.stream_info("ORDERS")
    for batch in directory.fetch_range("ORDERS", info.first_seq, info.last_seq):
        ...                                    # a pyarrow.RecordBatch

It answers as a Client does. The directory may be that of a stopped server, of a running one, or a copy. It is
only read: see engine/store/snapshot.pyx. What a server that runs has written and not synced is synced before
it is shown. Limits of age are not applied: messages expire when a server removes them.

    <directory>/jetstream/<account>/streams/<name>/meta.json, msgs/
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, Unpack

import msgspec

from headrace.client.api import StreamConfig, StreamInfo, StreamState, stream_info_of
from headrace.client.client import check_name
from headrace.client.errors import STREAM_NOT_FOUND, StoreUnreadable, StreamNotFound, UsageError
from headrace.client.ranges import Range, RangeOptions
from headrace.client.stored_fetch import CHANGED, StoredFetch
from headrace.engine.store.snapshot import Snapshot
from headrace.on_disk.checked_file import body_of
from headrace.on_disk.torn_batches import torn_batch
from headrace.unreadable import UNREADABLE_JSON

if TYPE_CHECKING:
    import pyarrow as pa

JETSTREAM, STREAMS, META, MESSAGES = "jetstream", "streams", "meta.json", "msgs"
META_OF_NATS_SERVER = "meta.inf"
DEFAULT_ACCOUNT = "$G"
ATTEMPTS = 100
MOST_NAMED = 20
"""Streams that an error names, and damages that are reported."""

Answer = TypeVar("Answer")


class Meta(msgspec.Struct):
    """The part of meta.json that reading needs."""

    config: StreamConfig
    created: int


def ignore(line: str) -> None:
    """Where nobody wants to hear of damage."""


class StoreDirectory:
    """`report` is called with a line about each damage: what it hit is not among the rows."""

    def __init__(self, path: str, report: Callable[[str], None] = ignore) -> None:
        self.path = path
        self.report = report

    def close(self) -> None:
        """Nothing is open between calls."""

    # -- finding streams ------------------------------------------------------------------------------------

    def streams_directory(self) -> str:
        """Where the account's streams are. Raises StoreUnreadable, UsageError.

        The path may be the storage directory of a server, whose global account is read; `jetstream` in it;
        or the directory of an account there.
        """
        names = self._list(self.path)
        if STREAMS in names:
            return os.path.join(self.path, STREAMS)
        inner = os.path.join(self.path, JETSTREAM) if JETSTREAM in names else self.path
        accounts = [
            name for name in sorted(self._list(inner)) if os.path.isdir(os.path.join(inner, name, STREAMS))
        ]
        if DEFAULT_ACCOUNT in accounts:
            return os.path.join(inner, DEFAULT_ACCOUNT, STREAMS)
        if accounts:
            raise UsageError(
                f"{self.path} has streams of the accounts {_listed(accounts)}",
                hint=f"name the directory of one of them: {os.path.join(inner, accounts[0])}",
            )
        raise UsageError(
            f"{self.path} is not the storage directory of a headrace server: it has no jetstream/*/streams",
            hint="give the directory that `headrace serve --store` or `-sd` names",
        )

    def stream_names(self) -> list[str]:
        """All streams with files, sorted."""
        return self._names(self.streams_directory())

    def messages_directory(self, stream: str) -> str:
        return os.path.join(self.streams_directory(), check_name(stream), MESSAGES)

    def meta(self, stream: str) -> Meta:
        """Raises StreamNotFound, StoreUnreadable."""
        streams = self.streams_directory()
        path = os.path.join(streams, check_name(stream), META)
        try:
            with open(path, "rb") as file:
                return msgspec.json.decode(body_of(file.read()), type=Meta)
        except FileNotFoundError:
            raise self._not_found(streams, stream) from None
        except OSError as error:
            raise unreadable(path, error) from None
        except (ValueError, *UNREADABLE_JSON) as error:
            raise StoreUnreadable(f"{path}: {error}") from None

    def _not_found(self, streams: str, stream: str) -> StreamNotFound | UsageError:
        if os.path.exists(os.path.join(streams, stream, META_OF_NATS_SERVER)):
            return UsageError(
                f"the stream {stream} in {self.path} was written by nats-server, whose files cannot be read",
                hint="read it through a server, or restore a backup of it with headrace",
            )
        names = self._names(streams)
        return StreamNotFound(
            f"stream {stream}: there is no such stream in {self.path}",
            hint=f"it has {_listed(names) or 'none'}; streams in memory have no files, "
            "and other accounts have directories of their own",
            code=404,
            err_code=STREAM_NOT_FOUND,
            description="stream not found",
        )

    def _names(self, streams: str) -> list[str]:
        return sorted(name for name in self._list(streams) if os.path.exists(f"{streams}/{name}/{META}"))

    def _list(self, path: str) -> list[str]:
        try:
            return os.listdir(path)
        except OSError as error:
            raise unreadable(path, error) from None

    # -- what a stream has ----------------------------------------------------------------------------------

    def examine(
        self,
        stream: str,
        question: Callable[[StreamInfo, Snapshot], Answer],
        first: int = 0,
        last: int = 2**64 - 1,
    ) -> Answer:
        """The answer to a question about a stream and its files, as far as they have messages of this range.

        It is asked again if the files are replaced meanwhile. Raises StreamNotFound, StoreUnreadable.
        """
        for attempt in range(ATTEMPTS):
            meta = self.meta(stream)
            directory = self.messages_directory(stream)
            try:
                snapshot = Snapshot(directory, first, last)
                answer = question(_info(meta, snapshot), snapshot)
            except OSError as error:
                is_same = self.meta(stream).created == meta.created
                if error.errno not in CHANGED or (is_same and attempt == ATTEMPTS - 1):
                    raise unreadable(directory, error) from None
                continue
            if self.meta(stream).created == meta.created:
                return answer
        raise StoreUnreadable(f"{self.path}: the stream {stream} is deleted and re-created without a pause")

    def stream_info(self, stream: str) -> StreamInfo:
        """The stream as it is now; what it includes is on disk. Raises StreamNotFound, StoreUnreadable."""
        info, damages = self.examine(stream, _synced_info)
        for line in damages[:MOST_NAMED]:
            self.report(line)
        return info

    def deleted_sequences(self, stream: str) -> list[int]:
        """Those between the first and the last of a stream that have no message any more, in order."""
        return self.examine(stream, lambda info, snapshot: snapshot.deleted())

    def seq_at_time(self, stream: str, time_ns: int) -> int:
        """The first sequence that was stored at this time or later; one after the last if there is none."""

        def find(info: StreamInfo, snapshot: Snapshot) -> int:
            snapshot.sync()
            if info.messages == 0 or time_ns > info.last_time:
                return info.last_seq + 1
            return min(snapshot.seek_time(max(time_ns, 0)), info.last_seq + 1)

        return self.examine(stream, find)

    # -- columns --------------------------------------------------------------------------------------------

    def fetch_range(
        self, stream: str, first: int, last: int, **options: Unpack[RangeOptions]
    ) -> Iterator[pa.RecordBatch]:
        """The messages with first <= seq <= last, in order, as record batches: as `Client.fetch_range`."""
        from headrace.client.arrays import Batches

        wanted = Range(stream, first, last, **options)
        if wanted.is_empty:
            self.meta(stream)
            return iter(())
        return StoredFetch(self, wanted).batches(Batches(stream, wanted.batch_rows).take)


def _info(meta: Meta, snapshot: Snapshot) -> StreamInfo:
    """What a snapshot says about the stream; the counts are those of the range that it was taken for."""
    torn = torn_batch(snapshot.get, snapshot.last_seq)
    state = StreamState(
        messages=snapshot.count - len(torn),
        bytes=snapshot.byte_count,
        first_seq=snapshot.first_seq,
        last_seq=snapshot.last_seq - len(torn),
    )
    return stream_info_of(
        meta.config, state, created=meta.created, first_time=0, last_time=snapshot.last_time
    )


def _synced_info(info: StreamInfo, snapshot: Snapshot) -> tuple[StreamInfo, list[str]]:
    snapshot.sync()
    first_time = snapshot.first_time if snapshot.count else 0
    return msgspec.structs.replace(info, first_time=first_time), snapshot.damages


def unreadable(path: str, error: OSError) -> StoreUnreadable:
    return StoreUnreadable(
        f"{path}: {(error.strerror or str(error)).lower()}",
        hint="the storage directory must be readable where the stream is read",
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
