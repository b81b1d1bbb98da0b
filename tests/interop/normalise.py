"""What must differ between two servers is replaced by its name; everything else is compared byte for byte.

INFO is compared only in the sessions that are about it; elsewhere it shows that it came, so that one missing
field does not fail every session. It is compared as JSON with sorted keys: every field has to be there, with
the same value unless it identifies this server, this build or this connection. Those become placeholders
that still show whether the value was the expected one: the port, one client_id throughout.
"""

from __future__ import annotations

import json
import re

IDENTITY_FIELDS = frozenset({"server_id", "server_name", "version", "go", "nonce"})

# The commit it was built from and its key for authentication callouts: a server may have none to announce.
OPTIONAL_FIELDS = frozenset({"git_commit", "xkey"})

_INFO = re.compile(rb"(?m)^INFO ([^\r]*)\r$")
_MESSAGE = re.compile(rb"H?MSG [^\r\n]* (\d+)\r\n")
_RESPONSE = re.compile(rb"_R_\.\w{6}\.\w{6}(\.\w{8}\.T)?(?=[ \r])")
_SIZES = re.compile(rb" \d+ \d+(?=\r)")
_REQUESTOR = re.compile(rb'"(rtt|start|id|host|server)":("[^"]*"|\d+)')


class Normaliser:
    """Normalises the answers of one connection; it remembers the client_id that this connection was given."""

    def __init__(self, port: int, *, whole_info: bool) -> None:
        self._port = port
        self._whole_info = whole_info
        self._client_id: object = None

    def normalise(self, answer: bytes, *, any_order: bool = False) -> bytes:
        answer = _INFO.sub(self._info, answer)
        if b"Nats-Request-Info" in answer or b"_R_." in answer:
            answer = b"".join(map(without_requestor, split_frames(answer)))
        return b"".join(sorted(split_frames(answer))) if any_order else answer

    def _info(self, match: re.Match[bytes]) -> bytes:
        text = match.group(1)
        try:
            fields = json.loads(text)
        except ValueError:
            return match.group()
        for key in OPTIONAL_FIELDS & fields.keys():
            del fields[key]
        for key in fields:
            if key in IDENTITY_FIELDS:
                fields[key] = f"<{key}>"
        if fields.get("port") == self._port:
            fields["port"] = "<port>"
        if "client_id" in fields:
            self._client_id = self._client_id or fields["client_id"]
            fields["client_id"] = "<this>" if fields["client_id"] == self._client_id else "<another>"
        if not self._whole_info:
            return b"INFO <connected>\r" if fields.get("connect_info") else b"INFO <greeting>\r"
        padding = text[len(text.rstrip(b" ")) :]
        return b"INFO " + json.dumps(fields, sort_keys=True).encode() + padding + b"\r"


def without_requestor(frame: bytes) -> bytes:
    """A request from another account without its own reply subject, and what differs about who asks."""
    frame = _RESPONSE.sub(b"<response>", frame)
    if b"Nats-Request-Info: " in frame:
        frame = _SIZES.sub(b" <sizes>", frame, count=1)
        frame = _REQUESTOR.sub(rb'"\1":<\1>', frame)
    return frame


def without_pings(answer: bytes) -> bytes:
    """The answer without the server's own PINGs: on a busy machine a session may last until the first one."""
    if b"PING\r\n" not in answer:
        return answer
    return b"".join(frame for frame in split_frames(answer) if frame != b"PING\r\n")


def count_messages(answer: bytes) -> int:
    """How many whole messages there are."""
    return sum(
        1
        for frame in split_frames(answer)
        if (head := _MESSAGE.match(frame)) and len(frame) >= head.end() + int(head.group(1)) + 2
    )


def split_frames(answer: bytes) -> list[bytes]:
    """The answer cut into protocol operations; a message keeps its payload."""
    frames = []
    while answer:
        message = _MESSAGE.match(answer)
        end = message.end() + int(message.group(1)) + 2 if message else answer.find(b"\r\n") + 2
        if end < 2:
            end = len(answer)
        frames.append(answer[:end])
        answer = answer[end:]
    return frames
