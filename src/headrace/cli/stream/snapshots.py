"""The protocol of `STREAM.SNAPSHOT` and `STREAM.RESTORE`, between a server and a directory.

A snapshot: we ask with an inbox, the server answers with configuration and state, then sends the archive to
the inbox in chunks. A chunk with a reply subject wants an empty answer, which is flow control. An empty chunk
ends it, with a status if something went wrong. We subscribe after the answer, as the nats tool does: the
server waits for interest, and a chunk cannot overtake the answer.

A restore: we send configuration and state, the server answers with a subject for the chunks, and acknowledges
each. An empty one ends it; its answer comes when the stream is there.

Files get their names when they are complete, so a backup that fails leaves the one before it alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from headrace.cli.stream.api import Api
from headrace.cli.stream.progress import Progress
from headrace.client import ApiError, ConnectionFailed, RequestTimeout
from headrace.client.api import decode
from headrace.client.connection import ServerConnection
from headrace.client.frames import ConnectionEnded
from headrace.client.status import parse_status
from headrace.errors import HeadraceError, UsageError

ARCHIVE = "stream.tar.s2"
DESCRIPTION = "backup.json"
PARTIAL = ".partial"
CHUNK_BYTES = 128 * 1024  # what the nats tool asks for
RESTORE_CHUNK_BYTES = 64 * 1024
SILENCE_SECONDS = 30.0
RESTORING_SECONDS = 3600.0  # the server reads all messages before it answers
NO_CONTENT = 204

Document = dict[str, Any]


class BackupFailed(HeadraceError):
    """The server ended a snapshot or a restore, or went silent."""


def take_snapshot(
    api: Api, stream: str, directory: str, request: Document, *, shown: bool
) -> tuple[Document, int]:
    """Write the backup; returns the stream's state and the size of the archive."""
    place = Path(directory)
    archive = place / (ARCHIVE + PARTIAL)
    is_new = not place.exists()
    api.stream_info(stream)  # unknown names are reported before the directory is made
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with archive.open("wb") as file, api.client.connection() as connection:
            description = _receive(api, connection, stream, request, file, shown=shown)
            file.flush()
            os.fsync(file.fileno())
        partial = place / (DESCRIPTION + PARTIAL)
        partial.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        archive.replace(place / ARCHIVE)
        partial.replace(place / DESCRIPTION)
    except OSError as error:
        if isinstance(error, ConnectionEnded):
            raise
        raise UsageError(f"cannot write the backup to {directory}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):  # there is no directory, or it is not empty: it has a backup
            archive.unlink(missing_ok=True)
            if is_new:
                place.rmdir()
    return description["state"], (place / ARCHIVE).stat().st_size


def _receive(
    api: Api, connection: ServerConnection, stream: str, request: Document, file: Any, *, shown: bool
) -> Document:
    inbox = f"_INBOX.{secrets.token_hex(11)}"
    body = {"deliver_subject": inbox, "chunk_size": CHUNK_BYTES, **request}
    answer = api.call(f"STREAM.SNAPSHOT.{stream}", body, what=f"stream {stream}")
    sid = connection.subscribe(inbox)
    with Progress("backing up", answer["state"]["bytes"], in_bytes=True, shown=shown) as progress:
        while True:
            event = connection.frames.next(SILENCE_SECONDS)
            if event is None:
                raise BackupFailed(
                    f"the backup of {stream} stopped: the server sent nothing for {SILENCE_SECONDS:g} s"
                )
            if event.sid != sid:
                connection.handle(event)
            elif event.payload:
                if event.reply:
                    connection.publish(event.reply.decode(), b"")
                file.write(event.payload)
                progress.advance(len(event.payload))
            else:
                break
    connection.unsubscribe(sid)
    status = parse_status(event.headers)
    if status.code not in (0, NO_CONTENT):
        reason = status.text or status.headers.get("Description", "")
        raise BackupFailed(f"the server ended the backup of {stream}: {status.code} {reason}".rstrip())
    return {"config": answer["config"], "state": answer["state"]}


def read_backup(directory: str) -> Document:
    """`backup.json`. Raises UsageError if this is not the directory of a complete backup."""
    path = Path(directory, DESCRIPTION)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        Path(directory, ARCHIVE).stat()
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise UsageError(
            f"{directory} is not a backup: it has no {missing}", hint="`headrace stream backup` writes one"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot read {directory}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from None
    config = document.get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict) or not isinstance(document.get("state"), dict):
        raise UsageError(f"{path} does not describe a stream: it needs a config and a state")
    name = config.get("name")
    if not isinstance(name, str) or not name or any(letter <= " " or letter in ".*>/\\" for letter in name):
        raise UsageError(f"{path} has no valid name of a stream: {name!r}")
    return {"config": config, "state": document["state"]}


def restore_snapshot(api: Api, directory: str, request: Document, *, shown: bool) -> Document:
    """Re-create the stream; returns its info. Raises UsageError if there is one of that name."""
    name = request["config"]["name"]
    what = f"stream {name} was not restored"
    if name in api.stream_names():
        raise UsageError(
            f"there is a stream {name} already", hint=f"remove it first: `headrace stream rm {name}`"
        )
    path = Path(directory, ARCHIVE)
    try:
        with path.open("rb") as file, api.client.connection() as connection:
            answer = api.call(f"STREAM.RESTORE.{name}", request, what=what)
            subject = answer["deliver_subject"]
            with Progress("restoring", path.stat().st_size, in_bytes=True, shown=shown) as progress:
                while chunk := file.read(min(RESTORE_CHUNK_BYTES, connection.max_payload)):
                    _send(connection, subject, chunk, what)
                    progress.advance(len(chunk))
                return _send(connection, subject, b"", what)
    except OSError as error:
        if isinstance(error, ConnectionEnded):
            raise
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def _send(connection: ServerConnection, subject: str, chunk: bytes, what: str) -> Document:
    """The answer to a chunk: empty for all but the last, or an error."""
    try:
        answer = connection.request(subject, chunk, SILENCE_SECONDS if chunk else RESTORING_SECONDS)
    except ConnectionEnded as error:
        raise ConnectionFailed(f"{what}: lost the connection: {error}") from None
    except RequestTimeout:
        raise BackupFailed(f"{what}: the server does not take the archive any more") from None
    if chunk and not answer:
        return {}
    try:
        created: Document = decode(answer, dict, what)
    except ApiError as error:
        raise BackupFailed(str(error), hint=error.hint) from None
    created.pop("type", None)
    return created
