"""TLS with a real server process: clients, certificates that change, and everything that must be refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import signal
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from headrace.config.load import load_file
from tests.certificates import Issued, shared
from tests.clients import flush
from tests.interop.wire import Wire
from tests.servers import Server, running_server

SECONDS = 30.0
HELLO = b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n'


def block(*fields: str, server: Issued | None = None) -> str:
    files = server or shared().server
    given = (f'cert_file: "{files.certificate}"', f'key_file: "{files.key}"', *fields)
    return "tls { " + ", ".join(given) + " }\n"


def client_context(certificate: Issued | None = None, ca: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca or shared().ca)
    if certificate:
        context.load_cert_chain(certificate.certificate, certificate.key)
    return context


async def connect(server: Server, context: ssl.SSLContext | None = None, **options: Any) -> Client:
    options = {"connect_timeout": SECONDS, "allow_reconnect": False, **options}
    return await nats.connect(f"tls://localhost:{server.port}", tls=context or client_context(), **options)


def raw(server: Server) -> tuple[socket.socket, dict[str, Any]]:
    """A connection that has read INFO, and has not begun a handshake."""
    connection = socket.create_connection((server.host, server.port), SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line = b""
    while not line.endswith(b"\n"):
        line += connection.recv(1)
    return connection, json.loads(line.removeprefix(b"INFO "))


@contextmanager
def secured(server: Server, context: ssl.SSLContext | None = None) -> Iterator[ssl.SSLSocket]:
    connection, _ = raw(server)
    with (context or client_context()).wrap_socket(connection, server_hostname="localhost") as wrapped:
        yield wrapped


def read_until(connection: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        piece = connection.recv(65536)
        assert piece, received
        received += piece
    return received


def served_certificate(server: Server) -> bytes:
    with secured(server) as connection:
        return connection.getpeercert(binary_form=True) or b""


def reload(server: Server, expected: str) -> None:
    times = server.log().count(expected)
    server.process.send_signal(signal.SIGHUP)
    server.wait_for_log(expected, times + 1)


class Files:
    """Certificate files of a server that a test replaces while the server runs."""

    def __init__(self, directory: Path) -> None:
        self.current = Issued(str(directory / "current.pem"), str(directory / "current-key.pem"))

    def use(self, issued: Issued) -> None:
        shutil.copy(issued.certificate, self.current.certificate)
        shutil.copy(issued.key, self.current.key)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path)
    made.use(shared().server)
    return made


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("true", (True, 0.0)),
        ("off", (False, 0.0)),
        ("auto", (True, 0.05)),
        ("auto_fallback", (True, 0.05)),
        ('"250ms"', (True, 0.25)),
    ],
)
def test_how_long_a_handshake_is_waited_for(text: str, settings: tuple[bool, float], tmp_path: Path) -> None:
    """Where a client is late for 50 ms depends on the machine; sessions with both servers wait for longer."""
    path = tmp_path / "server.conf"
    path.write_text(block(f"handshake_first: {text}"))
    tls = load_file(str(path)).options.tls
    assert tls is not None
    assert (tls.handshake_first, tls.fallback_delay) == settings


@pytest.mark.parametrize("first", [False, True])
async def test_nats_py_publishes_subscribes_and_asks(first: bool) -> None:
    with running_server("headrace", block(f"handshake_first: {str(first).lower()}")) as server:
        client = await connect(server, tls_handshake_first=first)
        messages = await client.subscribe("big.*")
        sizes = [0, 1, 16383, 16384, 16385, 100_000, 1_000_000]
        for size in sizes:
            await client.publish(f"big.{size}", b"x" * size)
        assert [len((await messages.next_msg(SECONDS)).data) for _ in sizes] == sizes
        await client.close()


async def test_what_follows_the_handshake_in_the_same_packet_is_not_lost() -> None:
    """The end of the handshake and the first operations arrive together: epoll reports them once."""
    with running_server("headrace", block()) as server:
        connection, _ = raw(server)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            session.do_handshake()
        connection.sendall(outgoing.read())
        while True:
            incoming.write(connection.recv(65536))
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                continue
        session.write(HELLO)
        connection.sendall(outgoing.read())  # Finished and CONNECT
        answer = b""
        while b"PONG\r\n" not in answer:
            incoming.write(connection.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):  # tickets for the session come first
                answer += session.read(65536)
        connection.close()


def test_a_handshake_may_arrive_byte_by_byte() -> None:
    with running_server("headrace", block()) as server:
        wire = Wire(server.host, server.port)
        wire.read_line()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            session.do_handshake()
        for byte in outgoing.read():
            wire.write(bytes([byte]))
            wire.drain()
        wire._socket.settimeout(SECONDS)
        is_agreed = False
        while not is_agreed:
            incoming.write(wire._socket.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                session.do_handshake()
                is_agreed = True
        session.write(HELLO)
        wire.write(outgoing.read())
        answer = b""
        while b"PONG\r\n" not in answer:
            incoming.write(wire._socket.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                answer += session.read(65536)
        wire._socket.close()


def test_the_server_says_goodbye_and_understands_it() -> None:
    with running_server("headrace", block(), ["-D"]) as server:
        with secured(server) as connection:
            connection.sendall(b"nonsense\r\n")
            assert b"Unknown Protocol Operation" in read_until(connection, b"\r\n")
            assert connection.recv(100) == b""  # not "unexpected end": the alert has come
        with secured(server) as connection:
            connection.sendall(HELLO)
            read_until(connection, b"PONG\r\n")
            connection.unwrap()  # returns when the server has said it, too, though the socket stays open
        connection, _ = raw(server)
        with client_context().wrap_socket(connection, server_hostname="localhost") as wrapped:
            wrapped.sendall(HELLO)
            read_until(wrapped, b"PONG\r\n")
            socket.socket(fileno=wrapped.detach()).close()  # without a word
        server.wait_for_log("Client connection closed: Client Closed", 2)


def test_a_record_that_was_changed_ends_the_connection() -> None:
    with running_server("headrace", block(), ["-D"]) as server:
        with secured(server) as connection:
            connection.sendall(HELLO)
            read_until(connection, b"PONG\r\n")
            other = socket.socket(fileno=connection.detach())
        other.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        server.wait_for_log("Client connection closed: Read Error")
        other.close()
        with secured(server) as connection:  # and nobody else notices
            connection.sendall(HELLO)
            read_until(connection, b"PONG\r\n")


async def test_new_certificates_are_used_and_nobody_is_dropped(files: Files) -> None:
    config = block(server=files.current)
    with running_server("headrace", config) as server:
        client = await connect(server)
        messages = await client.subscribe("foo")
        before = served_certificate(server)
        new = shared().authority.issue("renewed")
        files.use(new)
        reload(server, "Reloaded server configuration")
        after = served_certificate(server)
        assert after != before
        assert after == ssl.PEM_cert_to_DER_cert(Path(new.certificate).read_text())
        await client.publish("foo", b"still here")
        assert (await messages.next_msg(SECONDS)).data == b"still here"
        await client.close()


@pytest.mark.parametrize("mistake", ["missing", "key of another", "expired", "garbage"])
def test_a_reload_with_a_wrong_file_keeps_what_there_was(files: Files, mistake: str) -> None:
    with running_server("headrace", block(server=files.current)) as server:
        before = served_certificate(server)
        if mistake == "missing":
            Path(files.current.certificate).unlink()
        elif mistake == "key of another":
            shutil.copy(shared().client.key, files.current.key)
        elif mistake == "expired":
            files.use(shared().expired)
        else:
            Path(files.current.certificate).write_text("nothing")
        reload(server, "Failed to reload server configuration")
        line = next(line for line in server.log().splitlines() if "Failed to reload" in line)
        wrong = files.current.key if mistake == "key of another" else files.current.certificate
        assert wrong in line
        assert line.endswith(")")  # what to do
        assert served_certificate(server) == before


async def test_a_reload_closes_those_whose_certificate_is_not_pinned_any_more(tmp_path: Path) -> None:
    clients = [shared().client, shared().authority.issue("other-client")]
    config = tmp_path / "pinned.conf"

    def pin(*issued: Issued) -> None:
        pins = ", ".join(f'"{one.pin()}"' for one in issued)
        config.write_text(block("verify: true", f'ca_file: "{shared().ca}"', f"pinned_certs: [{pins}]"))

    pin(*clients)
    with running_server("headrace", flags=["-c", str(config)]) as server:
        first, second = [await connect(server, client_context(one)) for one in clients]
        pin(clients[1])
        reload(server, "Reloaded server configuration")
        async with asyncio.timeout(SECONDS):
            while first.is_connected:
                await asyncio.sleep(0.01)
        await flush(second)
        with secured(server, client_context(clients[0])) as connection:
            assert connection.recv(100) == b""
        await second.close()
        await first.close()


def test_the_monitor_has_the_same_certificate_and_loads_new_ones(files: Files) -> None:
    config = 'https: "127.0.0.1:-1"\n' + block(
        "verify: true", f'ca_file: "{shared().ca}"', server=files.current
    )
    with running_server("headrace", config) as server:
        port = int(re.search(r"https monitor on 127.0.0.1:(\d+)", server.log())[1])  # type: ignore[index]

        def look() -> bytes:
            """It asks for no certificate of ours."""
            context = client_context()
            with urllib.request.urlopen(f"https://localhost:{port}/varz", context=context) as answer:
                assert json.load(answer)["tls_required"] is True
            plain = socket.create_connection((server.host, port))
            with context.wrap_socket(plain, server_hostname="localhost") as connection:
                return connection.getpeercert(binary_form=True) or b""

        assert look() == ssl.PEM_cert_to_DER_cert(Path(shared().server.certificate).read_text())
        new = shared().authority.issue("renewed-monitor")
        files.use(new)
        reload(server, "Reloaded server configuration")
        assert look() == ssl.PEM_cert_to_DER_cert(Path(new.certificate).read_text())


def test_a_monitor_over_tls_needs_a_certificate(tmp_path: Path) -> None:
    for flags, text in (
        (["-ms", "-1"], "TLS cert and key required for HTTPS"),
        (["-ms", "-1", "-m", "-1"], "can't specify both HTTP (-1) and HTTPs (-1) ports"),
        (["--tls"], "TLS Server certificate must be present and valid"),
        (["--tlscert", shared().server.certificate], "TLS Server private key must be present and valid"),
    ):
        for kind in ("nats-server", "headrace"):
            with pytest.raises(RuntimeError, match=re.escape(text)), running_server(kind, flags=flags):  # type: ignore[arg-type]
                pass


# Nothing goes over a connection that is not what the server demands.


def test_a_password_in_clear_is_never_looked_at() -> None:
    config = block() + "authorization { user: derek, password: s3cr3t }\n"
    with running_server("headrace", config, ["-DV"]) as server:
        connection, info = raw(server)
        assert info["tls_required"] is True
        connection.sendall(b'CONNECT {"user":"derek","pass":"s3cr3t"}\r\nPING\r\nSUB > 1\r\n')
        with contextlib.suppress(ConnectionResetError):
            assert b"PONG" not in connection.recv(65536)
        connection.close()
        log = server.wait_for_log("Client connection closed: TLS Handshake Failure")
        assert "CONNECT" not in log


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_older_versions_are_refused_wherever_the_setting_comes_from(
    version: ssl.TLSVersion, tmp_path: Path
) -> None:
    """By the file, after a reload, by flags, and by the monitor: an old version gets in nowhere."""
    config = tmp_path / "server.conf"
    config.write_text('https: "127.0.0.1:-1"\n' + block('min_version: "1.3"'))
    flags = ["-c", str(config)]
    own = ["--tls", "--tlscert", shared().server.certificate, "--tlskey", shared().server.key]
    old = client_context()
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = version
    for given in (flags, [*flags, *own]):
        with running_server("headrace", flags=given) as server:
            port = int(re.search(r"https monitor on 127.0.0.1:(\d+)", server.log())[1])  # type: ignore[index]
            for _ in range(2):
                with pytest.raises((ssl.SSLError, ConnectionError)), secured(server, old):
                    pass
                with (
                    pytest.raises((ssl.SSLError, ConnectionError)),
                    socket.create_connection((server.host, port)) as plain,
                    old.wrap_socket(plain, server_hostname="localhost"),
                ):
                    pass
                reload(server, "Reloaded server configuration")


def test_the_cipher_suites_hold_on_every_port_wherever_the_certificate_comes_from(tmp_path: Path) -> None:
    """Of clients, of the monitor and of WebSocket; with flags next to the file; and after a reload."""
    one = block('cipher_suites: ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]')
    config = tmp_path / "server.conf"
    config.write_text(f'https: "127.0.0.1:-1"\n{one}websocket {{ listen: "127.0.0.1:-1", {one.strip()} }}\n')
    flags = ["-c", str(config)]
    own = ["--tls", "--tlscert", shared().server.certificate, "--tlskey", shared().server.key]
    for given in (flags, [*flags, *own]):
        with running_server("headrace", flags=given) as server:
            ports = re.findall(r"(?:https monitor on|clients on wss://)\s?127.0.0.1:(\d+)", server.log())
            assert len(ports) == 2
            for _ in range(2):
                assert agrees_on(server, 0, "ECDHE-ECDSA-AES256-GCM-SHA384")
                assert not agrees_on(server, 0, "ECDHE-ECDSA-AES128-GCM-SHA256")
                for port in map(int, ports):
                    assert agrees_on(server, port, "ECDHE-ECDSA-AES256-GCM-SHA384")
                    assert not agrees_on(server, port, "ECDHE-ECDSA-AES128-GCM-SHA256")
                reload(server, "Reloaded server configuration")


def agrees_on(server: Server, port: int, offered: str) -> bool:
    """Does a handshake that offers this cipher suite only succeed, on the port of clients or another one?"""
    context = client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(offered)
    connection = socket.create_connection((server.host, port), SECONDS) if port else raw(server)[0]
    try:
        with context.wrap_socket(connection, server_hostname="localhost") as wrapped:
            agreed = wrapped.cipher()
            return agreed is not None and agreed[0] == offered
    except (ssl.SSLError, ConnectionError):
        return False


def test_a_client_that_stops_in_the_handshake_costs_nobody_anything() -> None:
    with running_server("headrace", block("timeout: 2"), ["-D"]) as server:
        silent = [raw(server)[0] for _ in range(20)]
        for connection in silent[::2]:
            connection.sendall(b"\x16\x03\x01\x02\x00\x01")
        with secured(server) as connection:
            connection.sendall(HELLO)
            read_until(connection, b"PONG\r\n")
        server.wait_for_log("TLS handshake timeout", 20)
        for one in silent:
            assert one.recv(100) == b""
            one.close()


def test_handshakes_above_the_limit_are_told_to_come_later() -> None:
    with running_server("headrace", block("connection_rate_limit: 1", "timeout: 30")) as server:
        waiting = [raw(server)[0] for _ in range(4)]
        told = []
        for connection in waiting:
            connection.settimeout(0.3)
            try:
                told.append(connection.recv(200))
            except TimeoutError:
                told.append(b"")
            connection.close()
        text = b"-ERR 'Connection throttling is active. Please try again later.'\r\n"
        assert set(told) <= {b"", text}
        assert told.count(b"") >= 1
        if text in told:  # on a machine that is not too busy for four connections in a second
            assert "throttling" not in server.wait_for_log("connections due to TLS rate limiting")


def test_no_key_reaches_the_log_or_the_monitor(files: Files) -> None:
    secret = "".join(Path(files.current.key).read_text().splitlines()[1:-1])
    config = 'http: "127.0.0.1:-1"\n' + block(server=files.current)
    with running_server("headrace", config, ["-DV"]) as server:
        with secured(server) as connection:
            connection.sendall(HELLO)
            read_until(connection, b"PONG\r\n")
            port = re.search(r"http monitor on 127.0.0.1:(\d+)", server.log())[1]  # type: ignore[index]
            seen = [
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}").read().decode()
                for path in ("/varz", "/connz?auth=1&subs=detail")
            ]
        shutil.copy(shared().client.key, files.current.key)
        other = "".join(Path(files.current.key).read_text().splitlines()[1:-1])
        reload(server, "Failed to reload server configuration")
        for text in (*seen, server.log()):
            assert secret[:20] not in text
            assert other[:20] not in text
            assert "PRIVATE KEY" not in text


def test_connz_shows_what_was_agreed_on() -> None:
    config = 'http: "127.0.0.1:-1"\n' + block("verify: true", f'ca_file: "{shared().ca}"')
    shown = []
    for kind in ("nats-server", "headrace"):
        with running_server(kind, config) as server:  # type: ignore[arg-type]
            port = re.search(r"http monitor on 127.0.0.1:(\d+)", server.log())[1]  # type: ignore[index]
            context = client_context(shared().client)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
            with secured(server, context) as connection:
                connection.sendall(HELLO)
                read_until(connection, b"PONG\r\n")
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/connz?auth=1") as answer:
                    found = json.load(answer)["connections"][0]
            shown.append({name: value for name, value in found.items() if name.startswith("tls_")})
    for one in shown:
        del one["tls_peer_certs"][1:]  # before Python 3.13, ssl shows no others
    assert shown[0] == shown[1]
    assert shown[0]["tls_peer_certs"][0]["spki_sha256"] == shared().client.pin()


@pytest.mark.parametrize(("password", "warns"), [("", False), (", password: word", True)])
def test_users_whom_certificates_name_need_no_password(password: str, warns: bool) -> None:
    config = block("verify_and_map: true", f'ca_file: "{shared().ca}"')
    config += f'authorization {{ users: [ {{ user: "CN=client"{password} }} ] }}\n'
    for kind in ("nats-server", "headrace"):
        with running_server(kind, config) as server:  # type: ignore[arg-type]
            assert ("Plaintext passwords detected" in server.log()) is warns
