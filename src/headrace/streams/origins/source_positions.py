"""How far each source of a stream was read, and how that is recovered after a restart.

Every message from a source says in its Nats-Stream-Source header where it came from, so the stream itself
knows. But messages are consumed, purged and expire. So the positions are also written to a small file now
and then, with the stream's own last sequence at that time: messages stored after it are read. The file never
knows more than what is on disk in the stream. It is not synced: if it is lost, the stream is searched from
its end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from headrace.engine.basics.filters import Filter
from headrace.streams import headers
from headrace.unreadable import UNREADABLE_JSON

if TYPE_CHECKING:
    from headrace.engine.store.log import Log

FILE_NAME = "sources.json"
SAVE_INTERVAL_SECONDS = 1.0
STEP_MESSAGES = 500
"""Messages that a step reads; about half a millisecond."""
LARGEST_SEQ = (1 << 64) - 2
_ALL = Filter(())


class Position(msgspec.Struct):
    seq: int
    identity: str = ""


class _File(msgspec.Struct):
    last_seq: int
    positions: dict[str, Position]


class Positions:
    def __init__(self, log: Log, directory: str | None) -> None:
        self._log = log
        self._path = os.path.join(directory, FILE_NAME) if directory else None
        self._positions: dict[str, Position] = {}
        self._saved: _File | None = None
        self._changed = False
        self._searches = 0
        self._saved_at = 0.0

    def load(self) -> None:
        """Read the file. A missing or damaged one counts as none.

        Raises OSError if it cannot be read: without it, messages that were consumed would be copied again.
        """
        if self._path is None:
            return
        try:
            with open(self._path, "rb") as file:
                self._saved = msgspec.json.decode(file.read(), type=_File)
        except (FileNotFoundError, *UNREADABLE_JSON):
            self._saved = None

    def get(self, index_name: str) -> Position | None:
        return self._positions.get(index_name)

    def advance(self, index_name: str, position: Position) -> None:
        self._positions[index_name] = position
        self._changed = True

    def recover(self, wanted: set[str]) -> Generator[None, None, None]:
        """Find the unknown positions of these sources: in the file, and in newer messages.

        Without a file, as many messages are read as needed. That may be all, so it works in slices. Raises
        OSError if the stream cannot be read at present.
        """
        wanted = wanted - self._positions.keys()
        saved = self._saved if wanted else None
        self._searches += 1  # a file without these positions would be mistaken for a complete one
        try:
            if saved is None or saved.last_seq > self._log.last_seq:
                yield from self._search_backwards(wanted)
            else:
                yield from self._search_newer(wanted, saved)
        finally:
            self._searches -= 1

    def _search_newer(self, wanted: set[str], saved: _File) -> Generator[None, None, None]:
        positions = {name: saved.positions[name] for name in wanted & saved.positions.keys()}
        seq = saved.last_seq + 1
        for read in count(1):
            message = self._log.next(seq, _ALL)
            if message is None:
                break
            found = parse_header(message.headers)
            if found is not None and found[0] in wanted:
                positions[found[0]] = found[1]
            seq = message.seq + 1
            if read % STEP_MESSAGES == 0:
                yield
        self._positions = positions | self._positions

    def after_commit(self) -> None:
        """Save, if it is time and everything that was read is on disk."""
        is_on_disk = self._log.committed_seq >= self._log.last_seq
        if self._changed and is_on_disk and time.monotonic() - self._saved_at >= SAVE_INTERVAL_SECONDS:
            self.save()

    def save(self) -> None:
        if (
            self._path is None
            or not self._changed
            or self._searches
            or self._log.committed_seq < self._log.last_seq
        ):
            return
        saved = _File(self._log.last_seq, self._positions.copy())
        body = msgspec.json.encode(saved)
        temporary = self._path + ".new"
        with suppress(OSError):  # the disk is full: the next write is soon enough
            with open(temporary, "wb") as file:
                file.write(body)
            os.rename(temporary, self._path)
            self._saved = saved
            self._changed = False
        self._saved_at = time.monotonic()

    def _search_backwards(self, wanted: set[str]) -> Generator[None, None, None]:
        seq = self._log.previous(self._log.last_seq)
        for read in count(1):
            if not wanted or not seq:
                return
            message = self._log.get(seq)
            found = parse_header(message.headers) if message is not None else None
            if found is not None and found[0] in wanted:
                self._positions.setdefault(*found)
                wanted.discard(found[0])
            seq = self._log.previous(seq - 1)
            if read % STEP_MESSAGES == 0:
                yield


def parse_header(block: bytes) -> tuple[str, Position] | None:
    """Which source a message came from, and its sequence there. None if it came from none."""
    value = headers.text(block, headers.STREAM_SOURCE)
    fields = value.decode("utf-8", "replace").split(" ") if value else []
    if len(fields) < 4 or not (fields[1].isascii() and fields[1].isdigit()):
        return None
    name = " ".join((fields[0], fields[2], fields[3]))
    return name, Position(min(int(fields[1][:20]), LARGEST_SEQ), fields[5] if len(fields) >= 6 else "")
