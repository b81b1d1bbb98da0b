"""Reads a range of a stream from its files: snapshots, and another one wherever the files have changed.

The plan
--------
A snapshot says where the messages of the range are. If a segment is gone or was replaced meanwhile (by a
server that removes, rewrites or compresses), the next snapshot is taken at the next sequence, and reading
continues there. A record that fails its checksum is looked for in another snapshot, too, because a server may
be erasing it just then. If it fails there as well, it is damaged: a server passes over it, and so do we, and
say so at the end.

The rules
---------
* Every row was verified against its checksum, the salt of its segment and its sequence.
* The range is complete, or this raises, as `Fetch` does: for the same reasons, in the same words.
* With `stops_at_damage` it ends before the first message that cannot be read here, and before the end of the
  range if the files do not reach that far. `next_seq` is where to continue, by asking the server. It raises
  StoreUnreadable if damage was found when the files were opened.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.client.columns import Columns
from headrace.client.errors import FetchFailed, StoreUnreadable
from headrace.client.fetch import Batch, check_end, check_head, check_identity
from headrace.client.ranges import Range
from headrace.client.stored_rows import StoredRows
from headrace.engine.basics.filters import Filter

if TYPE_CHECKING:
    from headrace.client.api import StreamInfo
    from headrace.client.store_directory import StoreDirectory
    from headrace.engine.store.snapshot import Snapshot

CHANGED = (errno.ENOENT, errno.ESTALE)
"""What a reader meets where a server has removed or replaced a file."""
ATTEMPTS = 100
"""Snapshots without a row between them, before this gives up."""


class StoredFetch:
    """One range. `batches` may be iterated once."""

    def __init__(
        self,
        directory: StoreDirectory,
        wanted: Range,
        *,
        stops_at_damage: bool = False,
    ) -> None:
        self._directory = directory
        self._stream = wanted.stream
        self._last = wanted.last
        self._filter = Filter(tuple(subject.encode() for subject in wanted.filters))
        self._fail_on_loss = wanted.fail_on_loss
        self._stops_at_damage = stops_at_damage
        self._columns = wanted.columns()
        self.created = directory.meta(wanted.stream).created
        self.next_seq = wanted.first
        self._doubted = 0  # the message for whose sake the last snapshot was taken
        self._damaged: list[int] = []
        self._rows = self._open()

    def batches(self, take: Callable[[Columns], Batch]) -> Iterator[Batch]:
        """What `take` makes of the columns whenever they are full, and at the end."""
        columns = self._columns
        attempts = 0
        while self.next_seq <= self._end:
            seen = self.next_seq
            try:
                self._rows.fill(columns)
                self.next_seq = self._rows.next_seq
                if self._rows.damaged and not self._pass_over():
                    break
            except OSError as error:
                self.next_seq = self._rows.next_seq
                if error.errno not in CHANGED:
                    raise StoreUnreadable(f"{self._directory.path}: {error.strerror}") from None
                self._rows = self._open()
            attempts = 0 if self.next_seq > seen else attempts + 1
            if attempts > ATTEMPTS:
                raise FetchFailed(
                    f"the files of the stream {self._stream} are replaced faster than they can be read",
                    hint="read it through the server",
                )
            if columns.full:
                yield take(columns)
        if columns.rows:
            yield take(columns)
        if self._damaged:
            self._directory.report(
                f"{len(self._damaged):,} messages of the stream {self._stream}, the first is "
                f"{self._damaged[0]}, are damaged: they are not among the rows"
            )

    def _open(self) -> StoredRows:
        """What the files have now, from the next sequence on."""
        info, snapshot = self._directory.examine(self._stream, _both, self.next_seq, self._last)
        check_identity(info, self.created)
        if not self._stops_at_damage:
            check_end(info, self._last)
        elif snapshot.damages:
            raise StoreUnreadable(snapshot.damages[0])  # what is lost there is not even known
        if self._fail_on_loss and self.next_seq <= info.last_seq:
            self._check_head(snapshot.next_live(self.next_seq))
        self._end = min(self._last, info.last_seq)
        self._is_confirmed = False
        return StoredRows(snapshot, self._filter, self.next_seq, self._end)

    def _check_head(self, found: int) -> None:
        """A message that is not there was deleted, or the head of the stream is gone: look at all of it."""
        if found > self.next_seq:
            info, _ = self._directory.examine(self._stream, _both)
            check_head(info, self.next_seq)

    def _pass_over(self) -> bool:
        """The next message is damaged, perhaps. False: this is the end."""
        if not self._is_confirmed and self._doubted != self.next_seq:
            self._doubted = self.next_seq
            self._rows = self._open()
            return True
        if self._stops_at_damage:
            return False
        self._is_confirmed = True  # nor is it worth while to look for the others of these files again
        self._damaged.append(self.next_seq)
        self._rows.pass_over()
        self.next_seq = self._rows.next_seq
        return True


def _both(info: StreamInfo, snapshot: Snapshot) -> tuple[StreamInfo, Snapshot]:
    return info, snapshot
