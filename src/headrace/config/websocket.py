"""Reads the `websocket` block: a second listener, mainly for browsers, with its own rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.config.addresses import read_listen
from headrace.config.durations import parse_duration
from headrace.config.problems import Problems
from headrace.config.tls.directives import read_tls
from headrace.config.tls.settings import TlsSettings
from headrace.config.values import KIND_NAMES, Value
from headrace.config.web_origins import parse_origin
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.config.options import Options

DEFAULT_HOST = "0.0.0.0"
DEFAULT_SIMPLE_TIMEOUT_SECONDS = 1.0
OUR_HEADERS = ("host", "content-length", "connection", "upgrade", "nats-no-masking")
WEBSOCKET_PREFIX = "sec-websocket-"


class WebSocketOptions(msgspec.Struct, frozen=True):
    """All of it. Durations are seconds; 0 is that of other clients."""

    host: str = DEFAULT_HOST
    port: int = 0  # 0: there is no such listener
    advertise: str = ""
    no_tls: bool = False
    tls: TlsSettings | None = None
    same_origin: bool = False
    allowed_origins: tuple[str, ...] = ()
    compression: bool = False
    handshake_timeout: float = 0.0
    ping_interval: float = 0.0
    headers: dict[str, str] = {}
    jwt_cookie: str = ""
    user_cookie: str = ""
    pass_cookie: str = ""
    token_cookie: str = ""
    no_auth_user: str = ""
    username: str = ""
    password: str = ""
    token: str = ""
    auth_timeout: float = 0.0

    @property
    def overrides_authorization(self) -> bool:
        """Whether its clients need different credentials."""
        return bool(self.username or self.token or self.no_auth_user)

    def __repr__(self) -> str:
        shown = {
            name: "[hidden]" if name in ("username", "password", "token") else value
            for name, value in msgspec.structs.asdict(self).items()
            if value != getattr(NO_WEBSOCKET, name)
        }
        return f"WebSocketOptions({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


NO_WEBSOCKET = WebSocketOptions()


def read_websocket(block: Value, problems: Problems) -> dict[str, object]:
    """The change that the block makes to Options. Errors go to `problems`."""
    if not isinstance(block.plain, dict):
        raise block.error(f"Expected websocket to be a map, got {KIND_NAMES[type(block.plain)]}")
    changes: dict[str, Any] = {}
    for name, value in block.plain.items():
        with problems.collecting():
            reader = FIELDS.get(name.lower())
            if reader is not None:
                changes.update(reader(value, problems))
            elif not value.used_as_variable:
                raise value.error(f'unknown field "{name}"')
    if not changes.get("host"):
        changes["host"] = DEFAULT_HOST
    return {"websocket": WebSocketOptions(**changes)}


Changes = dict[str, Any]
Reader = Callable[[Value, Problems], Changes]


def _string(option: str) -> Reader:
    return lambda value, problems: {option: value.string()}


def _boolean(option: str) -> Reader:
    return lambda value, problems: {option: value.boolean()}


def _listen(value: Value, problems: Problems) -> Changes:
    host, port = read_listen(value)
    return {"host": host, "port": port}


def _port(value: Value, problems: Problems) -> Changes:
    return {"port": value.integer()}


def _tls(value: Value, problems: Problems) -> Changes:
    return {"tls": read_tls(value)}


def _origins(value: Value, problems: Problems) -> Changes:
    if isinstance(value.plain, str):
        return {"allowed_origins": (value.plain,)}
    if not isinstance(value.plain, list):
        raise value.error(f"error parsing allowed origins: unsupported type {KIND_NAMES[type(value.plain)]}")
    for entry in value.plain:
        if not isinstance(entry.plain, str):
            kind = KIND_NAMES[type(entry.plain)]
            problems.errors.append(
                entry.error(f"error parsing allowed origins: unsupported type in array {kind}")
            )
    return {"allowed_origins": tuple(entry.plain for entry in value.plain if isinstance(entry.plain, str))}


def _handshake_timeout(value: Value, problems: Problems) -> Changes:
    plain = value.plain
    if type(plain) is int:
        return {"handshake_timeout": float(plain)}
    if not isinstance(plain, str):
        raise value.error(f"error parsing handshake timeout: unsupported type {KIND_NAMES[type(plain)]}")
    try:
        return {"handshake_timeout": parse_duration(plain)}
    except ValueError as error:
        raise value.error(str(error)) from None


def _ping_interval(value: Value, problems: Problems) -> Changes:
    if type(value.plain) is int:
        problems.warn(value, "ping_interval", "ping_interval should be converted to a duration")
        return {"ping_interval": float(value.plain)}
    try:
        return {"ping_interval": parse_duration(value.string())}
    except ValueError as error:
        raise value.error(f"error parsing ping_interval: {error}") from None


def _headers(value: Value, problems: Problems) -> Changes:
    if not isinstance(value.plain, dict):
        raise value.error(f"error parsing headers: unsupported type {KIND_NAMES[type(value.plain)]}")
    headers = {}
    for name, entry in value.plain.items():
        if isinstance(entry.plain, str):
            headers[name] = entry.plain
        else:
            kind = KIND_NAMES[type(entry.plain)]
            problems.errors.append(entry.error(f"error parsing header key {name}: unsupported type {kind}"))
    return {"headers": headers}


def _authorization(value: Value, problems: Problems) -> Changes:
    """One user or a token; `users` are those of the server."""
    changes: Changes = {"username": "", "password": "", "token": "", "auth_timeout": 0.0}
    for name, entry in value.mapping().items():
        with problems.collecting():
            lowered = name.lower()
            if lowered in ("user", "username"):
                changes["username"] = entry.string()
            elif lowered in ("pass", "password"):
                changes["password"] = entry.string()
            elif lowered == "token":
                changes["token"] = entry.string()
            elif lowered == "timeout":
                is_number = isinstance(entry.plain, int | float) and not isinstance(entry.plain, bool)
                changes["auth_timeout"] = (
                    float(entry.plain) if is_number else DEFAULT_SIMPLE_TIMEOUT_SECONDS  # type: ignore[arg-type]
                )
            elif not entry.used_as_variable:
                raise entry.error(f'unknown field "{name}"')
    return changes


FIELDS: dict[str, Reader] = {
    "listen": _listen,
    "port": _port,
    "host": _string("host"),
    "net": _string("host"),
    "advertise": _string("advertise"),
    "no_tls": _boolean("no_tls"),
    "tls": _tls,
    "same_origin": _boolean("same_origin"),
    **dict.fromkeys(
        ("allowed_origins", "allowed_origin", "allow_origins", "allow_origin", "origins", "origin"), _origins
    ),
    "handshake_timeout": _handshake_timeout,
    "compress": _boolean("compression"),
    "compression": _boolean("compression"),
    "authorization": _authorization,
    "authentication": _authorization,
    "jwt_cookie": _string("jwt_cookie"),
    "user_cookie": _string("user_cookie"),
    "pass_cookie": _string("pass_cookie"),
    "token_cookie": _string("token_cookie"),
    "no_auth_user": _string("no_auth_user"),
    "headers": _headers,
    "ping_interval": _ping_interval,
}


def check_websocket(options: Options) -> None:
    """Raises ConfigError where it contradicts the other options, with the messages of nats-server."""
    websocket = options.websocket
    if not websocket.port:
        return
    if websocket.tls is None and not websocket.no_tls:
        raise ConfigError("websocket requires TLS configuration")
    for origin in websocket.allowed_origins:
        _check_origin(origin)
    check_no_auth_user(options, websocket.no_auth_user)
    if options.users:
        for name in ("username", "token"):
            if getattr(websocket, name):
                raise ConfigError(
                    f"websocket authentication {name} not compatible with presence of users/nkeys"
                )
    if websocket.jwt_cookie and not options.trust.is_operator_mode:
        raise ConfigError(
            "trusted operators or trusted keys configuration is required for JWT authentication via cookie "
            f'"{websocket.jwt_cookie}"'
        )
    for name in websocket.headers:
        if name.lower() in OUR_HEADERS:
            raise ConfigError(f'websocket: invalid header "{name}" not allowed')
        if name.lower().startswith(WEBSOCKET_PREFIX):
            raise ConfigError(f'websocket: invalid header "{name}", "Sec-WebSocket-" prefix not allowed')


def _check_origin(text: str) -> None:
    try:
        origin = parse_origin(text)
    except ValueError as error:
        raise ConfigError(f"unable to parse allowed origin: {error}") from None
    if origin.scheme not in ("http", "https"):
        raise ConfigError(
            f'unable to parse allowed origin "{text}": '
            "allowed origins must be absolute URLs with http or https scheme"
        )
    if not origin.host:
        raise ConfigError(f'unable to parse allowed origin "{text}": host is required')


def check_no_auth_user(options: Options, name: str) -> None:
    """Raises ConfigError unless it is one of the users, or empty."""
    if name and options.users is None:
        raise ConfigError(f'no_auth_user: "{name}" present, but users/nkeys are not defined')
    if name and all(name not in (user.user, user.nkey) for user in options.users or ()):
        raise ConfigError(
            f'no_auth_user: "{name}" not present as user or nkey in authorization block '
            "or account configuration"
        )
