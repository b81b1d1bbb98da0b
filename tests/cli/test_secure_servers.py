"""The commands with servers that demand TLS and an identity: what works, and one line when it does not."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.keys.nkeys import KeyPair
from tests.certificates import Authority
from tests.cli.commands import assert_one_error_line, run, started
from tests.client.operators import SECURE_KINDS, Operator
from tests.servers import ServerKind, running_server


@dataclass(frozen=True)
class Guarded:
    """A server in operator mode that demands TLS and a client certificate; and what opens it."""

    host_port: str
    authority: Authority
    creds: str
    cert: str
    key: str

    @property
    def options(self) -> list[str]:
        tls = ["--tls-ca", self.authority.certificate, "--tls-cert", self.cert, "--tls-key", self.key]
        return ["-s", f"tls://{self.host_port}", "--creds", self.creds, *tls]

    @property
    def variables(self) -> dict[str, str]:
        return {
            "NATS_URL": f"tls://{self.host_port}",
            "NATS_CREDS": self.creds,
            "NATS_CA": self.authority.certificate,
            "NATS_CERT": self.cert,
            "NATS_KEY": self.key,
        }


@pytest.fixture(scope="module", params=SECURE_KINDS)
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    authority, operator = Authority(directory / "ca"), Operator()
    server, client = authority.issue("server"), authority.issue("client")
    creds = directory / "user.creds"
    creds.write_text(operator.creds())
    tls = f'cert_file: "{server.certificate}", key_file: "{server.key}"'
    tls += f', ca_file: "{authority.certificate}", verify: true, timeout: 30'
    with running_server(request.param, operator.config() + f"tls {{ {tls} }}\n") as running:
        yield Guarded(f"{running.host}:{running.port}", authority, str(creds), client.certificate, client.key)


def without(options: list[str], name: str) -> list[str]:
    place = options.index(name)
    return options[:place] + options[place + 2 :]


def test_messages_go_through(guarded: Guarded) -> None:
    with started("sub", "orders.*", "-n", "1", "--raw", *guarded.options, ready="subscribed") as listening:
        assert run("pub", "orders.eu", "hello", **guarded.variables).code == 0
        listening.wait_for("hello")


def test_a_request_is_answered_by_the_server_itself(guarded: Guarded) -> None:
    result = run("request", "$SYS.REQ.USER.INFO", "", *guarded.options)
    assert (result.code, '"account"' in result.text) == (0, True), result


@pytest.mark.parametrize("command", [("pub", "x", "y"), ("sql", "SELECT 1")], ids=lambda command: command[0])
class TestErrors:
    """Those of nats-py and those of our own client read alike."""

    def test_an_unknown_ca(self, guarded: Guarded, command: tuple[str, ...]) -> None:
        result = run(*command, *without(guarded.options, "--tls-ca"))
        assert_one_error_line(result, "cannot be trusted", "--tls-ca")

    def test_no_client_certificate(self, guarded: Guarded, command: tuple[str, ...]) -> None:
        result = run(*command, *without(without(guarded.options, "--tls-cert"), "--tls-key"))
        assert_one_error_line(result, "wants a client certificate", "--tls-cert")

    def test_no_credentials(self, guarded: Guarded, command: tuple[str, ...]) -> None:
        result = run(*command, *without(guarded.options, "--creds"))
        assert_one_error_line(result, "does not accept these credentials", "creds")

    def test_missing_files(self, guarded: Guarded, command: tuple[str, ...], tmp_path: Path) -> None:
        missing = str(tmp_path / "missing")
        for option in "--creds", "--tls-key":  # tests/client has the others
            result = run(*command, *without(guarded.options, option), option, missing)
            assert_one_error_line(result, missing, "cannot be read: No such file or directory")

    def test_a_creds_file_without_creds(
        self, guarded: Guarded, command: tuple[str, ...], tmp_path: Path
    ) -> None:
        (tmp_path / "my.creds").write_text("SU-not-a-seed\n")
        options = [*without(guarded.options, "--creds"), "--creds", str(tmp_path / "my.creds")]
        result = run(*command, *options)
        assert_one_error_line(result, "my.creds", "not a .creds file")
        assert "not-a-seed" not in result.errors

    @pytest.mark.parametrize("kind", SECURE_KINDS)
    def test_a_server_without_tls(self, kind: ServerKind, command: tuple[str, ...]) -> None:
        with running_server(kind) as server:
            address = f"{server.host}:{server.port}"
            for options in ["-s", f"tls://{address}"], ["-s", f"nats://{address}", "--tls-insecure"]:
                assert_one_error_line(run(*command, *options), "has no TLS")

    def test_a_wrong_name_and_an_old_certificate(self, command: tuple[str, ...], tmp_path: Path) -> None:
        """Of nats-server: headrace does not start with a certificate that has expired."""
        authority = Authority(tmp_path)
        for issued, text in (
            (authority.issue("other", hosts=("nats.example.org",)), "is for another host"),
            (authority.issue("old", days=-1), "has expired"),
        ):
            tls = f'tls {{ cert_file: "{issued.certificate}", key_file: "{issued.key}", timeout: 30 }}'
            with running_server("nats-server", tls) as server:
                url = f"tls://{server.host}:{server.port}"
                assert_one_error_line(run(*command, "-s", url, "--tls-ca", authority.certificate), text)


@pytest.mark.parametrize("kind", SECURE_KINDS)
def test_an_nkey_tls_first_and_a_server_name(kind: ServerKind, tmp_path: Path) -> None:
    authority, pair = Authority(tmp_path), KeyPair.create("user")
    issued = authority.issue("other", hosts=("nats.example.org",))
    (tmp_path / "seed").write_text(pair.seed)
    config = (
        f'tls {{ cert_file: "{issued.certificate}", key_file: "{issued.key}"\n'
        "handshake_first: true, timeout: 30 }\n"
        f"authorization {{ users = [{{nkey: {pair.public_key}}}] }}"
    )
    with running_server(kind, config) as server:
        options = ["-s", f"tls://{server.host}:{server.port}", "--tls-ca", authority.certificate]
        options += ["--tls-first", "--tls-server-name", "nats.example.org"]
        assert run("pub", "x", "y", *options, "--nkey", str(tmp_path / "seed")).code == 0
        assert run("pub", "x", "y", *options, NATS_NKEY=str(tmp_path / "seed")).code == 0
        assert_one_error_line(run("pub", "x", "y", *options), "does not accept these credentials")


@pytest.mark.parametrize("kind", SECURE_KINDS)
def test_tls_that_is_optional_is_used_if_asked_for(kind: ServerKind, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("server")
    files = f'cert_file: "{issued.certificate}", key_file: "{issued.key}"'
    tls = f"tls {{ {files}, timeout: 30 }}\nallow_non_tls: true"
    with running_server(kind, tls) as server:
        url = f"tls://{server.host}:{server.port}"
        assert_one_error_line(run("pub", "x", "y", "-s", url), "cannot be trusted")
        assert run("pub", "x", "y", "-s", url, "--tls-ca", authority.certificate).code == 0


def test_options_that_do_not_go_together() -> None:
    for options in ["--creds", "c", "--nkey", "n"], ["--tls-cert", "c"], ["--creds", "c", "--token", "t"]:
        assert_one_error_line(run("pub", "x", "y", *options), code=2)


@contextmanager
def server_whose_alert_gets_lost(authority: Authority) -> Iterator[int]:
    """It asks for a certificate, and resets the connection after the handshake: its port."""
    issued = authority.issue("server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    info = {
        "server_id": "x",
        "version": "2.15.1",
        "max_payload": 1024,
        "tls_required": True,
        "tls_verify": True,
    }

    def serve() -> None:
        with listener.accept()[0] as plain:
            plain.sendall(b"INFO " + json.dumps(info).encode() + b"\r\n")
            with context.wrap_socket(plain, server_side=True) as wrapped:
                wrapped.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_a_server_that_closes_the_connection_after_it_got_our_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    client = authority.issue("client")
    tls = ["--tls-ca", authority.certificate, "--tls-cert", client.certificate, "--tls-key", client.key]
    with server_whose_alert_gets_lost(authority) as port:
        result = run("pub", "x", "y", "-s", f"tls://127.0.0.1:{port}", *tls)
    assert_one_error_line(result, "perhaps it does not accept our client certificate", "signed by a CA")
