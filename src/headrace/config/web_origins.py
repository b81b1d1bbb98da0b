"""Origins: where a page in a browser comes from. They are split as Go's net/url splits them."""

from __future__ import annotations

import re

import msgspec

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_IN_HOST = re.compile(r"""[\s"<>\\^`{|}]""")
DEFAULT_PORTS = {True: "443", False: "80"}


class Origin(msgspec.Struct, frozen=True):
    scheme: str
    host: str
    port: str


def parse_origin(text: str) -> Origin:
    """Raises ValueError with Go's explanation."""
    try:
        scheme, authority = _split(text)
    except ValueError as error:
        raise ValueError(f'parse "{text}": {error}') from None
    host, port = split_host(authority, is_tls=scheme == "https")
    return Origin(scheme, host, port)


def _split(text: str) -> tuple[str, str]:
    if any(character < " " or character == "\x7f" for character in text):
        raise ValueError("net/url: invalid control character in URL")
    if not text:
        raise ValueError("empty url")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    found = _SCHEME.match(text)
    scheme, rest = (found[1].lower(), text[found.end() :]) if found else ("", text)
    if not rest.startswith("/"):
        if scheme:
            return scheme, ""
        raise ValueError("invalid URI for request")
    if not scheme or not rest.startswith("//"):
        return scheme, ""
    authority = re.split(r"[/?]", rest[2:], maxsplit=1)[0].rpartition("@")[2]
    _check_authority(authority)
    return scheme, authority


def _check_authority(authority: str) -> None:
    if bad := _BAD_IN_HOST.search(authority):
        raise ValueError(f'invalid character "{bad.group()}" in host name')
    if authority.startswith("["):
        _, bracket, port = authority.rpartition("]")
        if not bracket:
            raise ValueError("missing ']' in host")
    else:
        _, colon, port = authority.partition(":")
        port = colon + port if colon else ""
    if port and not (port.startswith(":") and (port == ":" or port[1:].isdecimal())):
        raise ValueError(f'invalid port "{port}" after host')


def split_host(address: str, *, is_tls: bool) -> tuple[str, str]:
    """The host in lower case, and the port, which may be left out. Raises ValueError with Go's text."""
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        return address.lower(), DEFAULT_PORTS[is_tls]
    if host.startswith("["):
        if not host.endswith("]"):
            raise ValueError(f"address {address}: missing ']' in address")
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"address {address}: too many colons in address")
    return host.lower(), port
