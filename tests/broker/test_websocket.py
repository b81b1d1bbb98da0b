"""The WebSocket port of a broker: who gets in, what the log says, and how connections end."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import nats
import pytest
from nats.aio.client import Client

from headrace.broker.websocket import handshake as websocket_handshake
from headrace.config.identity import User
from headrace.config.reload import plan_reload
from headrace.config.tls.context import with_files
from headrace.config.tls.settings import CertificateFiles, TlsSettings
from headrace.config.websocket import WebSocketOptions
from headrace.errors import UsageError
from tests import websockets as ws
from tests.broker.conftest import HOST, PATIENCE_SECONDS, Running, Start
from tests.certificates import Issued, shared
from tests.clients import flush

CONNECT = b'CONNECT {"verbose":false,"user":"derek","pass":"word"}\r\n'
HELLO = CONNECT + b"PING\r\n"


def websocket(**options: Any) -> WebSocketOptions:
    return WebSocketOptions(**{"host": HOST, "port": -1, "no_tls": True, **options})


class WebSocketClient:
    """An upgraded connection that has read its INFO."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = ws.Decoder()
        self.received = b""
        self.info = b""

    async def upgrade(self, port: int, *headers: str) -> None:
        self._writer.write(ws.request(port, *headers))
        head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
        assert head.startswith(b"HTTP/1.1 101 "), head
        self.info = await self.line()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def line(self) -> bytes:
        while b"\r\n" not in self.received:
            piece = await asyncio.wait_for(self._reader.read(65536), PATIENCE_SECONDS)
            assert piece, f"closed after {self.received!r}"
            self.received += self._decoder.decode(piece)
        line, _, self.received = self.received.partition(b"\r\n")
        return line

    async def rest(self) -> tuple[bytes, bytes]:
        """What comes until the server closes: operations, and the payload of its close frame."""
        try:
            while piece := await asyncio.wait_for(self._reader.read(65536), PATIENCE_SECONDS):
                self.received += self._decoder.decode(piece)
        except ConnectionResetError:
            pass
        controls = self._decoder.control
        return self.received, controls[-1].payload if controls else b""

    def tls_certificate(self) -> bytes:
        """The server's."""
        session: ssl.SSLObject = self._writer.get_extra_info("ssl_object")
        return session.getpeercert(binary_form=True) or b""

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def upgraded(
    running: Running, *headers: str, tls: ssl.SSLContext | None = None
) -> AsyncIterator[WebSocketClient]:
    client = WebSocketClient(*await asyncio.open_connection(HOST, port_of(running), ssl=tls))
    try:
        await client.upgrade(port_of(running), *headers)
        yield client
    finally:
        client.close()


def port_of(running: Running) -> int:
    assert running.broker.websocket
    return running.broker.websocket.port


def goodbye(status: int, text: bytes) -> bytes:
    return status.to_bytes(2, "big") + text


