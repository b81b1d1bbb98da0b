"""Requests to the port for messages, as curl would make them."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

SECONDS = 30.0
NDJSON = {"Content-Type": "application/x-ndjson"}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def error(self) -> str:
        return str(self.document["error"]["description"])


def post(
    url: str,
    body: bytes | str | Iterable[bytes] = b"",
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "POST",
    tls: ssl.SSLContext | None = None,
) -> Reply:
    parts = urlsplit(url)
    assert parts.hostname
    kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=SECONDS, **({"context": tls} if tls else {}))
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, dict(headers or {}))
        response = connection.getresponse()
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def ndjson(*lines: object) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)
