"""Certificates to try TLS with: made once, kept, renewed when they are too old, and private."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.errors import UsageError
from headrace.keys import self_signed
from headrace.keys.self_signed import own_hosts, prepare_self_signed


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", socket.gethostname()])
def test_a_client_that_trusts_the_authority_accepts_the_server(host: str, tmp_path: Path) -> None:
    files = prepare_self_signed(str(tmp_path))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.certificate, files.key)
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with server.wrap_socket(ours, server_side=True) as wrapped:
            wrapped.sendall(b"hello")

    thread = threading.Thread(target=serve)
    thread.start()
    with ssl.create_default_context(cafile=files.ca).wrap_socket(theirs, server_hostname=host) as client:
        assert client.recv(5) == b"hello"
    thread.join()


def test_keys_are_for_the_owner_only(tmp_path: Path) -> None:
    os.umask(os.umask(0))
    place = tmp_path / "new" / "certs"
    prepare_self_signed(str(place))
    assert place.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in place.iterdir()}
    assert modes == {"ca.pem": 0o644, "ca-key.pem": 0o600, "server.pem": 0o644, "server-key.pem": 0o600}


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    assert prepare_self_signed(str(tmp_path)).made == ("ca.pem", "server.pem")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert prepare_self_signed(str(tmp_path)).made == ()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_certificate_for_other_hosts_is_made_again_by_the_same_authority(tmp_path: Path) -> None:
    prepare_self_signed(str(tmp_path))
    authority = (tmp_path / "ca.pem").read_bytes()
    assert prepare_self_signed(str(tmp_path), [*own_hosts(), "example.org"]).made == ("server.pem",)
    assert (tmp_path / "ca.pem").read_bytes() == authority


def test_a_certificate_that_is_about_to_expire_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_self_signed(str(tmp_path))

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + timedelta(days=360)

    monkeypatch.setattr(self_signed, "datetime", Later)
    assert prepare_self_signed(str(tmp_path)).made == ("server.pem",)


def test_a_server_of_another_authority_is_replaced(tmp_path: Path) -> None:
    prepare_self_signed(str(tmp_path))
    (tmp_path / "ca.pem").unlink()
    (tmp_path / "ca-key.pem").unlink()
    assert prepare_self_signed(str(tmp_path)).made == ("ca.pem", "server.pem")


@pytest.mark.parametrize("name", ["ca.pem", "ca-key.pem", "server.pem", "server-key.pem"])
@pytest.mark.parametrize("content", [None, b"my only copy of something"])
def test_files_that_are_something_else_are_not_overwritten(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    prepare_self_signed(str(tmp_path))
    path = tmp_path / name
    path.unlink() if content is None else path.write_bytes(content)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    with pytest.raises(UsageError, match="not a certificate and its key") as caught:
        prepare_self_signed(str(tmp_path))
    assert "delete both" in caught.value.hint
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_a_directory_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write certificates to .*file/certs: "):
        prepare_self_signed(str(tmp_path / "file" / "certs"))
