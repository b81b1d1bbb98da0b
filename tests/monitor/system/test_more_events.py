"""System events that take a server of their own: slow and stale clients, WebSocket, refused by a service."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
from nats.aio.msg import Msg

from headrace.config.load import load_file
from headrace.config.options import Options
from headrace.keys.nkeys import KeyPair
from headrace.logs import Logger, LogSettings
from headrace.server import Server as OurServer
from tests import websockets
from tests.clients import flush
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.system.peer import PATIENCE_SECONDS, Peer
from tests.monitor.system.test_events import Watcher, mask, per_subject
from tests.servers import Server, ServerKind, running_server

ACCOUNTS = """
server_name: here
accounts {
  A { users: [{user: ann, password: pw}] }
  $SYS { users: [{user: sys, password: pw}] }
}
"""
LEFT = "$SYS.ACCOUNT.A.DISCONNECT"


def ann(server: Server) -> Peer:
    peer = Peer(server, user="ann", **{"pass": "pw"})
    peer.sync()
    return peer


def compare(play: Callable[[ServerKind], Any]) -> None:
    assert play("headrace") == play("nats-server")


def stale(kind: ServerKind) -> Any:
    """It does not answer PINGs; the watcher does, with the next `heard`."""
    config = ACCOUNTS + 'ping_interval: "600ms"\nping_max: 2\n'
    with running_server(kind, config) as server, Watcher(server) as watcher, ann(server):
        ends = time.monotonic() + 30
        while not any(subject == LEFT for subject, _ in watcher.events) and time.monotonic() < ends:
            watcher.send(b"PONG\r\n")
            watcher.gather(LEFT, before=0.02)
        return per_subject(watcher.events)[LEFT]


def test_a_client_that_does_not_answer_pings() -> None:
    compare(stale)


def slow(kind: ServerKind) -> Any:
    """Only the reason, and who is counted as slow: how much it got is a matter of buffers."""
    config = ACCOUNTS + "max_pending: 200000\nmax_payload: 60000\n"
    with running_server(kind, config) as server, Watcher(server) as watcher, ann(server) as sender:
        receiver = Peer(server, user="ann", **{"pass": "pw"})
        receiver.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        receiver.send(b"SUB x 1\r\n")
        receiver.sync()
        while not any(subject == LEFT for subject, _ in watcher.events):
            for _ in range(20):
                sender.publish("x", bytes(50_000))
            sender.sync()
            watcher.gather(LEFT, before=0.01)
        receiver.close()
        (end,) = (event for subject, event in watcher.events if subject == LEFT)
        # Two arrivals and a departure, each under both subjects; nats-server sends them when it gets to it.
        for subject in ("$SYS.ACCOUNT.A.SERVER.CONNS", "$SYS.SERVER.ACCOUNT.A.CONNS"):
            watcher.gather(subject, count=3)
        counts = {
            subject: [event["slow_consumers"] for event in events]
            for subject, events in per_subject(watcher.events).items()
            if subject.endswith(".CONNS")
        }
        return end["reason"], counts


def test_a_slow_consumer() -> None:
    compare(slow)


def over_websocket(kind: ServerKind) -> Any:
    config = ACCOUNTS + 'websocket { listen: "127.0.0.1:-1", no_tls: true }\n'
    with running_server(kind, config) as server, Watcher(server) as watcher:
        port = server.websocket_port
        with socket.create_connection((server.host, port), timeout=PATIENCE_SECONDS) as client:
            websockets.handshake(client, port)
            client.sendall(
                websockets.frame(b'CONNECT {"verbose":false,"user":"ann","pass":"pw"}\r\nPING\r\n')
            )
            received = b""
            while b"PONG" not in received:  # with nothing left to read its end is not a reset
                piece = client.recv(4096)
                assert piece, received
                received += piece
            watcher.gather("$SYS.ACCOUNT.A.CONNECT")
        return per_subject(watcher.gather_departure(LEFT))


def test_a_client_in_a_browser() -> None:
    compare(over_websocket)


ISSUER = KeyPair.create("account").public_key
CALLOUT = f"""
server_name: here
accounts {{
  AUTH {{ users: [{{user: auth, password: pw}}] }}
  $SYS {{ users: [{{user: sys, password: pw}}] }}
}}
authorization {{ timeout: 1.5, auth_callout {{ issuer: {ISSUER}, account: AUTH, auth_users: [auth, sys] }} }}
"""


def refused_by_service(kind: ServerKind) -> Any:
    """Nobody answers for the service."""
    with running_server(kind, CALLOUT) as server, Peer(server, user="auth", **{"pass": "pw"}) as owner:
        owner.send(b"SUB $SYS.ACCOUNT.CLIENT.AUTH.ERR 1\r\n")
        owner.sync()
        with Watcher(server) as watcher, Peer(server, user="eve", **{"pass": "pw"}) as peer:
            peer.last_words()
            told = per_subject(watcher.gather("$SYS.ACCOUNT.$G.DISCONNECT"))
        (error,) = (mask(json.loads(frame.payload)) for frame in owner.messages(1))
        del error["reason"]  # what the service says; nats-server has it empty if it says nothing
        return told, error


def test_a_client_that_an_authorization_service_refuses() -> None:
    compare(refused_by_service)


# -- ours alone: what it costs, and what comes again


async def test_without_listeners_no_event_is_made(start: Starter, connect: Connecter) -> None:
    server: OurServer = await start()
    before = server.broker.stamp.next()["seq"]
    for _ in range(20):
        await connect(server.broker.port)
    assert server.broker.stamp.next()["seq"] == before + 1


@asynccontextmanager
async def serving_accounts(directory: Path) -> AsyncIterator[OurServer]:
    (directory / "server.conf").write_text(ACCOUNTS)
    base = Options(host="127.0.0.1", port=-1, no_sigs=True)
    logger = Logger(LogSettings(path=str(directory / "log")))
    server = OurServer(load_file(str(directory / "server.conf"), base).options, logger)
    await server.start()
    task = asyncio.create_task(server.serve())
    yield server
    server.stop()
    await task
    logger.close()


async def test_the_number_of_clients_is_told_again_after_a_while(tmp_path: Path) -> None:
    async with serving_accounts(tmp_path) as server:
        url = f"nats://127.0.0.1:{server.broker.port}"
        watcher = await nats.connect(url, user="sys", password="pw")
        told: asyncio.Queue[Msg] = asyncio.Queue()
        await watcher.subscribe("$SYS.ACCOUNT.A.SERVER.CONNS", cb=told.put)
        await flush(watcher)
        client = await nats.connect(url, user="ann", password="pw")
        first = json.loads((await told.get()).data)
        heartbeats, account = server.events._heartbeats, server.broker.accounts["A"]
        assert account in heartbeats
        heartbeats.seconds = 0.01
        again = json.loads((await told.get()).data)
        assert mask(again) == mask(first)
        await client.close()
        while json.loads((await told.get()).data)["conns"]:
            pass
        assert account not in heartbeats
        await watcher.close()
