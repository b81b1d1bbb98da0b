"""TLS and identities of the client: whom it trusts, what it presents, and one line when it does not work."""

from __future__ import annotations

import dataclasses
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client import Client, ConnectionFailed, Tls
from headrace.client.addresses import parse_url
from headrace.errors import HeadraceError, UsageError
from headrace.keys.creds import format_creds
from headrace.keys.nkeys import KeyPair
from tests.certificates import Authority, Issued
from tests.client.operators import SECURE_KINDS, Operator
from tests.client.streams import Streams, read
from tests.servers import Server, ServerKind, reserved_port, running_server


@pytest.fixture(scope="module", params=SECURE_KINDS)
def tls_kind(request: pytest.FixtureRequest) -> ServerKind:
    kind: ServerKind = request.param
    return kind


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def operator() -> Operator:
    return Operator()


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue("server")


@pytest.fixture(scope="module")
def guarded(
    tls_kind: ServerKind,
    issued: Issued,
    operator: Operator,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    """With TLS, in operator mode."""
    config = operator.config() + tls_section(issued) + js_section(tmp_path_factory.mktemp("store"))
    with running_server(tls_kind, config) as server:
        yield server


def tls_section(issued: Issued, more: str = "") -> str:
    timeout = "" if "timeout" in more else "timeout: 30, "  # else two seconds for a handshake
    return f'tls {{ cert_file: "{issued.certificate}", key_file: "{issued.key}", {timeout}{more} }}\n'


def js_section(store: Path) -> str:
    return f'jetstream {{ store_dir: "{store}" }}\n'


def url(server: Server, scheme: str = "tls") -> str:
    return f"{scheme}://{server.host}:{server.port}"


def refused(text: str, *, hint: str = "") -> AbstractContextManager[object]:
    """One line about it, and a hint."""

    @contextmanager
    def check() -> Iterator[None]:
        with pytest.raises(ConnectionFailed, match=text) as caught:
            yield
        assert "\n" not in str(caught.value)
        assert hint in caught.value.hint

    return check()


# -- what works


@pytest.mark.parametrize("scheme", ["tls", "nats"])
def test_a_stream_is_written_and_read_over_tls_with_creds(
    guarded: Server, authority: Authority, operator: Operator, tmp_path: Path, scheme: str
) -> None:
    creds = tmp_path / "user.creds"
    creds.write_text(operator.creds())
    with Client.connect(url(guarded, scheme), creds=str(creds), tls=Tls(ca=authority.certificate)) as client:
        streams = Streams(client)
        name = streams.create(subjects=["tls.x"])
        payloads = [os.urandom(size) for size in [0, 1, 1000, 16384, 300_000, 700_000] * 20]
        publisher = client.publisher(stream=name)
        publisher.publish("tls.x", pa.array(payloads, pa.binary()))
        assert publisher.flush().acked == len(payloads)
        assert read(client, name)["data"].to_pylist() == payloads
        streams.delete_all()


def test_many_small_messages(guarded: Server, authority: Authority, operator: Operator) -> None:
    with Client.connect(url(guarded), creds=operator.creds(), tls=Tls(ca=authority.certificate)) as client:
        streams = Streams(client)
        name = streams.create(subjects=["tls.x"], storage="memory")
        payloads = [b"%d" % number for number in range(50_000)]
        publisher = client.publisher(stream=name)
        publisher.publish("tls.x", pa.array(payloads, pa.binary()))
        assert publisher.flush().acked == len(payloads)
        assert read(client, name)["data"].to_pylist() == payloads
        streams.delete_all()


def test_the_ca_may_be_given_as_its_contents(
    guarded: Server, authority: Authority, operator: Operator
) -> None:
    ca = Path(authority.certificate).read_text()
    Client.connect(url(guarded), creds=operator.creds(), tls=Tls(ca=ca)).close()


@pytest.mark.parametrize("way", ["value", "file", "callback", "bearer"])
def test_a_jwt_with_its_seed(
    guarded: Server, authority: Authority, operator: Operator, tmp_path: Path, way: str
) -> None:
    jwt, pair = operator.user(bearer_token=way == "bearer")
    tls = Tls(ca=authority.certificate)
    (tmp_path / "jwt").write_text(jwt)
    (tmp_path / "seed").write_text(f"{pair.seed}\n")
    if way == "value":
        client = Client.connect(url(guarded), jwt=jwt, seed=pair.seed, tls=tls)
    elif way == "file":
        client = Client.connect(url(guarded), jwt=str(tmp_path / "jwt"), seed=str(tmp_path / "seed"), tls=tls)
    elif way == "callback":
        client = Client.connect(url(guarded), jwt=lambda: jwt, sign=pair.sign, tls=tls)
    else:
        client = Client.connect(url(guarded), jwt=jwt, tls=tls)
    client.close()


@pytest.mark.parametrize("way", ["value", "file"])
def test_an_nkey(tls_kind: ServerKind, tmp_path: Path, way: str) -> None:
    pair = KeyPair.create("user")
    (tmp_path / "seed").write_text(f"# mine\n{pair.seed}\n")
    config = f"authorization {{ users = [{{nkey: {pair.public_key}}}] }}"
    with running_server(tls_kind, config) as server:
        Client.connect(
            url(server, "nats"), nkey=pair.seed if way == "value" else str(tmp_path / "seed")
        ).close()
        with refused("does not accept these credentials"):
            Client.connect(url(server, "nats"), nkey=KeyPair.create("user").seed)


def test_an_nkey_for_a_server_that_asks_for_none(tls_kind: ServerKind) -> None:
    with running_server(tls_kind) as server, refused("asks for no nkey"):
        Client.connect(url(server, "nats"), nkey=KeyPair.create("user").seed)


@pytest.mark.parametrize("contents", [False, True])
@pytest.mark.parametrize("password", ["", "sesame"])
def test_a_client_certificate(
    tls_kind: ServerKind, authority: Authority, issued: Issued, contents: bool, password: str
) -> None:
    ours = authority.issue("client", password=password)
    cert, key = ours.certificate, ours.key
    if contents:
        cert, key = Path(cert).read_text(), Path(key).read_text()
    tls = Tls(ca=authority.certificate, cert=cert, key=key, key_password=password)
    with running_server(
        tls_kind, tls_section(issued, f'ca_file: "{authority.certificate}", verify: true')
    ) as server:
        Client.connect(url(server), tls=tls).close()
        with refused("wants a client certificate", hint="--tls-cert"):
            Client.connect(url(server), tls=Tls(ca=authority.certificate))
        if password:
            with refused("the key .* cannot be used: its password .* is missing or wrong"):
                Client.connect(url(server), tls=dataclasses.replace(tls, key_password="wrong"))
            with refused("the key .* cannot be used: its password .* is missing or wrong"):
                Client.connect(url(server), tls=dataclasses.replace(tls, key_password=""))


def test_a_client_certificate_of_another_ca(
    tls_kind: ServerKind, authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "stranger").issue("client")
    tls = Tls(ca=authority.certificate, cert=stranger.certificate, key=stranger.key)
    config = tls_section(issued, f'ca_file: "{authority.certificate}", verify: true')
    with running_server(tls_kind, config) as server, refused("does not accept our client certificate"):
        Client.connect(url(server), tls=tls)


def test_an_intermediate_ca_is_trusted_without_its_root(tls_kind: ServerKind, tmp_path: Path) -> None:
    """By both sides, as in Go. Whatever else the root has signed is not trusted."""
    root = Authority(tmp_path, "root")
    middle = Authority(tmp_path, "middle", root)
    server, client, elsewhere = middle.issue("server"), middle.issue("client"), root.issue("elsewhere")
    config = tls_section(server, f'ca_file: "{middle.certificate}", verify: true')
    with running_server(tls_kind, config) as running:
        tls = Tls(ca=middle.certificate, cert=client.certificate, key=client.key)
        Client.connect(url(running), tls=tls).close()
        with refused("does not accept our client certificate"):
            tls = Tls(ca=middle.certificate, cert=elsewhere.certificate, key=elsewhere.key)
            Client.connect(url(running), tls=tls)


def test_a_certificate_that_is_trusted_itself_makes_no_other_one_trusted(
    tls_kind: ServerKind, authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    """It is no authority: it may be presented, and may sign nothing."""
    pinned = authority.issue("pinned")
    forged = Authority.with_key_of(pinned, tmp_path).issue("forged")
    with running_server(
        tls_kind, tls_section(issued, f'ca_file: "{pinned.certificate}", verify: true')
    ) as server:
        tls = Tls(ca=authority.certificate, cert=pinned.certificate, key=pinned.key)
        Client.connect(url(server), tls=tls).close()
        with refused("does not accept our client certificate"):
            Client.connect(url(server), tls=dataclasses.replace(tls, cert=forged.certificate, key=forged.key))


def test_tls_before_info(tls_kind: ServerKind, authority: Authority, issued: Issued) -> None:
    with running_server(tls_kind, tls_section(issued, "handshake_first: true, timeout: 2")) as server:
        Client.connect(url(server), tls=Tls(ca=authority.certificate, handshake_first=True)).close()
        with refused("closed the connection at once", hint="--tls-first"):
            Client.connect(url(server), tls=Tls(ca=authority.certificate))


def test_tls_before_info_needs_no_info_to_name_a_missing_certificate(
    tls_kind: ServerKind, authority: Authority, issued: Issued
) -> None:
    config = tls_section(issued, f'ca_file: "{authority.certificate}", verify: true, handshake_first: true')
    with running_server(tls_kind, config) as server, refused("wants a client certificate"):
        Client.connect(url(server), tls=Tls(ca=authority.certificate, handshake_first=True))


def test_tls_first_with_a_server_that_sends_info_first(guarded: Server, authority: Authority) -> None:
    with refused("does not speak TLS at once", hint="--tls-first"):
        Client.connect(url(guarded), tls=Tls(ca=authority.certificate, handshake_first=True))


def test_any_certificate_is_accepted_only_if_asked_for(guarded: Server, operator: Operator) -> None:
    Client.connect(url(guarded), creds=operator.creds(), tls=Tls(insecure=True)).close()


# -- trust


def test_a_ca_that_we_do_not_know(guarded: Server, operator: Operator, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    for tls in Tls(ca=other.certificate), Tls(), None:
        with refused("cannot be trusted: ", hint="--tls-ca"):
            Client.connect(url(guarded), creds=operator.creds(), tls=tls)


def test_tls_that_the_server_requires_is_verified_without_any_option(guarded: Server) -> None:
    with refused("cannot be trusted: ", hint="--tls-ca"):
        Client.connect(url(guarded, "nats"))


def test_a_certificate_for_another_host(tls_kind: ServerKind, authority: Authority) -> None:
    elsewhere = authority.issue("elsewhere", hosts=("nats.example.org",))
    with running_server(tls_kind, tls_section(elsewhere)) as server:
        for host in "127.0.0.1", "localhost":
            with refused("is for another host: ", hint="--tls-server-name"):
                Client.connect(f"tls://{host}:{server.port}", tls=Tls(ca=authority.certificate))
        named = Tls(ca=authority.certificate, server_name="nats.example.org")
        Client.connect(url(server), tls=named).close()


@pytest.mark.parametrize(
    ("begins", "text"), [(timedelta(days=-2), "has expired"), (timedelta(days=1), "is not valid yet")]
)
def test_a_certificate_of_another_time(authority: Authority, begins: timedelta, text: str) -> None:
    """Of nats-server: headrace does not start with a certificate that no client would accept."""
    late = authority.issue("late", valid_from=datetime.now(UTC) + begins, days=1)
    with running_server("nats-server", tls_section(late)) as server, refused(text, hint="clocks"):
        Client.connect(url(server), tls=Tls(ca=authority.certificate))


@pytest.mark.parametrize("tls", [None, Tls(), Tls(insecure=True)])
def test_a_server_without_tls_is_not_used_in_its_place(tls_kind: ServerKind, tls: Tls | None) -> None:
    with running_server(tls_kind) as server, refused("has no TLS", hint="nats://"):
        Client.connect(url(server, "nats" if tls else "tls"), tls=tls)


def test_tls_is_used_if_the_server_leaves_the_choice_to_us(
    tls_kind: ServerKind, authority: Authority, issued: Issued
) -> None:
    with running_server(tls_kind, tls_section(issued) + "allow_non_tls: true") as server:
        Client.connect(url(server, "nats")).close()
        Client.connect(url(server), tls=Tls(ca=authority.certificate)).close()
        with refused("cannot be trusted"):
            Client.connect(url(server))


def test_what_came_before_tls_does_not_count_as_coming_through_it(
    authority: Authority, issued: Issued
) -> None:
    """Somebody between us and the server could add it to the first INFO."""
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(issued.certificate, issued.key)
    info = b'INFO {"max_payload": 1000, "tls_required": true}\r\n'

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.sendall(info + b"PONG\r\n-ERR 'a forged line'\r\n")
        with context.wrap_socket(connection, server_side=True) as protected:
            received = b""
            while not received.endswith(b"PING\r\n"):
                received += protected.recv(4096)
            protected.sendall(b"-ERR 'the real one'\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        with refused("says: the real one"):
            Client.connect(f"127.0.0.1:{listener.getsockname()[1]}", tls=Tls(ca=authority.certificate))
        server.join()


def test_a_server_of_the_cluster_that_is_known_by_its_ip_has_the_name_that_we_know() -> None:
    first = parse_url("tls://user:secret@nats.example.org:1")
    second = first.neighbour("10.0.0.2", 4222)
    assert (second.certificate_name, second.secure) == ("nats.example.org", True)
    assert second.neighbour("10.0.0.3", 4222).certificate_name == "nats.example.org"
    assert second.neighbour("other.example.org", 4222).certificate_name == "other.example.org"


# -- files


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


def test_files_are_read_again_when_reconnecting(
    tls_kind: ServerKind, authority: Authority, issued: Issued, operator: Operator, tmp_path: Path, port: int
) -> None:
    """The server is replaced by one with another operator and another CA on the same port."""
    creds, ca = tmp_path / "user.creds", tmp_path / "ca.pem"
    creds.write_text(operator.creds())
    ca.write_text(Path(authority.certificate).read_text())
    with running_server(tls_kind, operator.config() + tls_section(issued), flags=["-p", str(port)]) as server:
        client = Client.connect(url(server), creds=str(creds), tls=Tls(ca=str(ca)), reconnect_timeout=30)
    renewed, renewed_operator = Authority(tmp_path / "renewed"), Operator()
    config = renewed_operator.config() + tls_section(renewed.issue("server"))
    with running_server(tls_kind, config, flags=["-p", str(port)]):
        with refused("cannot be trusted"):
            client.request("nobody.listens")
        creds.write_text(renewed_operator.creds())
        ca.write_text(Path(renewed.certificate).read_text())
        with pytest.raises(HeadraceError, match="nobody listens"):
            client.request("nobody.listens")
    client.close()


def test_files_that_are_not_what_they_should_be(
    guarded: Server, authority: Authority, tmp_path: Path
) -> None:
    wrong, missing = tmp_path / "wrong.pem", tmp_path / "missing"
    wrong.write_text("nothing of use")
    ours, others = authority.issue("ours"), authority.issue("others")
    ca, cert = authority.certificate, ours.certificate
    cases: list[tuple[dict[str, object], str]] = [
        ({"creds": str(missing)}, f"the credentials file {missing} cannot be read: No such file"),
        ({"creds": str(wrong)}, f"the credentials of {wrong} cannot be used: not a .creds file"),
        ({"nkey": str(wrong)}, f"the nkey of {wrong} cannot be used: it is not an nkey"),
        ({"nkey": str(missing)}, f"the nkey {missing} cannot be read"),
        ({"tls": Tls(ca=str(missing))}, f"the CA .* {missing} cannot be read"),
        ({"tls": Tls(ca=str(wrong))}, f"the CA .* {wrong} cannot be used"),
        ({"tls": Tls(ca=ca, cert=str(missing))}, f"the client certificate .* {missing} cannot be read"),
        ({"tls": Tls(ca=ca, cert=str(wrong))}, f"the client certificate .* {wrong} cannot be used"),
        ({"tls": Tls(ca=ca, cert=cert, key=str(missing))}, f"the key .* {missing} cannot be read"),
        ({"tls": Tls(ca=ca, cert=cert, key=others.key)}, "it does not belong to the certificate"),
        ({"tls": Tls(ca=ca, key=ours.key)}, "a key without its certificate"),
    ]
    for options, text in cases:
        with refused(text):
            Client.connect(url(guarded), **{"tls": Tls(ca=ca)} | options)


def test_an_expired_user(guarded: Server, authority: Authority, operator: Operator) -> None:
    with refused("does not accept these credentials", hint=".creds"):
        Client.connect(url(guarded), creds=operator.creds(expires=1), tls=Tls(ca=authority.certificate))


def test_one_identity_at_a_time() -> None:
    for given in {"user": "u", "token": "t"}, {"creds": "c", "nkey": "n"}, {"seed": "s"}:
        with pytest.raises(UsageError):
            Client.connect("nats://127.0.0.1", **given)


@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_websocket_is_not_for_this_client(scheme: str) -> None:
    with pytest.raises(UsageError, match="has no WebSocket"):
        Client.connect(f"{scheme}://127.0.0.1")


def test_nothing_secret_is_shown(operator: Operator, authority: Authority) -> None:
    from headrace.client.credentials import Credentials

    jwt, pair = operator.user()
    ours = authority.issue("shown")
    key = Path(ours.key).read_text()
    shown = [
        repr(Credentials(creds=format_creds(jwt, pair))),
        repr(Credentials(jwt=jwt, seed=pair.seed)),
        repr(Credentials(user="u", password="sesame")),
        repr(Tls(cert=Path(ours.certificate).read_text(), key=key, key_password="sesame")),
    ]
    for connect in (
        lambda: Client.connect("nats://127.0.0.1:1", jwt=jwt, seed=pair.seed[:-1] + "A"),
        lambda: Client.connect("nats://127.0.0.1:1", creds=format_creds(jwt, pair).replace(pair.seed, "SUX")),
        lambda: Client.connect("tls://127.0.0.1:1", tls=Tls(cert=key, key=key)),
    ):
        with pytest.raises(HeadraceError) as caught:
            connect()
        shown.append(f"{caught.value} {caught.value.hint}")
    for text in shown:
        for secret in pair.seed, pair.seed[:20], jwt, jwt[:30], "sesame", key, key.splitlines()[1]:
            assert secret not in text
