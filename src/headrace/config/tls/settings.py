"""A `tls` block as plain data. context.py makes an ssl context of it."""

from __future__ import annotations

import msgspec

DEFAULT_TIMEOUT_SECONDS = 2.0
DEFAULT_MIN_VERSION = "1.2"


class CertificateFiles(msgspec.Struct, frozen=True):
    """A certificate, with those that connect it to its authority, and its private key. Both are PEM files."""

    certificate: str
    key: str


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    certificates: tuple[CertificateFiles, ...] = ()
    """The first one serves clients that ask for a name that none of them has, or for no name."""
    ca_file: str = ""
    """The CAs that sign client certificates; empty: those that the system trusts."""
    verify: bool = False
    """Clients must have a certificate."""
    maps_users: bool = False
    """`verify_and_map`: the certificate says which user a client is."""
    cipher_suites: tuple[str, ...] = ()
    """Go's names, for TLS 1.2; empty: all that are secure. Those of TLS 1.3 cannot be chosen."""
    curves: tuple[str, ...] = ()
    """Go's names; empty: those of OpenSSL."""
    min_version: str = DEFAULT_MIN_VERSION
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    handshake_first: bool = False
    """The handshake comes before INFO."""
    fallback_delay: float = 0.0
    """How long a client may take to begin it before INFO is sent to it; 0: any time."""
    pinned_certificates: frozenset[str] = frozenset()
    """SHA-256 of the public keys that are accepted; empty: all."""
    rate_limit: int = 0
    """Handshakes per second; 0: any number."""
    digest: str = ""
    """Of the files' contents: new certificates under old names are a change, too."""
    expires_at: float = 0.0
    """When the first certificate does, in seconds since 1970; 0: there is none."""
