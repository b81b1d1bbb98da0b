"""The duplicate window of Nats-Msg-Ids: a message whose id is in it is not stored again.

The window itself is in the engine's sink, which checks most publishes. It is not saved: every stored message
has its id in its headers, so after a restart the window is filled from recent messages. That is done in
slices while the server is running; the first publish with an id waits for the rest of it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.streams import headers

if TYPE_CHECKING:
    from headrace.engine.store.log import Log
    from headrace.engine.streams.stream_sink import StreamSink

SLICE_MESSAGES = 2000
PAUSE_SECONDS = 0.005
RETRY_SECONDS = 1.0


class DuplicateWindowRecovery:
    """Recovers the ids of all stored messages within the window, and the id of the last message."""

    def __init__(self, sink: StreamSink, log: Log, now: int) -> None:
        self._sink = sink
        last = log.get(log.last_seq)
        sink.last_msg_id = headers.text(last.headers, headers.MSG_ID) if last else b""
        self._handle: asyncio.TimerHandle | None = None
        if sink.duplicates.length:
            sink.duplicates.recover(log.seek_time(now - sink.duplicates.length))
            self._schedule_slice()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _schedule_slice(self) -> None:
        self._handle = asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._read_slice)

    def _read_slice(self) -> None:
        try:
            if self._sink.duplicates.recover_some(SLICE_MESSAGES):
                self._schedule_slice()
            else:
                self._handle = None
        except OSError:  # the log cannot be read at present
            self._handle = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._read_slice)
