"""The INFO that a client gets: who the server is and what it can do."""

from __future__ import annotations

import platform
import secrets
from typing import Any

import msgspec

from headrace.config.options import API_LEVEL, NATS_VERSION, Options

BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
SERVER_ID_LENGTH = 56
CLIENT_PROTOCOL = 1


def new_server_id() -> str:
    """An id of the usual form: N, then base32."""
    return "N" + "".join(secrets.choice(BASE32) for _ in range(SERVER_ID_LENGTH - 1))


class ServerInfo:
    """Makes INFO lines. What differs between clients is given with each call."""

    def __init__(
        self, options: Options, server_id: str, port: int, *, auth_required: bool, lame_duck: bool
    ) -> None:
        self.server_id = server_id
        self.server_name = options.server_name or server_id
        self._lame_duck = lame_duck
        self._options = options
        self._port = port
        self._auth_required = auth_required

    def encode(self, *, client_id: int, client_ip: str, connected: bool = False) -> bytes:
        """The INFO line for one client; `connected` marks the one that answers CONNECT."""
        options = self._options
        host, port = options.host, self._port
        if options.client_advertise:
            host, port = split_advertised(options.client_advertise, port)
        info: dict[str, Any] = {
            "server_id": self.server_id,
            "server_name": self.server_name,
            "version": NATS_VERSION,
            "proto": CLIENT_PROTOCOL,
            "go": f"python{platform.python_version()}",
            "host": host,
            "port": port,
            "headers": not options.no_header_support,
        }
        if self._auth_required and (connected or not options.no_auth_user):
            info["auth_required"] = True
        info["max_payload"] = options.max_payload
        if options.jetstream:
            info["jetstream"] = True
        info["client_id"] = client_id
        info["client_ip"] = client_ip
        if self._lame_duck:
            info["ldm"] = True
        if options.jetstream_domain:
            info["domain"] = options.jetstream_domain
        if connected:
            info["connect_info"] = True
            info["remote_account"] = options.account
        info["api_lvl"] = API_LEVEL
        return b"INFO " + msgspec.json.encode(info) + b" \r\n"


def split_advertised(advertised: str, default_port: int) -> tuple[str, int]:
    """`host`, `host:port` or `[v6]:port`, as the configuration has checked it."""
    host, separator, port = advertised.rpartition(":")
    if not separator or "]" in port:
        return advertised.strip("[]"), default_port
    return host.strip("[]"), int(port)
