"""Reads a `tls` block. Its files are read, too: an invalid one is a configuration error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from headrace.config.durations import parse_duration
from headrace.config.tls.context import with_files
from headrace.config.tls.names import BROKEN_CIPHERS, CURVES, INSECURE_CIPHERS, OPENSSL_CIPHERS, TLS13_CIPHERS
from headrace.config.tls.settings import (
    DEFAULT_MIN_VERSION,
    DEFAULT_TIMEOUT_SECONDS,
    CertificateFiles,
    TlsSettings,
)
from headrace.config.values import Value
from headrace.errors import UsageError

FALLBACK_SECONDS = 0.05
OLD_VERSIONS = ("1.0", "1.1")
VERSIONS = ("1.2", "1.3")
_PIN = re.compile(r"[0-9a-f]{64}")
_ERROR = "error parsing tls config"

WINDOWS_FIELDS = frozenset(
    {"cert_store", "cert_match_by", "cert_match", "ca_certs_match", "cert_match_skip_invalid"}
)


@dataclass
class _Block:
    """What has been read so far."""

    certificate: str = ""
    key: str = ""
    certificates: tuple[CertificateFiles, ...] = ()
    allows_insecure: bool = False
    insecure: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)


def read_tls(block: Value) -> TlsSettings:
    """Raises ConfigError where the block, or a file that it names, is wrong."""
    read = _Block()
    for name, value in block.mapping().items():
        _read_field(name, value, read)
    if read.certificates and read.certificate:
        raise block.error(f"{_ERROR}, cannot combine 'cert_file' option with 'certs' option")
    if read.insecure and not read.allows_insecure:
        raise block.error(
            "insecure cipher suites configured without 'allow_insecure_cipher_suites' option set: "
            + ", ".join(read.insecure)
        )
    if read.certificate and not read.key:
        raise block.error("missing 'key_file' in TLS configuration")
    if read.key and not read.certificate:
        raise block.error("missing 'cert_file' in TLS configuration")
    if read.certificate:
        read.certificates = (CertificateFiles(read.certificate, read.key),)
    try:
        return with_files(TlsSettings(certificates=read.certificates, **read.settings))
    except UsageError as error:
        raise block.error(error.message) from None


def _read_field(name: str, value: Value, read: _Block) -> None:
    lowered = name.lower()
    if lowered in ("cert_file", "key_file", "ca_file"):
        _read_file(lowered, value, read)
    elif lowered in _BOOLEANS:
        _read_switch(lowered, value, read)
    elif lowered in ("certs", "certificates"):
        read.certificates = tuple(_read_pair(entry) for entry in _list(value))
    elif lowered == "cipher_suites":
        read.settings["cipher_suites"] = tuple(_read_cipher(entry, read) for entry in _filled(value, lowered))
    elif lowered == "curve_preferences":
        read.settings["curves"] = tuple(_read_curve(entry) for entry in _filled(value, lowered))
    elif lowered == "min_version":
        read.settings["min_version"] = _read_version(value)
    elif lowered == "timeout":
        read.settings["timeout"] = _read_timeout(value) or DEFAULT_TIMEOUT_SECONDS
    elif lowered in ("handshake_first", "first", "immediate"):
        read.settings |= _read_handshake_first(name, value)
    elif lowered == "pinned_certs":
        read.settings["pinned_certificates"] = _read_pins(value)
    elif lowered == "connection_rate_limit":
        if type(value.plain) is not int:
            raise value.error(f"{_ERROR}, 'connection_rate_limit' wrong type")
        read.settings["rate_limit"] = value.plain
    elif lowered == "ocsp_peer":
        if value.plain is not False:
            raise value.error("ocsp_peer: this version of Headrace does not support OCSP yet")
    elif lowered in WINDOWS_FIELDS:
        raise value.error(f"{name}: certificate stores exist on Windows only; use cert_file and key_file")
    else:
        raise value.error(f'{_ERROR}, unknown field "{name}"')


def _read_file(name: str, value: Value, read: _Block) -> None:
    if not isinstance(value.plain, str):
        raise value.error(f"{_ERROR}, expected '{name}' to be filename")
    if name == "cert_file":
        read.certificate = value.plain
    elif name == "key_file":
        read.key = value.plain
    else:
        read.settings["ca_file"] = value.plain


_BOOLEANS = frozenset(
    {
        "verify",
        "verify_and_map",
        "insecure",
        "verify_cert_and_check_known_urls",
        "allow_insecure_cipher_suites",
    }
)


def _read_switch(name: str, value: Value, read: _Block) -> None:
    on = value.plain
    if not isinstance(on, bool):
        raise value.error(f"{_ERROR}, expected '{name}' to be a boolean")
    if name == "verify":
        read.settings["verify"] = on
    elif name == "verify_and_map":
        read.settings["maps_users"] = on
        if on:
            read.settings["verify"] = True
    elif name == "verify_cert_and_check_known_urls" and on:
        raise value.error("verify_cert_and_check_known_urls not supported in this context")
    elif name == "allow_insecure_cipher_suites":
        read.allows_insecure = on
    # `insecure` is for connections that a server makes itself: a listener accepts it, and it changes nothing.


def _list(value: Value) -> list[Value]:
    if not isinstance(value.plain, list):
        raise value.error(f"error parsing certificates config: {value.wrong_kind(list).message}")
    return value.plain


def _read_pair(entry: Value) -> CertificateFiles:
    if not isinstance(entry.plain, dict):
        raise entry.error(f"error parsing certificates config: {entry.wrong_kind(dict).message}")
    given: dict[str, str] = {}
    for name, value in entry.plain.items():
        if not isinstance(value.plain, str):
            raise value.error(f"error parsing certificates config: {value.wrong_kind(str).message}")
        if name not in ("cert_file", "key_file"):
            raise value.error(f'error parsing tls certs config, unknown field "{name}"')
        given[name] = value.plain
    if not given.get("cert_file") or not given.get("key_file"):
        raise entry.error(
            "error parsing certificates config: both 'cert_file' and 'cert_key' options are required"
        )
    return CertificateFiles(given["cert_file"], given["key_file"])


def _filled(value: Value, name: str) -> list[Value]:
    if not value.array():
        raise value.error(f"{_ERROR}, '{name}' cannot be empty")
    return value.array()


def _read_cipher(value: Value, read: _Block) -> str:
    name = value.string()
    if name not in OPENSSL_CIPHERS and name not in TLS13_CIPHERS and name not in BROKEN_CIPHERS:
        raise value.error(f"unrecognized cipher {name}")
    if name in BROKEN_CIPHERS and read.allows_insecure:
        raise value.error(f"cipher {name} is broken, and OpenSSL does not have it any more")
    if name in INSECURE_CIPHERS or name in BROKEN_CIPHERS:
        read.insecure.append(name)
    return name


def _read_curve(value: Value) -> str:
    if value.string() not in CURVES:
        raise value.error(f"unrecognized curve preference {value.string()}")
    return value.string()


def _read_version(value: Value) -> str:
    if not isinstance(value.plain, str):
        raise value.error(f"{_ERROR}: 'min_version' wrong type: {value.plain}")
    if value.plain in OLD_VERSIONS:
        raise value.error(f"{_ERROR}: unsupported TLS version: TLS {value.plain}")
    if value.plain not in VERSIONS:
        raise value.error(f"{_ERROR}: unknown version: {value.plain}")
    return value.plain or DEFAULT_MIN_VERSION


def _read_timeout(value: Value) -> float:
    plain = value.plain
    if isinstance(plain, str):
        try:
            return parse_duration(plain)
        except ValueError as error:
            raise value.error(f"{_ERROR}, 'timeout' {error}") from None
    if isinstance(plain, int | float) and not isinstance(plain, bool):
        return float(plain)
    raise value.error(f"{_ERROR}, 'timeout' wrong type")


def _read_handshake_first(name: str, value: Value) -> dict[str, Any]:
    plain = value.plain
    if isinstance(plain, bool):
        return {"handshake_first": plain, "fallback_delay": 0.0}
    if not isinstance(plain, str):
        raise value.error(f'field "{name}" should be a boolean or a string, got {_go_type(plain)}')
    lowered = plain.lower()
    if lowered in ("true", "on"):
        return {"handshake_first": True, "fallback_delay": 0.0}
    if lowered in ("false", "off"):
        return {"handshake_first": False, "fallback_delay": 0.0}
    if lowered in ("auto", "auto_fallback"):
        return {"handshake_first": True, "fallback_delay": FALLBACK_SECONDS}
    try:
        return {"handshake_first": True, "fallback_delay": parse_duration(plain)}
    except ValueError:
        raise value.error(f'field "{name}"\'s value "{plain}" is invalid') from None


def _go_type(plain: object) -> str:
    return {int: "int64", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}.get(
        type(plain), type(plain).__name__
    )


def _read_pins(value: Value) -> frozenset[str]:
    if not isinstance(value.plain, list):
        raise value.error(
            f"{_ERROR}, expected 'pinned_certs' to be a list of hex-encoded sha256 of DER encoded "
            "SubjectPublicKeyInfo"
        )
    pins = set()
    for entry in value.plain:
        pin = entry.string().lower()
        if not _PIN.fullmatch(pin):
            raise entry.error(
                f"{_ERROR}, 'pinned_certs' key {pin} does not look like hex-encoded sha256 of DER encoded "
                "SubjectPublicKeyInfo"
            )
        pins.add(pin)
    return frozenset(pins)
