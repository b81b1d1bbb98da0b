"""What monitoring and the ports file say of WebSocket, at nats-server and at headrace."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests import websockets as ws
from tests.certificates import shared
from tests.monitor.fetch import fetch
from tests.servers import ServerKind, running_server

MONITOR = re.compile(r"Starting http monitor on [\d.]+:(\d+)")
USUAL = """
http: "127.0.0.1:-1"
authorization { users: [ { user: guest, password: word } ] }
websocket { listen: "127.0.0.1:-1", no_tls: true, no_auth_user: guest }
"""
MANY = """
http: "127.0.0.1:-1"
websocket {
  listen: "127.0.0.1:-1", no_tls: true, advertise: "a.example:443", compression: true, same_origin: true
  allowed_origins: ["http://b.example"], handshake_timeout: "3s", ping_interval: "10s"
  user_cookie: u, pass_cookie: p, token_cookie: t, authorization { user: derek, password: s3cr3t, timeout: 4 }
}
"""
CERTIFICATE = shared().server
OVER_TLS = f"""
http: "127.0.0.1:-1"
websocket {{
  listen: "127.0.0.1:-1"
  tls {{
    cert_file: "{CERTIFICATE.certificate}", key_file: "{CERTIFICATE.key}", ca_file: "{shared().ca}"
    verify_and_map: true, pinned_certs: ["{shared().client.pin()}"]
  }}
}}
"""
NONE = 'http: "127.0.0.1:-1"\n'
UNEQUAL = {"port", "ip", "cid", "start", "last_activity", "rtt", "uptime", "idle", "in_bytes", "out_bytes"}
UNEQUAL.add("pending_bytes")  # nats-server takes them off after the client has read them
PATIENCE_SECONDS = 30


async def read_ports(directory: Path) -> dict[str, list[str]]:
    """nats-server writes the file when clients can connect already."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for file in directory.iterdir():
                with suppress(json.JSONDecodeError):
                    ports: dict[str, list[str]] = json.loads(file.read_text())
                    return ports
            await asyncio.sleep(0.01)


async def observe(kind: ServerKind, config: str, directory: Path) -> dict[str, Any]:
    with running_server(kind, config + f'ports_file_dir: "{directory}"\n') as server:
        found = MONITOR.search(server.log())
        assert found
        monitor = int(found[1])
        connections: list[dict[str, Any]] = []
        if "websocket" in config and "tls {" not in config:
            with socket.create_connection(
                ("127.0.0.1", server.websocket_port), timeout=PATIENCE_SECONDS
            ) as client:
                ws.handshake(client, server.websocket_port, "X-Forwarded-For: 1.2.3.4")
                user = b',"user":"derek","pass":"s3cr3t"' if "derek" in config else b""
                client.sendall(ws.frame(b'CONNECT {"verbose":false' + user + b"}\r\nPING\r\n"))
                answer = b""
                while b"PONG" not in answer:
                    piece = client.recv(65536)
                    assert piece, answer
                    answer += piece
                connections = (await fetch(monitor, "/connz?auth=1")).json["connections"]
        ports = {
            name: re.sub(r":\d+", ":0", str(urls)) for name, urls in (await read_ports(directory)).items()
        }
        websocket = (await fetch(monitor, "/varz")).json["websocket"]
        if "port" in websocket:
            assert websocket.pop("port") == server.websocket_port
    return {
        "websocket": websocket,
        "connections": [{key: one[key] for key in one if key not in UNEQUAL} for one in connections],
        "ports": ports,
    }


@pytest.mark.parametrize("config", [USUAL, MANY, OVER_TLS, NONE], ids=["usual", "many", "TLS", "none"])
async def test_both_servers_say_the_same(config: str, tmp_path: Path) -> None:
    seen = []
    kinds: list[ServerKind] = ["nats-server", "headrace"]
    for kind in kinds:
        directory = tmp_path / kind
        directory.mkdir()
        seen.append(await observe(kind, config, directory))
    assert seen[1] == seen[0]
