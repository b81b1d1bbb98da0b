"""The head of an HTTP request, parsed as strictly as Go does, and Go's answers to invalid ones.

It is for WebSocket handshakes only: requests have no body here, and most are the last on their connection.
Invalid requests are answered with the same bytes as in nats-server.
"""

from __future__ import annotations

import re
from email.utils import formatdate
from http import HTTPStatus

import msgspec

from headrace.errors import ProtocolError

END_OF_HEAD = b"\r\n\r\n"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERSION = re.compile(r"HTTP/(\d)\.(\d)")
_HOST = re.compile(r"[A-Za-z0-9:\[\]._~%!$&'()*+,;=-]*")


class BadRequest(ProtocolError):
    """Not HTTP, or more of it than we support: `answer` is the last that is sent to the peer."""

    def __init__(self, status: HTTPStatus, why: str = "", body: str = "") -> None:
        text = f"{status.value} {status.phrase}{f': {why}' if why else ''}"
        super().__init__(text)
        head = f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
        self.answer = (head + (body or text)).encode()


class Request(msgspec.Struct, frozen=True):
    method: str
    target: str
    minor_version: int  # of HTTP/1
    headers: tuple[tuple[str, str], ...]
    """Names are in lower case."""

    def all(self, name: str) -> list[str]:
        return [value for given, value in self.headers if given == name]

    def first(self, name: str) -> str:
        """Empty if there is none."""
        return next((value for given, value in self.headers if given == name), "")

    def lists(self, name: str, item: str) -> bool:
        """Whether one of the comma-separated values is this one, in any case."""
        return any(part.strip(" \t").lower() == item for value in self.all(name) for part in value.split(","))

    @property
    def host(self) -> str:
        return self.first("host")

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on this connection. We do not read bodies."""
        has_body = self.first("content-length").strip() not in ("", "0") or self.all("transfer-encoding")
        return bool(self.minor_version) and not self.lists("connection", "close") and not has_body


def parse_head(head: bytes) -> Request:
    """`head` ends before the empty line. Raises BadRequest."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, minor_version = _parse_first_line(first)
    headers = tuple(_parse_header(line) for line in lines)
    request = Request(method, target, minor_version, headers)
    _check(request)
    return request


def _parse_first_line(line: str) -> tuple[str, str, int]:
    words = line.split(" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or not words[1]:
        raise BadRequest(HTTPStatus.BAD_REQUEST)
    version = _VERSION.fullmatch(words[2])
    if version is None:
        raise BadRequest(HTTPStatus.BAD_REQUEST)
    if version[1] != "1":
        raise BadRequest(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "unsupported protocol version")
    if not words[1].startswith("/") and "://" not in words[1]:
        raise BadRequest(HTTPStatus.BAD_REQUEST)
    return words[0], words[1], int(version[2])


def _parse_header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if " " in name and colon:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "invalid header name")
    if not colon or not _TOKEN.fullmatch(name):
        raise BadRequest(HTTPStatus.BAD_REQUEST)
    value = value.strip(" \t")
    if any((character < " " and character != "\t") or character == "\x7f" for character in value):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "invalid header value")
    return name.lower(), value


def _check(request: Request) -> None:
    if any(coding.lower() != "chunked" for coding in request.all("transfer-encoding")):
        raise BadRequest(HTTPStatus.NOT_IMPLEMENTED, body="Unsupported transfer encoding")
    hosts = request.all("host")
    if len(hosts) > 1:
        raise BadRequest(HTTPStatus.BAD_REQUEST)
    if not hosts and request.minor_version:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "missing required Host header")
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "malformed Host header")


def encode_refusal(request: Request, status: HTTPStatus) -> bytes:
    """As Go's http.Error answers, with what a WebSocket server adds."""
    body = f"{status.phrase}\n"
    lines = [
        f"HTTP/1.{min(request.minor_version, 1)} {status.value} {status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        "Sec-Websocket-Version: 13",
        "X-Content-Type-Options: nosniff",
        f"Date: {formatdate(usegmt=True)}",
        f"Content-Length: {len(body)}",
        *(["Connection: close"] if request.minor_version and not request.keeps_alive else []),
    ]
    return ("\r\n".join([*lines, "", ""]) + (body if request.method != "HEAD" else "")).encode()