@asynccontextmanager
async def connected(running: Running) -> AsyncIterator[Client]:
    client = await nats.connect(f"ws://{HOST}:{port_of(running)}", allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of how nats-py calls aiohttp
@pytest.mark.parametrize("compression", [False, True])
async def test_nats_py_talks_over_websocket(start: Start, compression: bool) -> None:
    running = start(websocket=websocket(compression=compression))
    plain = await running.client()

    async def answer(message: Any) -> None:
        await message.respond(message.data[::-1])

    async with connected(running) as client:
        subscription = await client.subscribe("numbers.*")
        await client.subscribe("mirror", cb=answer)
        await flush(client)
        for number in range(200):
            await plain.publish("numbers.x", b"%d" % number + b"x" * number * 20)
        for number in range(200):
            message = await subscription.next_msg(PATIENCE_SECONDS)
            assert message.data == b"%d" % number + b"x" * number * 20
        response = await plain.request("mirror", b"x" * 100_000 + b"y", PATIENCE_SECONDS)
        assert response.data == b"y" + b"x" * 100_000
        await client.drain()


async def test_a_client_whose_user_is_removed_is_closed(start: Start) -> None:
    users = (User("derek", "word"), User("other", "word"))
    running = start(websocket=websocket(), users=users)
    async with upgraded(running) as client:
        await client.send(ws.frame(HELLO))
        assert await client.line() == b"PONG"
        fewer = msgspec.structs.replace(running.broker.options, users=users[1:])
        running.broker.reload(fewer, auth_changed=True, info_changed=True)
        rest, status = await client.rest()
    assert b"-ERR" not in rest  # nats-server does not say why, either
    assert status == goodbye(1000, b"Client Closed")


async def test_a_lame_duck_closes_with_a_status(start: Start) -> None:
    running = start(websocket=websocket(), lame_duck_grace_period=0.01, lame_duck_duration=1.0)
    async with upgraded(running) as client:
        await client.send(ws.frame(b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n'))
        assert await client.line() == b"PONG"
        port = port_of(running)
        draining = asyncio.get_running_loop().create_task(running.broker.drain())
        rest, status = await client.rest()
        await draining
    assert b'"ldm":true' in rest
    assert status == goodbye(1001, b"Server Shutdown")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(HOST, port)


async def test_a_server_that_stops_says_so(start: Start) -> None:
    running = start(websocket=websocket())
    async with upgraded(running) as client:
        running.stop()
        assert (await client.rest())[1] == goodbye(1001, b"Server Shutdown")


async def test_cookies_are_credentials_and_reach_no_log(start: Start) -> None:
    options = websocket(user_cookie="who", pass_cookie="secret")
    running = start(websocket=options, users=(User("derek", "pa55word"),), trace=True)
    async with upgraded(running, "Cookie: who=derek; secret=pa55word") as client:
        await client.send(ws.frame(b'CONNECT {"verbose":false}\r\nPING\r\n'))
        assert await client.line() == b"PONG"
        (connection,) = running.broker.connections.values()
        assert (connection.user, connection.connection_type) == ("derek", "WEBSOCKET")
        assert "pa55word" not in repr(connection.websocket)
    assert "pa55word" not in running.log_text()


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("X-Forwarded-For: 1.2.3.4", f"1.2.3.4/{HOST}:"),
        ("X-Forwarded-For: 2001:db8::1", f"[2001:db8::1]/{HOST}:"),
        ("X-Forwarded-For: 1.2.3.4, 5.6.7.8", f"{HOST}:"),
        ("X-Forwarded-For: forged\tline", f"{HOST}:"),
        ("X-Forwarded-For: fe80::1%eth0", f"{HOST}:"),
    ],
)
async def test_the_log_shows_the_address_behind_a_proxy(start: Start, header: str, shown: str) -> None:
    running = start(websocket=websocket())
    async with upgraded(running, header):
        (connection,) = running.broker.connections.values()
        assert str(connection).startswith(shown)
        assert str(connection).endswith(f" - wid:{connection.cid}")
        assert connection.host == HOST


async def test_what_is_wrong_with_a_frame_is_logged(start: Start) -> None:
    running = start(websocket=websocket())
    async with upgraded(running) as client:
        await client.send(ws.frame(b"PING\r\n", key=None))
        assert (await client.rest())[1] == goodbye(1002, b"mask bit missing")
    assert "read error: mask bit missing" in running.log_text()
    assert [reason for _, reason in running.broker.closed] == ["Read Error"]


async def test_both_ports_share_the_limit_of_connections(start: Start) -> None:
    running = start(websocket=websocket(), max_connections=1)
    await running.raw()
    async with upgraded(running) as client:
        rest, status = await client.rest()
    assert rest == b"-ERR 'maximum connections exceeded'\r\n"
    assert status == goodbye(1008, b"Maximum Connections Exceeded")


async def test_its_own_ping_interval_and_authentication_timeout_hold(start: Start) -> None:
    options = websocket(ping_interval=0.4, auth_timeout=0.8, username="derek", password="word")
    running = start(websocket=options)
    async with upgraded(running) as client:
        await client.send(ws.frame(CONNECT))
        assert await client.line() == b"PING"
    async with upgraded(running) as silent:
        rest, status = await silent.rest()
    assert rest.endswith(b"-ERR 'Authentication Timeout'\r\n")
    assert status == goodbye(1008, b"Authentication Timeout")
    plain = await running.raw()
    assert "auth_required" not in plain.info


async def test_a_peer_that_does_not_finish_its_request_is_dropped(start: Start) -> None:
    running = start(websocket=websocket(handshake_timeout=0.5))
    reader, writer = await asyncio.open_connection(HOST, port_of(running))
    writer.write(b"GET / HTTP/1.1\r\nHost: slow")
    assert await asyncio.wait_for(reader.read(), PATIENCE_SECONDS) == b""
    writer.close()


async def test_one_peer_too_many_takes_the_place_of_the_oldest(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket_handshake, "MAX_PEERS", 3)
    running = start(websocket=websocket())
    idle = [await asyncio.open_connection(HOST, port_of(running)) for _ in range(4)]
    assert await asyncio.wait_for(idle[0][0].read(), PATIENCE_SECONDS) == b""
    async with upgraded(running) as client:
        assert client.info.startswith(b"INFO ")
    assert await asyncio.wait_for(idle[1][0].read(), PATIENCE_SECONDS) == b""
    for _, writer in idle:
        writer.close()


async def test_a_head_without_end_is_refused(start: Start) -> None:
    running = start(websocket=websocket())
    reader, writer = await asyncio.open_connection(HOST, port_of(running))
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * websocket_handshake.MAX_HEAD_BYTES)
    answer = await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    writer.close()


