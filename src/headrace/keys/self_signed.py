"""A CA and a server certificate, created on the spot: for trying out TLS, and for measuring it.

    directory/ca.pem           what clients need: the CA's certificate
    directory/ca-key.pem       with which it signs
    directory/server.pem       the server's certificate
    directory/server-key.pem

Existing files are kept as long as they are valid, so that clients rarely need a new CA.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headrace.errors import UsageError

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
LEAST_DAYS_LEFT = 7
DIRECTORY_MODE = 0o700
KEY_MODE = 0o600
CERTIFICATE_MODE = 0o644
CLOCKS_DIFFER = timedelta(hours=1)


@dataclass(frozen=True)
class SelfSigned:
    """The files, and which of them were made just now."""

    ca: str
    certificate: str
    key: str
    made: tuple[str, ...]


@dataclass(frozen=True)
class _Pair:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def own_hosts() -> tuple[str, ...]:
    """The names under which this machine can be reached."""
    return ("localhost", "127.0.0.1", "::1", socket.gethostname())


def prepare_self_signed(directory: str, hosts: Sequence[str] | None = None) -> SelfSigned:
    """Files for a server with these hosts; what is missing or expired is created. Raises UsageError."""
    place = Path(directory)
    hosts = own_hosts() if hosts is None else tuple(hosts)
    made = []
    try:
        place.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        authority = _load(place, "ca")
        if authority is None:
            authority = _make_authority()
            _save(place, "ca", authority)
            made.append("ca.pem")
        server = _load(place, "server")
        if server is None or not _is_signed_by(server, authority) or not _covers(server, hosts):
            _save(place, "server", _issue(authority, hosts))
            made.append("server.pem")
    except OSError as error:
        raise UsageError(
            f"cannot write certificates to {directory}: {(error.strerror or str(error)).lower()}",
            hint="choose a directory that you may write to",
        ) from None
    return SelfSigned(
        str(place / "ca.pem"), str(place / "server.pem"), str(place / "server-key.pem"), tuple(made)
    )


def _load(place: Path, name: str) -> _Pair | None:
    """What is there, if it can be used. Raises UsageError if it is something else, which must not be lost."""
    certificate_file, key_file = place / f"{name}.pem", place / f"{name}-key.pem"
    if not certificate_file.exists() and not key_file.exists():
        return None
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    except (FileNotFoundError, ValueError, TypeError):
        raise UsageError(
            f"{certificate_file} and {key_file} are not a certificate and its key",
            hint="delete both, or choose another directory",
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or certificate.public_key() != key.public_key():
        raise UsageError(
            f"{key_file} is not the key of {certificate_file}",
            hint="delete both, or choose another directory",
        )
    remaining = certificate.not_valid_after_utc - datetime.now(UTC)
    return _Pair(certificate, key) if remaining > timedelta(days=LEAST_DAYS_LEFT) else None


def _is_signed_by(server: _Pair, authority: _Pair) -> bool:
    try:
        server.certificate.verify_directly_issued_by(authority.certificate)
    except (InvalidSignature, ValueError, TypeError):  # another signature, another name, another kind of key
        return False
    return True


def _covers(server: _Pair, hosts: Sequence[str]) -> bool:
    try:
        extension = server.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return False
    return {_name_of(host) for host in hosts} <= set(extension.value)


def _make_authority() -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Headrace on {socket.gethostname()}"[:64])])
    builder = _builder(name, name, key, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return _Pair(builder.sign(key, hashes.SHA256()), key)


def _issue(authority: _Pair, hosts: Sequence[str]) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Headrace server")])
    builder = _builder(name, authority.certificate.subject, key, CERTIFICATE_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    names = dict.fromkeys(_name_of(host) for host in hosts)
    builder = builder.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
    )
    return _Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    starts = datetime.now(UTC).replace(microsecond=0) - CLOCKS_DIFFER
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts)
        .not_valid_after(starts + timedelta(days=days))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name_of(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _save(place: Path, name: str, pair: _Pair) -> None:
    key = pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(place / f"{name}-key.pem", key, KEY_MODE)
    _write(place / f"{name}.pem", pair.certificate.public_bytes(serialization.Encoding.PEM), CERTIFICATE_MODE)


def _write(path: Path, data: bytes, mode: int) -> None:
    """With this mode from the first moment: nobody else may read a key, not even while it is written."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    temporary.replace(path)
