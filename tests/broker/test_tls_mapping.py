"""From certificates to users: names are compared whole, and in nats-server's order.

The sessions of tests/interop/sessions_tls.py compare the same with nats-server itself.
"""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.accounts.certificates import (
    TYPE_NAMES,
    describe_subject,
    map_to_user,
    parse_distinguished_name,
    read_names,
)
from headrace.broker import tls_handshake
from headrace.broker.tls_handshake import TlsDoor
from headrace.config.tls.context import make_context, matches_host
from headrace.config.tls.settings import CertificateFiles, TlsSettings
from tests.certificates import Issued, shared

VALUES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20)
SIMPLE_TYPES = sorted(set(TYPE_NAMES.values()) - {"C"})


def der(issued: Issued) -> bytes:
    return ssl.PEM_cert_to_DER_cert(Path(issued.certificate).read_text())


def issue(name: str, *parts: tuple[x509.ObjectIdentifier, str], **names: list[str]) -> bytes:
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])
    return der(shared().authority.issue(name, subject=subject, **{"hosts": [], **names}))  # type: ignore[arg-type]


def test_alternative_names_come_first_and_in_this_order() -> None:
    names = read_names(
        issue(
            "order", (NameOID.COMMON_NAME, "cn"), emails=["a@b.example"], hosts=["h.example"], uris=["u://x"]
        )
    )
    users = ["CN=cn", "u://x", "h.example", "a@b.example"]
    found = []
    while (user := map_to_user(names, users)) is not None:
        found.append(user)
        users.remove(user)
    assert found == ["a@b.example", "h.example", "u://x", "CN=cn"]


@pytest.mark.parametrize(
    ("user", "is_mapped"),
    [
        ("CN=www,O=Mill,C=DE", True),
        ("cn=www, o=Mill, c=DE", True),  # types in any case
        ("C=DE,O=Mill,CN=www", True),  # in any order
        ("CN=WWW,O=Mill,C=DE", False),  # values are what they are
        ("CN=www", False),
        ("www", False),
        ("CN=www,O=Mill", False),
        ("CN=www,O=Mill,C=DE,OU=x", False),
        ("CN=www,O=Mill,O=Mill", False),
        ("CN=www+O=Mill,C=DE", False),
        ("CN=ww*,O=Mill,C=DE", False),
    ],
)
def test_a_subject_is_compared_whole(user: str, is_mapped: bool) -> None:
    names = read_names(
        issue(
            "whole",
            (NameOID.COUNTRY_NAME, "DE"),
            (NameOID.ORGANIZATION_NAME, "Mill"),
            (NameOID.COMMON_NAME, "www"),
        )
    )
    assert map_to_user(names, [user]) == (user if is_mapped else None)


def test_a_name_inside_another_is_nobody() -> None:
    """A value with a comma in it must not pass for two parts."""
    names = read_names(issue("inside", (NameOID.COMMON_NAME, "x,O=Mill")))
    assert map_to_user(names, ["CN=x,O=Mill", "O=Mill,CN=x"]) is None
    assert map_to_user(names, ["CN=x\\,O=Mill"]) == "CN=x\\,O=Mill"


def test_a_certificate_without_any_name_is_nobody() -> None:
    assert map_to_user(read_names(issue("empty")), ["", "CN=", "="]) is None


@example([("CN", ",")])
@example([("CN", "a,"), ("O", "+")])
@given(st.lists(st.tuples(st.sampled_from(SIMPLE_TYPES), VALUES), min_size=1, max_size=4))
def test_what_go_writes_is_read_as_the_same(parts: list[tuple[str, str]]) -> None:
    oids = {short: oid for oid, short in TYPE_NAMES.items()}
    subject = x509.Name([x509.NameAttribute(oids[kind], value) for kind, value in parts])
    parsed = parse_distinguished_name(subject.rfc4514_string({oid: short for short, oid in oids.items()}))
    assert parsed == tuple(frozenset({(kind, value)}) for kind, value in reversed(parts))


def test_a_subject_is_shown_as_go_shows_it() -> None:
    shown = describe_subject(
        issue(
            "shown",
            (NameOID.COMMON_NAME, 'a,b+c"d'),
            (NameOID.ORGANIZATION_NAME, " Mill "),
            (NameOID.COUNTRY_NAME, "DE"),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, "#5"),
        )
    )
    assert shown == 'CN=a\\,b\\+c\\"d,OU=\\#5,O=\\ Mill\\ ,C=DE'


# Several certificates, and how many handshakes


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("one.example", 0), ("ONE.example", 0), ("two.example", 1), ("x.wild.example", 1), ("other.example", 0)],
)
def test_a_client_gets_the_certificate_for_the_name_that_it_asks_for(asked: str, expected: int) -> None:
    issued = [
        shared().authority.issue("sni-one", hosts=["one.example"]),
        shared().authority.issue("sni-two", hosts=["two.example", "*.wild.example"]),
    ]
    files = tuple(CertificateFiles(one.certificate, one.key) for one in issued)
    context = make_context(TlsSettings(certificates=files))
    pipes = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    trusting = ssl.create_default_context(cafile=shared().ca)
    trusting.check_hostname = False
    client = trusting.wrap_bio(pipes[0], pipes[1], server_hostname=asked)
    server = context.wrap_bio(pipes[1], pipes[0], server_side=True)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    client.do_handshake()
    assert client.getpeercert(binary_form=True) == der(issued[expected])


@pytest.mark.parametrize(
    ("host", "matches"),
    [
        ("a.example", True),
        ("a.example.", True),
        ("b.wild.example", True),
        ("wild.example", False),
        ("c.b.wild.example", False),
        ("example", False),
        ("", False),
    ],
)
def test_a_wildcard_is_one_label(host: str, matches: bool) -> None:
    assert matches_host(host, ("a.example", "*.wild.example")) is matches


async def test_handshakes_are_counted_as_nats_server_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert tls_handshake.RATE_SECONDS == 1.0
    files = shared().server
    settings = TlsSettings(certificates=(CertificateFiles(files.certificate, files.key),), rate_limit=3)
    door = TlsDoor(settings, allow_non_tls=False, flush=lambda: None)
    assert [door.has_room() for _ in range(5)] == [True, True, True, False, False]
    now += 0.9
    assert not door.has_room()
    assert door.rejected == 3
    now += 0.2
    assert door.has_room()
    unlimited = TlsDoor(
        TlsSettings(certificates=settings.certificates), allow_non_tls=False, flush=lambda: None
    )
    assert all(unlimited.has_room() for _ in range(1000))
