"""The window of Nats-Msg-Ids: a message whose id is in it was stored already, and is not stored again.

The window itself is in the engine's sink, which checks most publishes. It is not kept on disk: every stored
message has its id in its headers, so after a restart it is filled from the messages that are young enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.filters import Filter
from headrace.streams import headers

if TYPE_CHECKING:
    from headrace.engine.log import Log
    from headrace.engine.stream_sink import StreamSink

_ALL = Filter(())


def refill(sink: StreamSink, log: Log, now: int) -> None:
    """Remember the ids of all stored messages within the window, and that of the last message."""
    last_msg_id = b""
    seq = log.seek_time(now - sink.duplicate_window) if sink.duplicate_window else log.last_seq
    while (message := log.next(seq, _ALL)) is not None:
        last_msg_id = headers.text(message.headers, headers.MSG_ID)
        if last_msg_id:
            sink.remember(last_msg_id, message.seq, message.time)
        seq = message.seq + 1
    sink.last_msg_id = last_msg_id
