"""From a `tls` block to OpenSSL: the one place where a server's certificates, ciphers and versions are set.

Clients, the monitor, flags, files and reloads all come through `make_context`, so that none of them can be
less strict than the others.
"""

from __future__ import annotations

import hashlib
import ssl
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headrace.config.tls.names import (
    CURVES,
    GO_CIPHERS,
    NIST_CURVES,
    OPENSSL_CIPHERS,
    SECURE_CIPHERS,
    TLS13_CIPHERS,
)
from headrace.config.tls.settings import CertificateFiles, TlsSettings
from headrace.errors import UsageError

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
PAIR = "error parsing X509 certificate/key pair"


def with_files(settings: TlsSettings) -> TlsSettings:
    """The settings with the current contents of their files. Raises UsageError if one is unusable."""
    expiries = [_check_dates(files, _pair_text(settings, place)) for place, files in _places(settings)]
    make_context(settings)
    names = [name for files in settings.certificates for name in (files.certificate, files.key)]
    names += [settings.ca_file] if settings.ca_file else []
    digest = hashlib.sha256()
    for name in names:
        digest.update(hashlib.sha256(_read(name, "")).digest())
    return msgspec.structs.replace(
        settings, digest=digest.hexdigest(), expires_at=expiries[0] if expiries else 0.0
    )


def make_context(settings: TlsSettings, *, asks_for_certificates: bool = True) -> ssl.SSLContext:
    """What a server wraps connections with. Raises UsageError."""
    contexts = [_make_one(settings, files, _pair_text(settings, place)) for place, files in _places(settings)]
    context = contexts[0] if contexts else _make_plain(settings)
    if len(contexts) > 1:
        _choose_by_name(context, settings.certificates, contexts)
    if settings.verify and asks_for_certificates:
        context.verify_mode = ssl.CERT_REQUIRED
        _trust(context, settings.ca_file)
    elif settings.ca_file:
        _trust(context, settings.ca_file)
    return context


def go_cipher_name(openssl: str) -> str:
    """As /connz shows it."""
    return GO_CIPHERS.get(openssl, openssl)


def _places(settings: TlsSettings) -> Sequence[tuple[int, CertificateFiles]]:
    return list(enumerate(settings.certificates, 1))


def _pair_text(settings: TlsSettings, place: int) -> str:
    count = len(settings.certificates)
    return PAIR if count == 1 else f"{PAIR} {place}/{count}"