async def test_nothing_of_a_peer_is_left_behind(start: Start) -> None:
    running = start(websocket=websocket())
    assert running.broker.websocket
    for data in (
        b"",
        b"GET",
        ws.request(1, method="PUT"),
        b"nonsense\r\n\r\n",
        ws.request(1, target="/leafnode"),
    ):
        reader, writer = await asyncio.open_connection(HOST, port_of(running))
        writer.write(data)
        if data.endswith(b"\r\n\r\n"):
            await asyncio.wait_for(reader.read(1), PATIENCE_SECONDS)
        writer.close()
    handshakes = running.broker.websocket.handshakes
    assert handshakes is not None
    await running.until(lambda: len(handshakes) == 0)
    assert running.broker.connections == {}


def test_a_port_that_is_taken_is_named(start: Start) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]

        async def try_it() -> None:
            with pytest.raises(UsageError, match=f"Unable to listen for websocket .*{port}: bind: address"):
                start(websocket=websocket(port=port))

        asyncio.run(try_it())


# -- TLS


def tls_settings(issued: Issued, **settings: Any) -> TlsSettings:
    files = CertificateFiles(issued.certificate, issued.key)
    return with_files(TlsSettings(certificates=(files,), **settings))


def trusting(certificate: Issued | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=shared().ca)
    if certificate:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context


@pytest.mark.parametrize("compression", [False, True])
async def test_websocket_over_tls(start: Start, compression: bool) -> None:
    options = websocket(no_tls=False, tls=tls_settings(shared().server), compression=compression)
    running = start(websocket=options)
    headers = [f"Sec-WebSocket-Extensions: {ws.DEFLATE}"] if compression else []
    payload = b"x" * 300_000
    async with upgraded(running, *headers, tls=trusting()) as client:
        assert b'"tls_required":true' in client.info
        hello = b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPUB a 300000\r\n' + payload + b"\r\n"
        for at in range(0, len(hello), 70_000):
            await client.send(ws.frame(hello[at : at + 70_000]))
        assert await client.line() == b"MSG a 1 300000"
        assert await client.line() == payload
        (connection,) = running.broker.connections.values()
        assert connection.tls
        assert connection.tls.version == "1.3"
        running.stop()
        assert (await client.rest())[1] == goodbye(1001, b"Server Shutdown")
    assert "Listening for websocket clients on wss://" in running.log_text()
    assert "DO NOT USE IN PRODUCTION" not in running.log_text()


async def test_a_receiver_over_tls_that_is_slow_gets_every_byte(start: Start) -> None:
    options = websocket(no_tls=False, tls=tls_settings(shared().server))
    running = start(websocket=options)
    publisher = await running.raw(verbose=False)
    message = b"PUB a 50000\r\n" + b"y" * 50_000 + b"\r\n"
    async with upgraded(running, tls=trusting()) as client:
        await client.send(ws.frame(b'CONNECT {"verbose":false}\r\nSUB a 1\r\nPING\r\n'))
        assert await client.line() == b"PONG"
        for _ in range(100):  # five megabytes: more than all buffers on the way
            await publisher.send(message)
        for number in range(100):
            assert await client.line() == b"MSG a 1 50000"
            assert await client.line() == b"y" * 50_000
            if number % 10 == 0:
                await client.send(ws.frame(b"?", ws.PING))


