"""Monitoring is open to whoever can reach it: it stays bounded, and shows no secrets (FAULTS 41)."""

from __future__ import annotations

import re
import socket
from pathlib import Path

from tests.adversity.recorder import Connection
from tests.adversity.watch import MIB, Bystander, memory
from tests.servers import Server, running_server

PATIENCE_SECONDS = 60.0
NUMBERS = (
    "0", "1", "-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "18446744073709551615", "99999999999999999999999999", "1e9", "0x10", "", "x", "%00", "1;2",
)  # fmt: skip
PATHS = ("/varz", "/connz", "/subsz", "/jsz", "/healthz", "/metrics", "/", "/routez", "/accountz", "/nothing")
NUMBER_PARAMETERS = ("offset", "limit", "cid", "subs", "sort", "state", "ack", "streams", "consumers")
CANARY = "c4nary"
CONFIG = f'authorization {{ user: me, password: "{CANARY}" }}\nhttp: 127.0.0.1:-1\n'
HELLO = b'CONNECT {"verbose":false,"headers":true,"user":"me","pass":"%b"}\r\nPING\r\n' % CANARY.encode()


def get(server: Server, target: str) -> tuple[int, bytes]:
    """The status and all that came."""
    port = int(re.findall(r"Starting http monitor on 127\.0\.0\.1:(\d+)", server.log())[0])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as client:
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        received = b""
        while piece := client.recv(65536):
            received += piece
    return int(received.split(b" ", 2)[1]), received


def targets() -> list[str]:
    single = [f"{path}?{name}={value}" for path in PATHS for name in NUMBER_PARAMETERS for value in NUMBERS]
    pairs = [f"{path}?offset={a}&limit={b}" for path in PATHS[:4] for a in NUMBERS[:8] for b in NUMBERS[:8]]
    odd = ["/connz?" + "&".join(["limit=1"] * 1000), "/connz?subs=1&subs=detail&sort=" + "a" * 1000]
    return single + pairs + odd


def test_monitoring_is_bounded_and_shows_no_secret(tmp_path: Path) -> None:
    statuses: dict[int, int] = {}
    with (
        running_server("headrace", CONFIG, ["-js", "-sd", str(tmp_path)]) as server,
        Bystander(server.port, HELLO) as bystander,
        Connection(server.port, HELLO) as client,
    ):
        for number in range(20):
            config = {"name": f"S{number}", "subjects": [f"s.{number}"], "storage": "memory"}
            client.request(f"$JS.API.STREAM.CREATE.S{number}", config)
        client.send(b"".join(b"SUB many.%d %d\r\n" % (n, n + 100) for n in range(2000)))
        client.ping()
        before, largest, seen = memory(server.process.pid), 0, 0
        for target in targets():
            status, body = get(server, target)
            statuses[status] = statuses.get(status, 0) + 1
            largest = max(largest, len(body))
            seen += CANARY.encode() in body
        growth = memory(server.process.pid) - before
        assert "Traceback" not in server.log()
        assert CANARY not in server.log()
    print(
        f"{sum(statuses.values())} requests: {statuses}, the largest answer {largest} bytes, "
        f"{seen} canaries, RSS {growth / MIB:+.1f} MiB; {bystander.describe()}"
    )
    assert seen == 0
    assert set(statuses) <= {200, 400, 404}
    assert growth < 32 * MIB
