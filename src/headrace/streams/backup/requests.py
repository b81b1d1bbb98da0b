"""The API of backups: `STREAM.SNAPSHOT` and `STREAM.RESTORE`.

The response says that the transfer begins. The rest is between the server and the receiver or sender of the
chunks, and other requests about the stream are handled in the meantime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.streams.api.advisories import client_info
from headrace.streams.api.dispatch import Request, Route
from headrace.streams.api.json_requests import decode
from headrace.streams.api.stream_requests import check_new, find_stream
from headrace.streams.backup.documents import RestoreRequest, SnapshotRequest
from headrace.streams.backup.restore import Restore
from headrace.streams.backup.snapshot import Snapshot
from headrace.streams.errors import api_error
from headrace.streams.stream_rules import check_single_server, check_stream_config
from headrace.subjects.grammar import is_valid_publish_subject

if TYPE_CHECKING:
    from headrace.streams.jetstream_account import JetStreamAccount

Fields = dict[str, Any]


def snapshot_stream(account: JetStreamAccount, request: Request) -> Fields:
    if request.is_empty:
        raise api_error("bad_request")
    stream = find_stream(account, request.stream)
    asked = decode(request.payload, SnapshotRequest, strict=account.jetstream.strict)
    if not is_valid_publish_subject(asked.deliver_subject):
        raise api_error("snapshot_deliver_subject_invalid")
    snapshot = Snapshot(stream, asked, _client(account, request))
    account.transfers.start(snapshot.run(), f"Snapshot of stream '{account.name} > {stream.name}'")
    return {"config": stream.config, "state": snapshot.state}


async def restore_stream(account: JetStreamAccount, request: Request) -> Fields:
    if request.is_empty:
        raise api_error("bad_request")
    config = decode(request.payload, RestoreRequest, strict=account.jetstream.strict).config
    config.name = config.name or request.stream
    if config.name != request.stream:
        raise api_error("stream_mismatch")
    if "/" in config.name or "\\" in config.name:
        raise api_error("stream_name_contains_path_separators")
    slices = account.jetstream.slices
    config = await slices.result(check_stream_config(config, account.resources, pedantic=False))
    check_single_server(config)
    if config.name in account.streams:
        raise api_error("stream_name_exist_restore_failed")
    await slices.result(check_new(account, config))
    restore = Restore(account, config, _client(account, request))
    account.transfers.start(restore.run(), f"Restore of stream '{account.name} > {config.name}'")
    return {"deliver_subject": restore.subject}


def _client(account: JetStreamAccount, request: Request) -> Fields:
    return client_info(request.publisher, account.jetstream.server_name, account.name)


ROUTES = (
    Route("STREAM.SNAPSHOT.*", "stream_snapshot_response", snapshot_stream),
    Route("STREAM.RESTORE.*", "stream_restore_response", restore_stream, {"deliver_subject": ""}),
)