async def test_plain_http_on_a_port_with_tls_is_refused(start: Start) -> None:
    running = start(websocket=websocket(no_tls=False, tls=tls_settings(shared().server)))
    reader, writer = await asyncio.open_connection(HOST, port_of(running))
    writer.write(ws.request(1))
    answer = await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
    assert b"HTTP/1.1 101" not in answer
    writer.close()
    assert "websocket: http: TLS handshake error from" in running.log_text()


async def test_a_client_certificate_names_the_user(start: Start) -> None:
    settings = tls_settings(shared().server, ca_file=shared().ca, verify=True, maps_users=True)
    running = start(websocket=websocket(no_tls=False, tls=settings), users=(User("client@example.com", ""),))
    async with upgraded(running, tls=trusting(shared().client)) as client:
        await client.send(ws.frame(b'CONNECT {"verbose":false}\r\nPING\r\n'))
        assert await client.line() == b"PONG"
        (connection,) = running.broker.connections.values()
        assert connection.user == "client@example.com"
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        async with upgraded(running, tls=trusting()):
            pass


async def test_a_reload_brings_new_certificates_and_closes_nobody(start: Start) -> None:
    running = start(websocket=websocket(no_tls=False, tls=tls_settings(shared().server)))
    async with upgraded(running, tls=trusting()) as client:
        block = msgspec.structs.replace(
            running.broker.options.websocket, tls=tls_settings(shared().authority.issue("renewed"))
        )
        options = msgspec.structs.replace(running.broker.options, websocket=block)
        assert plan_reload(running.broker.options, options).changed == {"websocket"}
        running.broker.reload(options, auth_changed=False, info_changed=True)
        async with upgraded(running, tls=trusting()) as second:
            certificate = second.tls_certificate()
        await client.send(ws.frame(b'CONNECT {"verbose":false}\r\nPING\r\n'))
        assert await client.line() == b"PONG"
        assert certificate != client.tls_certificate()


@pytest.mark.parametrize(("before", "after"), [(1000, 100_000), (100_000, 1000)])
async def test_a_new_limit_of_payloads_holds_for_compressed_messages(
    start: Start, before: int, after: int
) -> None:
    running = start(websocket=websocket(compression=True), max_payload=before)
    async with upgraded(running, "Sec-WebSocket-Extensions: permessage-deflate") as client:
        await client.send(ws.frame(CONNECT + b"PING\r\n"))
        assert await client.line() == b"PONG"
        options = msgspec.structs.replace(running.broker.options, max_payload=after)
        running.broker.reload(options, auth_changed=False, info_changed=True)
        operation = b"PUB foo 50000\r\n" + bytes(50_000) + b"\r\nPING\r\n"
        await client.send(ws.frame(ws.deflate(operation), rsv=ws.RSV1))
        if after > before:
            while await client.line() != b"PONG":
                pass  # a PING of the server may come first
        else:
            _, closing = await client.rest()
            assert closing[:2] == (1009).to_bytes(2, "big")
            assert "Maximum Message Payload Exceeded" in running.log_text()


async def test_a_compressed_message_may_be_in_the_middle_when_the_limit_becomes_lower(start: Start) -> None:
    running = start(websocket=websocket(compression=True), max_payload=100_000)
    async with upgraded(running, "Sec-WebSocket-Extensions: permessage-deflate") as client:
        await client.send(ws.frame(CONNECT + b"PING\r\n"))
        assert await client.line() == b"PONG"
        deflated = ws.deflate(b"PING\r\n" + b"PUB foo 50000\r\n" + bytes(50_000) + b"\r\nPING\r\n", level=0)
        await client.send(ws.frame(deflated[:40_000], rsv=ws.RSV1, fin=False))
        assert await client.line() == b"PONG"
        options = msgspec.structs.replace(running.broker.options, max_payload=1000)
        running.broker.reload(options, auth_changed=False, info_changed=True)
        await client.send(ws.frame(deflated[40_000:], opcode=ws.CONTINUATION))
        received, _ = await client.rest()
        assert b"PONG" not in received
