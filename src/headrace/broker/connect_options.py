"""What a client says of itself in CONNECT."""

from __future__ import annotations

import msgspec

from headrace.errors import ProtocolError


class ConnectOptions(msgspec.Struct, kw_only=True):
    """The fields that this server reads. The defaults hold before CONNECT, too, as in nats-server."""

    verbose: bool = True
    pedantic: bool = True
    echo: bool = True
    headers: bool = False
    no_responders: bool = False
    protocol: int = 0
    user: str = ""
    password: str = msgspec.field(name="pass", default="")
    auth_token: str = ""
    account: str = ""
    new_account: bool = False
    name: str = ""
    lang: str = ""
    version: str = ""

    def __repr__(self) -> str:
        return f"ConnectOptions(name={self.name!r})"  # credentials must not reach a log by way of a repr


def read_connect(json: bytes, before: ConnectOptions) -> ConnectOptions:
    """The options after a CONNECT: fields that it leaves out keep their value. Raises ProtocolError."""
    try:
        fields = msgspec.json.decode(json)
        if fields is None:
            return before
        if not isinstance(fields, dict):
            raise ProtocolError("CONNECT is not a JSON object")
        # Go's decoder, by which clients were tested, ignores the case of names and takes null for absent.
        given = {name.lower(): value for name, value in fields.items() if value is not None}
        return msgspec.convert({**msgspec.to_builtins(before), **given}, ConnectOptions)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # Not the text itself: it holds credentials.
        raise ProtocolError(f"CONNECT cannot be read: {type(error).__name__}") from None