def _make_plain(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[settings.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # NATS clients do not resume sessions. Tickets for it would cost a fifth of a handshake, and memory.
    context.num_tickets = 0
    chosen = settings.cipher_suites or tuple(SECURE_CIPHERS)
    names = [OPENSSL_CIPHERS[name] for name in chosen if name not in TLS13_CIPHERS]
    if names:
        context.set_ciphers(":".join(names))
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3  # nothing else was asked for
    if settings.curves:
        _set_curves(context, settings.curves)
    return context


def _make_one(settings: TlsSettings, files: CertificateFiles, text: str) -> ssl.SSLContext:
    context = _make_plain(settings)
    _read(files.certificate, text)
    _read(files.key, text)

    def refuse_password() -> str:
        raise _wrong(
            f'{text}: key_file "{files.key}" is encrypted',
            "give a key without a passphrase: openssl pkey -in KEY -out NEW",
        )

    try:
        context.load_cert_chain(files.certificate, files.key, password=refuse_password)
    except ssl.SSLError as error:
        raise _pair_error(files, text, error) from None
    return context


def _pair_error(files: CertificateFiles, text: str, error: ssl.SSLError) -> UsageError:
    if error.reason == "KEY_VALUES_MISMATCH" or error.reason == "KEY_TYPE_MISMATCH":
        return _wrong(
            f"{text}: tls: private key does not match public key: "
            f'key_file "{files.key}" does not belong to cert_file "{files.certificate}"',
            "give the key that the certificate was made for",
        )
    if b"-----BEGIN CERTIFICATE-----" not in _read(files.certificate, text):
        reason = f'failed to find any PEM data in certificate input: cert_file "{files.certificate}"'
    elif b"PRIVATE KEY-----" not in _read(files.key, text):
        reason = f'failed to find any PEM data in key input: key_file "{files.key}"'
    else:
        reason = f'cert_file "{files.certificate}", key_file "{files.key}": {error.reason or error}'
    return _wrong(f"{text}: tls: {reason}", "both must be PEM files")


def _check_dates(files: CertificateFiles, text: str) -> float:
    """When it expires. Raises UsageError if it has: nats-server starts, and every client refuses it."""
    from cryptography import x509  # a server without TLS does not load it

    data = _read(files.certificate, text)
    try:
        certificate = x509.load_pem_x509_certificate(data)
    except ValueError:
        reason = "failed to find any PEM data in certificate input"
        if b"PRIVATE KEY-----" in data:
            reason = (
                "failed to find certificate PEM data in certificate input, but did find a private key; "
                "PEM inputs may have been switched"
            )
        raise _wrong(
            f'{text}: tls: {reason}: cert_file "{files.certificate}"',
            "give a PEM file that begins with the server's certificate",
        ) from None
    ends = certificate.not_valid_after_utc
    if ends.timestamp() < time.time():
        raise _wrong(
            f'cert_file "{files.certificate}" expired on {ends:%Y-%m-%d %H:%M} UTC',
            "no client would accept it: renew the certificate",
        )
    return ends.timestamp()


def _trust(context: ssl.SSLContext, ca_file: str) -> None:
    if not ca_file:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    data = _read(ca_file, "")
    # As in Go, whatever is in the file is trusted: an intermediate authority without its root, too.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=data.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        raise _wrong(
            f'failed to parse root ca certificate: ca_file "{ca_file}"',
            "give a PEM file with the certificates of the authorities that sign clients' certificates",
        ) from None


def _set_curves(context: ssl.SSLContext, curves: tuple[str, ...]) -> None:
    names = [CURVES[name] for name in curves]
    set_groups = getattr(context, "set_groups", None)  # since Python 3.15
    if set_groups is not None:
        set_groups(":".join(names))
    elif len(curves) == 1 and curves[0] in NIST_CURVES:
        context.set_ecdh_curve(names[0])
    else:
        raise _wrong(
            f"curve_preferences: this version of Python can set exactly one of {', '.join(NIST_CURVES)}",
            "omit curve_preferences for all that OpenSSL has",
        )


def _choose_by_name(
    context: ssl.SSLContext, certificates: tuple[CertificateFiles, ...], contexts: list[ssl.SSLContext]
) -> None:
    """Have the first certificate serve that is for the name that a client asks for."""
    names = [_host_names(files) for files in certificates]

    def choose(connection: ssl.SSLObject, asked: str | None, _: ssl.SSLContext) -> None:
        for patterns, candidate in zip(names, contexts, strict=True):
            if asked is not None and matches_host(asked, patterns):
                connection.context = candidate
                return

    context.sni_callback = choose


def _host_names(files: CertificateFiles) -> tuple[str, ...]:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(_read(files.certificate, ""))
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(name.lower() for name in extension.value.get_values_for_type(x509.DNSName))


def matches_host(host: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of a certificate's names is for this host: `*` stands for the first label."""
    host = host.lower().rstrip(".")
    _, _, rest = host.partition(".")
    return host in patterns or (bool(rest) and f"*.{rest}" in patterns)


def _wrong(message: str, way_out: str) -> UsageError:
    """The way out is part of the message: a reload and `-t` print nothing else."""
    return UsageError(f"{message} ({way_out})")


def _read(name: str, text: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        prefix = f"{text}: " if text else ""
        raise _wrong(
            f"{prefix}open {name}: {(error.strerror or str(error)).lower()}",
            "check the name of the file, and that the server may read it",
        ) from None
