"""Certificates for tests, made on the fly: an authority, and whatever it signs.

    authority = Authority(directory)
    server = authority.issue("server", hosts=["localhost", "127.0.0.1"])
    client = authority.issue("client", emails=["derek@nats.io"])
    ssl.create_default_context(cafile=authority.certificate)
    f'tls {{ cert_file: "{server.certificate}", key_file: "{server.key}" }}'

`shared()` has one set for the whole process: making keys takes time, though little for elliptic curves.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import ipaddress
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

KEY_MODE = 0o600
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Issued:
    """The files of a certificate and of its key, both PEM."""

    certificate: str
    key: str

    def load(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(Path(self.certificate).read_bytes())

    def pin(self) -> str:
        """What `pinned_certs` has: the SHA-256 of the public key, in hexadecimal digits."""
        public = self.load().public_key()
        return hashlib.sha256(
            public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        ).hexdigest()


class Authority:
    """A certificate authority with its files in a directory. With a `parent`, which signs its certificate, it
    is an intermediate one."""

    def __init__(self, directory: Path, name: str = "authority", parent: Authority | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Headrace test {name}")])
        signer = parent or self
        builder = _builder(self._name, signer._name, self._key.public_key(), _today())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        files = self._write(name, builder.sign(signer._key, hashes.SHA256()), self._key)
        self.certificate = files.certificate
        self.key = files.key

    @classmethod
    def with_key_of(cls, issued: Issued, directory: Path) -> Authority:
        """Whoever has this certificate, and signs others with its key, though it is not for that."""
        forger = cls(directory, "forger")
        key = serialization.load_pem_private_key(Path(issued.key).read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        forger._name, forger._key = issued.load().subject, key
        return forger

    def issue(
        self,
        name: str,
        *,
        hosts: Sequence[str] = LOOPBACK,
        emails: Sequence[str] = (),
        uris: Sequence[str] = (),
        subject: x509.Name | None = None,
        valid_from: datetime | None = None,
        days: int = 30,
        usages: Sequence[x509.ObjectIdentifier] = (
            ExtendedKeyUsageOID.SERVER_AUTH,
            ExtendedKeyUsageOID.CLIENT_AUTH,
        ),
        password: str = "",
    ) -> Issued:
        """A certificate for a server or a client, in `<name>.pem` and `<name>-key.pem`.

        Without a subject its common name is `name`. `days` may be negative: then it has expired. With a
        password the key is encrypted.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = subject or x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        starts = valid_from or _today() - timedelta(days=0 if days > 0 else 1 - days)
        builder = _builder(subject, self._name, key.public_key(), starts, abs(days))
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(signer, critical=False)
        names: list[x509.GeneralName] = [_host_name(host) for host in hosts]
        names += [x509.RFC822Name(email) for email in emails]
        names += [x509.UniformResourceIdentifier(uri) for uri in uris]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return self._write(name, builder.sign(self._key, hashes.SHA256()), key, password)

    def _write(
        self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey, password: str = ""
    ) -> Issued:
        secrecy: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            secrecy = serialization.BestAvailableEncryption(password.encode())
        certificate_file = self._directory / f"{name}.pem"
        key_file = self._directory / f"{name}-key.pem"
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.touch(mode=KEY_MODE)
        key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secrecy)
        )
        return Issued(str(certificate_file), str(key_file))


@dataclass(frozen=True)
class Shared:
    """What most tests need."""

    authority: Authority
    server: Issued
    client: Issued
    stranger: Issued
    """A client's certificate of an authority that nobody trusts."""
    expired: Issued

    @property
    def ca(self) -> str:
        return self.authority.certificate


@functools.cache
def shared() -> Shared:
    """One set for this process, in a directory that is removed at its end."""
    directory = tempfile.TemporaryDirectory(prefix="headrace-certificates-")
    atexit.register(directory.cleanup)
    place = Path(directory.name)
    authority = Authority(place)
    return Shared(
        authority=authority,
        server=authority.issue("server"),
        client=authority.issue("client", hosts=["client.example"], emails=["client@example.com"]),
        stranger=Authority(place / "other", "stranger").issue("stranger"),
        expired=authority.issue("expired", days=-1),
    )


def _today() -> datetime:
    # An hour ago: a clock that is a little behind is no reason to refuse it.
    return datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    starts: datetime,
    days: int = 30,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts)
        .not_valid_after(starts + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
