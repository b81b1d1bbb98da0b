"""The INFO that a client gets: who the server is and what it can do."""

from __future__ import annotations

import platform
from typing import Any

import msgspec

from headrace.accounts.account import Account
from headrace.config.options import API_LEVEL, NATS_VERSION, Options
from headrace.engine.core.link import NO_LIMIT
from headrace.keys.nkeys import KeyPair

CLIENT_PROTOCOL = 1
PYTHON = f"python{platform.python_version()}"


class ServerKeys:
    """New ones for every server: its id is the public key with which it signs, and nobody knows the seeds."""

    def __init__(self) -> None:
        self.signing = KeyPair.create("server")
        self.curve = KeyPair.create("curve")


class ServerInfo:
    """Makes INFO lines. What differs between clients is given with each call."""

    def __init__(
        self,
        options: Options,
        keys: ServerKeys,
        port: int,
        *,
        auth_required: bool,
        lame_duck: bool,
        is_websocket: bool = False,
    ) -> None:
        self.server_id = keys.signing.public_key
        self.server_name = options.server_name or self.server_id
        self._xkey = keys.curve.public_key
        self._lame_duck = lame_duck
        self._options = options
        self._port = port
        self._auth_required = auth_required
        self._is_websocket = is_websocket

    def encode(
        self,
        *,
        client_id: int,
        client_ip: str,
        nonce: str = "",
        account: Account | None = None,
        tls_required: bool | None = None,
        max_payload: int = NO_LIMIT,
        lame_duck: bool = False,
    ) -> bytes:
        """The INFO line for one client; the one that answers CONNECT names the account that it is in.

        Whether TLS is required is what the options say, unless it is given. `max_payload` may be its own;
        `lame_duck` asks just this client to leave.
        """
        options = self._options
        host, port = options.host, self._port
        if options.client_advertise:
            host, port = split_advertised(options.client_advertise, port)
        info: dict[str, Any] = {
            "server_id": self.server_id,
            "server_name": self.server_name,
            "version": NATS_VERSION,
            "proto": CLIENT_PROTOCOL,
            "go": PYTHON,
            "host": host,
            "port": port,
            "headers": not options.no_header_support,
        }
        if self._auth_required and (account or not options.no_auth_user):
            info["auth_required"] = True
        if options.tls_required if tls_required is None else tls_required:
            info["tls_required"] = True
        if options.tls and options.tls.verify:
            info["tls_verify"] = True
        if options.tls and (options.allow_non_tls or self._is_websocket):
            info["tls_available"] = True
        info["max_payload"] = min(options.max_payload, max_payload)
        if options.jetstream:
            info["jetstream"] = True
        info["client_id"] = client_id
        info["client_ip"] = client_ip
        if nonce:
            info["nonce"] = nonce
        if self._lame_duck or lame_duck:
            info["ldm"] = True
        if options.jetstream_domain:
            info["domain"] = options.jetstream_domain
        if account:
            info["connect_info"] = True
            info["remote_account"] = account.name
            if account.name == options.system_account_name:
                info["acc_is_sys"] = True
        info["api_lvl"] = API_LEVEL
        info["xkey"] = self._xkey
        return b"INFO " + msgspec.json.encode(info) + b" \r\n"


def split_advertised(advertised: str, default_port: int) -> tuple[str, int]:
    """`host`, `host:port` or `[v6]:port`, as the configuration has checked it."""
    host, separator, port = advertised.rpartition(":")
    if not separator or "]" in port:
        return advertised.strip("[]"), default_port
    return host.strip("[]"), int(port)
