"""The language that sessions are written in: who sends which bytes, and when the harness waits for what.

A session is a name, the settings of the server and a list of steps. A connection is opened when a step first
names it (and its INFO is read); "a" is the default one. Plain bytes in the list of steps mean `send(bytes)`.

After a `send` the harness synchronises: it sends two PINGs on the sending connection and then on all others,
and reads up to the last PONG, so everything that the step caused has arrived (two, because the first PING
after a CONNECT is answered with PONG *and then* INFO). Where a PING would be swallowed or would spoil the
point, there is `part`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tests.interop.tls_client import TlsClient

WireKind = Literal["plain", "websocket", "http", "websocket over TLS"]
PLAIN = "plain"
"""The name of a connection that is plain in any session."""

Action = Literal["send", "part", "quiet", "closed", "hang_up", "stall", "expect", "until"]


RESTORE_SUBJECT = b"<restore>"
"""In what is sent: the subject for chunks that the last answer to STREAM.RESTORE told."""
UNTIL_STATUS = -1
"""As the number of messages to wait for: up to one that has a status, such as 404, in its headers."""


@dataclass(frozen=True)
class Step:
    """One thing that happens. `chunks` are the sizes of the writes, repeated as needed; () is one write."""

    action: Action
    on: str = "a"
    data: bytes = b""
    chunks: tuple[int, ...] = ()
    any_order: bool = False
    messages: int = 0  # that the connection has to receive before an `expect` is over
    wanted: tuple[bytes, ...] = ()  # that the answer has to hold before an `until` is over
    raw: bool = False  # bytes of the transport: frames of WebSocket
    lines: int = 0  # that come for certain before it can be quiet


@dataclass(frozen=True)
class Session:
    name: str
    steps: tuple[Step, ...]
    settings: str
    only_closes: bool = False
    whole_info: bool = False
    keeps_pings: bool = False
    about_streams: bool = False  # see jetstream.py
    wire: WireKind = "plain"
    upgrade: tuple[str, ...] = ()  # headers of the request that opens a WebSocket
    tls: TlsClient | None = None  # how its connections, except those named "plain...", shake hands


def session(
    name: str,
    *steps: Step | bytes,
    settings: str = "",
    only_closes: bool = False,
    whole_info: bool = False,
    keeps_pings: bool = False,
    wire: WireKind = "plain",
    upgrade: tuple[str, ...] = (),
    tls: TlsClient | None = None,
) -> Session:
    """A session; `settings` is a configuration text that both servers understand.

    With `only_closes` the answers are left out and only the fate of each connection is compared, for sessions
    in which the amount that arrives before the end is a matter of buffer sizes. With `whole_info` the
    fields of INFO are compared too, and not only that it came; with `keeps_pings` the server's own PINGs.
    `wire` is how its connections reach the server, except the one called PLAIN: see websocket_wire.py.
    """
    written_out = tuple(send(step) if isinstance(step, bytes) else step for step in steps)
    return Session(
        name, written_out, settings, only_closes, whole_info, keeps_pings, wire=wire, upgrade=upgrade, tls=tls
    )


def send(data: bytes, on: str = "a", *, any_order: bool = False, chunks: tuple[int, ...] = ()) -> Step:
    """Send and synchronise everyone. With `any_order` a connection's messages may come in any order."""
    return Step("send", on, data, chunks, any_order)


def bytewise(data: bytes, on: str = "a") -> Step:
    """Send one byte per write, each only after the server has read the one before; then synchronise."""
    return Step("send", on, data, (1,))


def frames(data: bytes, on: str = "a", *, chunks: tuple[int, ...] = ()) -> Step:
    """Send frames of WebSocket as they are, and synchronise everyone."""
    return Step("send", on, data, chunks, raw=True)


def part(data: bytes, on: str = "a", *, raw: bool = False) -> Step:
    """Send and wait until the server has read it, without a PING; for unfinished operations.

    The connection is not synchronised by the steps of others either, until its own next `send`.
    """
    return Step("part", on, data, raw=raw)


def quiet(on: str = "a", *, lines: int = 0) -> Step:
    """Collect what arrives without being asked for, this many lines at least, until nothing more does."""
    return Step("quiet", on, lines=lines)


def closed(on: str = "a") -> Step:
    """Read until the server closes the connection."""
    return Step("closed", on)


def hang_up(on: str = "a", data: bytes = b"") -> Step:
    """Send a last word, close our side at once and wait until the server has closed the connection too."""
    return Step("hang_up", on, data)


def stall(on: str = "a") -> Step:
    """Stop reading from this connection; it is not synchronised any more until a `closed` step."""
    return Step("stall", on)


def opened(on: str = "a") -> Step:
    """Open the connection, read its INFO and synchronise."""
    return Step("send", on)


def connect_line(**options: object) -> bytes:
    """A CONNECT operation: quiet, forgiving and with headers, unless the options say otherwise."""
    fields = {"verbose": False, "pedantic": False, "headers": True, **options}
    return b"CONNECT " + json.dumps(fields, separators=(",", ":")).encode() + b"\r\n"


def connect(on: str = "a", **options: object) -> Step:
    return send(connect_line(**options), on)


def pub(subject: bytes, payload: bytes = b"", reply: bytes = b"") -> bytes:
    return b"PUB %s %s%d\r\n%s\r\n" % (subject, reply + b" " if reply else b"", len(payload), payload)


def hpub(subject: bytes, header: bytes, payload: bytes = b"", reply: bytes = b"") -> bytes:
    sizes = b"%d %d" % (len(header), len(header) + len(payload))
    return b"HPUB %s %s%s\r\n%s%s\r\n" % (subject, reply + b" " if reply else b"", sizes, header, payload)
