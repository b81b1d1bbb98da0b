"""TLS: who shakes hands when, who is let in, and what each is told."""

from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.certificates import Issued, shared
from tests.interop.session import (
    Session,
    bytewise,
    closed,
    connect_line,
    hang_up,
    opened,
    part,
    pub,
    quiet,
    send,
    session,
)
from tests.interop.tls_client import TlsClient

LOOP = b"SUB foo 1\r\n" + pub(b"foo", b"hi")
CERTIFICATES = shared()
AUTHORITY = CERTIFICATES.authority


def _block(*fields: str, more: str = "") -> str:
    files = (
        f'cert_file: "{CERTIFICATES.server.certificate}"',
        f'key_file: "{CERTIFICATES.server.key}"',
        f'ca_file: "{CERTIFICATES.ca}"',
    )
    patience = () if any(field.startswith("timeout") for field in fields) else ("timeout: 30",)
    return "tls { " + ", ".join((*files, *patience, *fields)) + " }\n" + more


def _subject(*parts: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


# Who they are is in their certificates: see MAPPED.
CLIENTS: dict[str, Issued] = {
    "email": AUTHORITY.issue("by-email", hosts=[], emails=["nobody@example.com", "email@example.com"]),
    "dns": AUTHORITY.issue("by-dns", hosts=["unknown.example", "dns.example"]),
    "uri": AUTHORITY.issue("by-uri", hosts=["unknown.example"], uris=["spiffe://example/uri"]),
    "email_before_dns": AUTHORITY.issue("both", hosts=["dns.example"], emails=["email@example.com"]),
    "subject": AUTHORITY.issue(
        "by-subject",
        hosts=[],
        subject=_subject(
            (NameOID.COUNTRY_NAME, "DE"),
            (NameOID.ORGANIZATION_NAME, "Mill"),
            (NameOID.COMMON_NAME, "subject"),
        ),
    ),
    "subject_in_another_order": AUTHORITY.issue(
        "by-order",
        hosts=[],
        subject=_subject((NameOID.COMMON_NAME, "order"), (NameOID.ORGANIZATION_NAME, "Mill")),
    ),
    "subject_with_components": AUTHORITY.issue(
        "by-components",
        hosts=[],
        subject=_subject(
            (NameOID.DOMAIN_COMPONENT, "com"), (NameOID.DOMAIN_COMPONENT, "mill"), (NameOID.COMMON_NAME, "dc")
        ),
    ),
    "subject_with_a_comma": AUTHORITY.issue(
        "by-comma", hosts=[], subject=_subject((NameOID.COMMON_NAME, "Doe, Jane"))
    ),
    "common_name_only": AUTHORITY.issue("plain-name", hosts=[]),
    "case_differs": AUTHORITY.issue("by-case", hosts=["DNS.example"]),
    "nobody": AUTHORITY.issue("nobody", hosts=["unknown.example"]),
    "with_password": AUTHORITY.issue("secretive", hosts=["secret.example"]),
}

BASIC = _block()
VERIFY = _block("verify: true")
FIRST = _block("handshake_first: true")
AUTO = _block("handshake_first: auto")
DELAY = _block('handshake_first: "250ms"')
LONG_DELAY = _block('handshake_first: "30s"')  # `auto` is 50 ms, and a client may be late for that
OPTIONAL = _block(more="allow_non_tls: true")
OPTIONAL_FIRST = _block("first: true", more="allow_non_tls: true")
OPTIONAL_AUTO = _block("immediate: auto", more="allow_non_tls: true")
OPTIONAL_LONG_DELAY = _block('immediate: "30s"', more="allow_non_tls: true")
ONLY_13 = _block('min_version: "1.3"')
ONE_CIPHER = _block('cipher_suites: ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]')
PINNED = _block("verify: true", f'pinned_certs: ["{CERTIFICATES.client.pin().upper()}"]')
IMPATIENT = _block("timeout: 0.3")
FEW = _block(more="max_connections: 1")
PASSWORD = _block(more="authorization { user: derek, password: s3cr3t }")
MAPPED = _block(
    "verify_and_map: true",
    more="""authorization { users = [
  { user: "email@example.com" }
  { user: "dns.example" }
  { user: "spiffe://example/uri" }
  { user: "CN=subject,O=Mill,C=DE" }
  { user: "O=Mill, cn=order" }
  { user: "CN=dc,DC=mill,DC=com" }
  { user: "CN=Doe\\\\, Jane" }
  { user: "plain-name" }
  { user: "secret.example", password: word }
] }""",
)

MAPPED_OR_GUEST = MAPPED + "\nno_auth_user: dns.example\n"
PLAIN = TlsClient()
EARLY = TlsClient(when="first")
MINE = TlsClient(certificate=CERTIFICATES.client.certificate)
STRANGER = TlsClient(certificate=CERTIFICATES.stranger.certificate)

CLIENT_HELLO_START = bytes.fromhex("1603010200010001fc0303")


def _login(user: str, password: str) -> bytes:
    return connect_line(user=user, **{"pass": password})


def _as(name: str) -> TlsClient:
    return TlsClient(certificate=CLIENTS[name].certificate)


# (settings, client): both servers tell it the same, and it can, or cannot, talk to itself.
VARIANTS: dict[str, tuple[str, TlsClient]] = {
    "basic": (BASIC, PLAIN),
    "by_address": (BASIC, TlsClient(host="127.0.0.1")),
    "version_12": (BASIC, TlsClient(version="1.2")),
    "version_13": (BASIC, TlsClient(version="1.3")),
    "cbc": (BASIC, TlsClient(version="1.2", ciphers="ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")),
    "needless_certificate": (BASIC, MINE),
    "early_where_nobody_waits": (BASIC, EARLY),
    "server_not_trusted": (BASIC, TlsClient(trusts="nobody")),
    "server_has_another_name": (BASIC, TlsClient(host="elsewhere.example")),
    "verify": (VERIFY, MINE),
    "verify_without_certificate_12": (VERIFY, TlsClient(version="1.2")),
    "verify_stranger_12": (
        VERIFY,
        TlsClient(certificate=CERTIFICATES.stranger.certificate, version="1.2"),
    ),
    "verify_expired_12": (VERIFY, TlsClient(certificate=CERTIFICATES.expired.certificate, version="1.2")),
    "first": (FIRST, EARLY),
    "auto_after_info": (AUTO, PLAIN),
    "delay_early": (LONG_DELAY, EARLY),
    "delay_after_info": (DELAY, PLAIN),
    "optional": (OPTIONAL, PLAIN),
    "optional_first": (OPTIONAL_FIRST, EARLY),
    "optional_delay_early": (OPTIONAL_LONG_DELAY, EARLY),
    "optional_auto_after_info": (OPTIONAL_AUTO, PLAIN),
    "only_13": (ONLY_13, PLAIN),
    "only_13_refuses_12": (ONLY_13, TlsClient(version="1.2")),
    "one_cipher": (ONE_CIPHER, TlsClient(version="1.2")),
    "one_cipher_is_not_another": (
        ONE_CIPHER,
        TlsClient(version="1.2", ciphers="ECDHE-ECDSA-AES128-GCM-SHA256"),
    ),
    "pinned": (PINNED, MINE),
}

# After a handshake of TLS 1.3 the server has not judged the client's certificate yet: the end comes later.
LATE_REFUSALS: dict[str, tuple[str, TlsClient]] = {
    "verify_without_certificate": (VERIFY, PLAIN),
    "verify_stranger": (VERIFY, STRANGER),
    "verify_expired": (VERIFY, TlsClient(certificate=CERTIFICATES.expired.certificate)),
    "pinned_another": (PINNED, TlsClient(certificate=CLIENTS["nobody"].certificate)),
    "pinned_without_certificate": (PINNED, PLAIN),
}

SESSIONS: list[Session] = [
    *(
        session(f"tls_{name}", opened(), connect_line(), LOOP, settings=text, tls=client, whole_info=True)
        for name, (text, client) in VARIANTS.items()
    ),
    *(
        session(f"tls_{name}", part(b""), closed(), settings=text, tls=client, only_closes=True)
        for name, (text, client) in LATE_REFUSALS.items()
    ),
    *(session(f"tls_map_{name}", connect_line(), LOOP, settings=MAPPED, tls=_as(name)) for name in CLIENTS),
    session("tls_map_user_in_connect", _login("dns.example", ""), LOOP, settings=MAPPED, tls=_as("email")),
    session(
        "tls_map_user_is_not_enough", _login("dns.example", ""), LOOP, settings=MAPPED, tls=_as("nobody")
    ),
    session("tls_map_password", _login("", "word"), LOOP, settings=MAPPED, tls=_as("with_password")),
    session("tls_map_wrong_password", _login("", "w"), LOOP, settings=MAPPED, tls=_as("with_password")),
    session("tls_map_needless_password", _login("", "x"), LOOP, settings=MAPPED, tls=_as("dns")),
    *(
        session(f"tls_map_or_guest_{name}_{first}", data, LOOP, settings=MAPPED_OR_GUEST, tls=_as(name))
        for name in ("email", "nobody")
        for first, data in {"connects": connect_line(), "pings": b"PING\r\n"}.items()
    ),
    session("tls_password", _login("derek", "s3cr3t"), LOOP, settings=PASSWORD, tls=PLAIN),
    session("tls_password_wrong", _login("derek", "wrong"), settings=PASSWORD, tls=PLAIN),
    session("tls_connected_info", connect_line(protocol=1), settings=BASIC, tls=PLAIN, whole_info=True),
    session(
        "tls_connected_info_optional",
        connect_line(protocol=1),
        settings=OPTIONAL,
        tls=PLAIN,
        whole_info=True,
    ),
    session("tls_bytewise", bytewise(connect_line() + LOOP), settings=BASIC, tls=PLAIN),
    session(
        "tls_long", connect_line(), b"SUB foo 1\r\n", pub(b"foo", b"x" * 500_000), settings=BASIC, tls=PLAIN
    ),
    session(
        "tls_too_long",
        connect_line(),
        pub(b"foo", b"x" * 1_100_000),
        settings=BASIC,
        tls=PLAIN,
        only_closes=True,
    ),
    session("tls_nonsense", b"nonsense\r\n", settings=BASIC, tls=PLAIN),
    session("tls_verbose", connect_line(verbose=True), LOOP, settings=BASIC, tls=PLAIN),
    session(
        "tls_two_clients",
        send(connect_line() + b"SUB foo 1\r\n", "b"),
        send(pub(b"foo", b"hi")),
        settings=BASIC,
        tls=PLAIN,
    ),
    session("tls_hang_up", opened(), hang_up(), settings=BASIC, tls=PLAIN),
    session("tls_too_many_connections", opened(), opened("b"), settings=FEW, tls=PLAIN, only_closes=True),
    session("tls_and_plain", opened(), opened("plain"), send(LOOP, "plain"), settings=OPTIONAL, tls=PLAIN),
    session("tls_optional_plain_info", opened("plain"), settings=OPTIONAL, tls=PLAIN, whole_info=True),
    session("tls_optional_plain_bytewise", bytewise(LOOP, "plain"), settings=OPTIONAL, tls=PLAIN),
    session(
        "tls_optional_auto_plain_waits_for_info",
        quiet("plain", lines=1),
        send(LOOP, "plain"),
        settings=OPTIONAL_AUTO,
        tls=EARLY,
        whole_info=True,
    ),
    *(
        session(
            f"tls_refuses_{name}",
            part(data, "plain"),
            closed("plain"),
            settings=BASIC,
            tls=PLAIN,
            only_closes=True,
        )
        for name, data in {
            "connect_in_clear": connect_line(user="derek", **{"pass": "s3cr3t"}) + b"PING\r\n",
            "ping_in_clear": b"PING\r\nPING\r\n",
            "http": b"GET /varz HTTP/1.1\r\n\r\n",
            "an_alert": b"\x15\x03\x01\x00\x02\x02\x28",
            "a_long_record": b"\x16\x03\x01\xff\xff" + b"x" * 100,
            "sslv2": b"\x80\x2e\x01\x00\x02" + b"x" * 44,
        }.items()
    ),
    session(
        "tls_first_refuses_ping_in_clear",
        part(b"PING\r\nPING\r\n", "plain"),
        closed("plain"),
        settings=FIRST,
        tls=EARLY,
        only_closes=True,
    ),
    session("tls_timeout_without_a_word", part(b"", "plain"), closed("plain"), settings=IMPATIENT, tls=PLAIN),
    session(
        "tls_timeout_in_the_handshake",
        part(CLIENT_HELLO_START, "plain"),
        closed("plain"),
        settings=IMPATIENT,
        tls=PLAIN,
    ),
    session(
        "tls_hang_up_before_the_handshake", hang_up("plain"), settings=BASIC, tls=PLAIN, only_closes=True
    ),
    session(
        "tls_hang_up_in_the_handshake",
        hang_up("plain", CLIENT_HELLO_START),
        settings=BASIC,
        tls=PLAIN,
        only_closes=True,
    ),
]
