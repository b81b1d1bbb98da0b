"""The monitor port of any NATS server: JSON documents over HTTP."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlencode, urlsplit

from headrace.errors import HeadraceError, UsageError

DEFAULT_URL = "http://127.0.0.1:8222"
SECONDS = 5.0
MOST_BYTES = 256 * 1024 * 1024


class MonitorPort:
    """`url` may lack the scheme and the port, or be just a port of this machine.

    Raises UsageError if it is no URL.
    """

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        if url.isascii() and url.isdigit():
            url = f"127.0.0.1:{url}"
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            self._host, port = parts.hostname or "", parts.port
        except ValueError as error:
            raise UsageError(f"{url!r} is not a URL: {error}") from None
        if parts.scheme not in ("http", "https") or not self._host:
            raise UsageError(f"{url!r} is not a URL such as {DEFAULT_URL}")
        self._secure = parts.scheme == "https"
        self._port = port or 8222
        self._base = parts.path.rstrip("/")
        self._tls = tls
        self.address = f"{self._host}:{self._port}"

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """A document. Raises HeadraceError."""
        target = f"{self._base}{path}?{urlencode(query)}" if query else f"{self._base}{path}"
        connection = self._connection()
        try:
            connection.request("GET", target, headers={"Accept": "application/json"})
            answer = connection.getresponse()
            body = answer.read(MOST_BYTES)
        except ConnectionRefusedError:
            raise HeadraceError(
                f"no monitor port at {self.address} (connection refused)",
                hint="start the server with `-m 8222`, or choose another with --monitor",
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._explain(error) from None
        finally:
            connection.close()
        if answer.status != 200:
            raise HeadraceError(f"{self.address}{path}: {answer.status} {answer.reason}")
        try:
            document = json.loads(body)
            if not isinstance(document, dict):
                raise ValueError("not an object")
        except (ValueError, RecursionError):
            raise HeadraceError(f"{self.address} is not the monitor port of a NATS server") from None
        return document

    def _explain(self, error: OSError | http.client.HTTPException) -> HeadraceError:
        """In one line: what the port is, if it is not what was asked for."""
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
            return HeadraceError(
                f"{self.address} does not speak TLS", hint=f"try --monitor http://{self.address}"
            )
        if isinstance(error, http.client.BadStatusLine) and str(error).startswith("INFO"):
            return HeadraceError(
                f"{self.address} is the port for clients, not the monitor port",
                hint="the monitor port is often 8222",
            )
        if isinstance(error, http.client.HTTPException | ConnectionError):
            secure = "" if self._secure else f", or try --monitor https://{self.address}"
            return HeadraceError(
                f"{self.address} does not answer as a monitor port does", hint=f"is it another port?{secure}"
            )
        return HeadraceError(f"{self.address}: {str(error) or type(error).__name__}")

    def _connection(self) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=SECONDS, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=SECONDS)
