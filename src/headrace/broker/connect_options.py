"""The fields of a client's CONNECT."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, NoReturn

import msgspec

from headrace.accounts.credentials import Credentials
from headrace.errors import ProtocolError
from headrace.sharing import share

LONE_SURROGATES = re.compile("[\ud800-\udfff]")
REDACTED = "[REDACTED]"
SECRET_FIELDS = frozenset({"pass", "auth_token", "jwt", "sig", "nkey", "proxy_sig"})

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class ConnectOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The fields that this server reads. The defaults hold before CONNECT, too, as in nats-server."""

    verbose: bool = True
    pedantic: bool = True
    echo: bool = True
    headers: bool = False
    no_responders: bool = False
    protocol: Int64 = 0
    user: str = ""
    password: str = msgspec.field(name="pass", default="")
    auth_token: str = ""
    jwt: str = ""
    nkey: str = ""
    sig: str = ""
    account: str = ""
    new_account: bool = False
    name: str = ""
    lang: str = ""
    version: str = ""

    def __repr__(self) -> str:
        return f"ConnectOptions(name={self.name!r})"  # credentials must not reach a log through a repr

    @property
    def has_secrets(self) -> bool:
        return bool(self.password or self.auth_token or self.jwt or self.sig or self.nkey)


BEFORE_CONNECT = ConnectOptions()


def credentials_of(
    options: ConnectOptions,
    *,
    nonce: str,
    host: str,
    port: int,
    cid: int,
    connection_type: str,
    certificate: bytes,
) -> Credentials:
    """What a client sent, and what else is known about it."""
    return Credentials(
        options.user,
        options.password,
        options.auth_token,
        jwt=options.jwt,
        nkey=options.nkey,
        sig=options.sig,
        nonce=nonce,
        host=host,
        port=port,
        cid=cid,
        name=options.name,
        lang=options.lang,
        version=options.version,
        protocol=options.protocol,
        connection_type=connection_type,
        certificate=certificate,
    )


class PeerInfo(msgspec.Struct):
    """An INFO that a client sends has no effect, but its types are checked."""

    server_id: str | None = None
    server_name: str | None = None
    version: str | None = None
    proto: Int64 | None = None
    host: str | None = None
    port: Int64 | None = None
    max_payload: Int64 | None = None


def read_connect(line: bytes, before: ConnectOptions) -> ConnectOptions:
    """The options after a CONNECT: fields that it leaves out keep their value. Raises ProtocolError."""
    try:
        fields = read_json(line)
        if fields is None:
            return before
        if not isinstance(fields, dict):
            raise ProtocolError("CONNECT is not a JSON object")
        # Go's decoder, by which clients were tested, ignores the case of names and takes null for absent.
        given = {name.lower(): value for name, value in fields.items() if value is not None}
        options = msgspec.convert({**msgspec.to_builtins(before), **given}, ConnectOptions)
        # Not those with secrets, which would stay in memory after the client has left.
        return options if options.has_secrets else share(options)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        # Not the text itself: it holds credentials.
        raise ProtocolError(f"CONNECT cannot be read: {type(error).__name__}") from None


def redact_connect(line: bytes) -> bytes:
    """A CONNECT that can be logged: secrets are hidden, or all of it if they cannot be located."""
    try:
        fields = read_json(line)
        if not isinstance(fields, dict):
            return REDACTED.encode()
        shown = {name: REDACTED if name.lower() in SECRET_FIELDS else value for name, value in fields.items()}
        return json.dumps(shown, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return REDACTED.encode()


def check_info(line: bytes) -> None:
    """Raises ProtocolError if an INFO cannot be read."""
    try:
        msgspec.convert(read_json(line) or {}, PeerInfo)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ProtocolError(f"INFO cannot be read: {type(error).__name__}") from None


def read_json(line: bytes) -> Any:
    """Go's decoder puts U+FFFD in the place of broken UTF-8 and lone surrogates, where msgspec gives up."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        decoded = json.loads(line.decode(errors="replace"), parse_constant=_refuse_constant)
        if not isinstance(decoded, dict):
            return decoded
        return {
            name: LONE_SURROGATES.sub("\ufffd", value) if isinstance(value, str) else value
            for name, value in decoded.items()
        }


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
