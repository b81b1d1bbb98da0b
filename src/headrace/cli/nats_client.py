"""nats-py's client, with our credentials and with TLS that it does not give up.

nats-py uses TLS only if the server requires it, whatever the URL says: a tls:// URL and a server without TLS
would exchange passwords in the clear. And it reads seeds with a package that we do not need. Both are decided
here, between the INFO of a server and our CONNECT.
"""

from __future__ import annotations

import json
from typing import Any

import nats.errors
from nats.aio.client import Client

from headrace.cli.target import Target
from headrace.client.refusals import closed_after_certificate, no_certificate, no_tls
from headrace.errors import HeadraceError

_CONNECT = b"CONNECT "
CLOSED = (nats.errors.ConnectionClosedError, nats.errors.UnexpectedEOF, ConnectionError)


class Refusal(nats.errors.Error):
    """A reason of ours, as an error that nats-py understands: it tries the next server."""

    def __init__(self, reason: HeadraceError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class IdentifiedClient(Client):  # type: ignore[misc, unused-ignore]
    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target

    async def _process_connect_init(self) -> None:
        """A transport whose TLS failed never reports that it is closed, for which nats-py would wait."""
        try:
            await super()._process_connect_init()
        except BaseException as error:
            if self._transport is not None:
                self._transport.close()  # type: ignore[no-untyped-call]
                self._transport = None
            if isinstance(error, CLOSED) and self._has_certificate and self._server_info.get("tls_verify"):
                raise Refusal(closed_after_certificate(self._address)) from None
            raise

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self._insists_on_tls():
            if not (info.get("tls_required") or info.get("tls_available")) or self._scheme == "ws":
                raise Refusal(no_tls(self._address))
            info["tls_required"] = True
        asks_for_certificate = info.get("tls_required") and info.get("tls_verify")
        if initial_connection and asks_for_certificate and not self._has_certificate:
            # The server would close the connection, perhaps before we can read why.
            raise Refusal(no_certificate(self._address))
        await super()._process_info(info, initial_connection)

    def _insists_on_tls(self) -> bool:
        """wss:// has its own: the WebSocket is encrypted before NATS begins."""
        return self._scheme != "wss" and (self._target.tls is not None or self._scheme == "tls")

    @property
    def _has_certificate(self) -> bool:
        return self._target.tls is not None and bool(self._target.tls.cert)

    @property
    def _address(self) -> str:
        current: Any = self._current_server
        return f"{current.uri.hostname}:{current.uri.port}"

    @property
    def _scheme(self) -> str:
        current: Any = self._current_server
        return current.uri.scheme if current is not None else ""

    def _connect_command(self) -> bytes:
        command = super()._connect_command()
        credentials = self._target.credentials
        if not (credentials.creds or credentials.nkey or credentials.jwt):
            return command
        try:
            proof = credentials.fields(self._server_info.get("nonce", ""))
        except HeadraceError as reason:
            raise Refusal(reason) from None
        options = json.loads(command.removeprefix(_CONNECT)) | proof
        return _CONNECT + json.dumps(options).encode() + b"\r\n"
