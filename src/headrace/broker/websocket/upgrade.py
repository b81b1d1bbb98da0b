"""Which HTTP requests become WebSocket connections, and what is kept of them: the rules of nats-server."""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import re
from collections.abc import Iterator
from http import HTTPStatus

import msgspec

from headrace.broker.connect_options import ConnectOptions
from headrace.broker.websocket.http_head import Request, encode_refusal
from headrace.config.web_origins import Origin, parse_origin, split_host
from headrace.config.websocket import WebSocketOptions

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY_BYTES = 16
VERSION = "13"
COMPRESSION = "permessage-deflate"
COMPRESSION_ANSWER = f"{COMPRESSION}; server_no_context_takeover; client_no_context_takeover"
BROWSER = "Mozilla/"
BROWSER_FRAME_BYTES = 4096  # browsers do better with short frames
LEAF_PATH, MQTT_PATH = "/leafnode", "/mqtt"

_COOKIE_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_VALUE = re.compile(r"[ !#-:<-\[\]-~]*")


class WebSocketPeer(msgspec.Struct, frozen=True):
    """What the handshake says about a client. Cookies are credentials for a CONNECT that has none."""

    forwarded_for: str = ""
    jwt: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    masks: bool = True
    compresses: bool = False
    is_browser: bool = False
    splits_compressed: bool = True
    """Safari does not accept fragments of compressed messages."""
    is_leaf: bool = False

    def __repr__(self) -> str:
        return f"WebSocketPeer(forwarded_for={self.forwarded_for!r})"  # cookies must not reach a log

    def fill(self, options: ConnectOptions) -> ConnectOptions:
        """What a client says in CONNECT, completed by its cookies."""
        return msgspec.structs.replace(
            options,
            jwt=options.jwt or self.jwt,
            user=options.user or self.user,
            password=options.password or self.password,
            auth_token=options.auth_token or self.token,
        )

    @property
    def frame_limit(self) -> int:
        return BROWSER_FRAME_BYTES if self.is_browser else 0


class Refused(Exception):
    """The request is HTTP, but does not become a connection."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason

    def encode(self, request: Request) -> bytes:
        return encode_refusal(request, self.status)


class Upgrade:
    """The rules that options make."""

    def __init__(self, options: WebSocketOptions, *, is_tls: bool) -> None:
        self._options = options
        self._is_tls = is_tls
        self._origins = frozenset(map(parse_origin, options.allowed_origins))

    def accept(self, request: Request) -> tuple[bytes, WebSocketPeer]:
        """The answer, and who the peer is. Raises Refused."""
        key = self._check(request)
        compresses = self._options.compression and _offers_compression(request)
        masks = request.first("nats-no-masking") != "true"
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {accept_key(key)}",
            *([f"Sec-WebSocket-Extensions: {COMPRESSION_ANSWER}"] if compresses else []),
            *([] if masks else ["Nats-No-Masking: true"]),
            *(f"{name}: {value}" for name, value in self._options.headers.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode(), self._peer(request, compresses, masks)

    def _check(self, request: Request) -> str:
        if request.path.endswith(MQTT_PATH):
            raise Refused(HTTPStatus.NOT_FOUND, "mqtt websocket endpoint not enabled")
        if request.method != "GET":
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "request method must be GET")
        if not request.host:
            raise Refused(HTTPStatus.BAD_REQUEST, "'Host' missing in request")
        if not request.lists("upgrade", "websocket"):
            raise Refused(HTTPStatus.BAD_REQUEST, "invalid value for header 'Upgrade'")
        if not request.lists("connection", "upgrade"):
            raise Refused(HTTPStatus.BAD_REQUEST, "invalid value for header 'Connection'")
        key = request.first("sec-websocket-key")
        if not key:
            raise Refused(HTTPStatus.BAD_REQUEST, "key missing")
        if not _is_key(key):
            raise Refused(HTTPStatus.BAD_REQUEST, "invalid websocket key")
        if not request.lists("sec-websocket-version", VERSION):
            raise Refused(HTTPStatus.BAD_REQUEST, "invalid version")
        try:
            self._check_origin(request)
        except ValueError as error:
            raise Refused(HTTPStatus.FORBIDDEN, f"origin not allowed: {error}") from None
        return key

    def _check_origin(self, request: Request) -> None:
        """Raises ValueError. Only browsers have to send one."""
        if not self._options.same_origin and not self._origins:
            return
        text = request.first("origin") or request.first("sec-websocket-origin")
        if not text:
            return
        origin = parse_origin(text)
        if self._options.same_origin:
            host, port = split_host(request.host, is_tls=self._is_tls)
            if origin != Origin("https" if self._is_tls else "http", host, port):
                raise ValueError("not same origin")
        if self._origins and origin not in self._origins:
            raise ValueError("not in the allowed list")

    def _peer(self, request: Request, compresses: bool, masks: bool) -> WebSocketPeer:
        agent = request.first("user-agent")
        is_browser = agent.startswith(BROWSER)
        is_safari = is_browser and "Version/" in agent and "Safari/" in agent
        forwarded_for = request.first("x-forwarded-for")
        return WebSocketPeer(
            forwarded_for=forwarded_for if _is_address(forwarded_for) else "",
            masks=masks,
            compresses=compresses,
            is_browser=is_browser,
            splits_compressed=not is_safari,
            is_leaf=request.path.endswith(LEAF_PATH),
            **self._credentials(request),
        )

    def _credentials(self, request: Request) -> dict[str, str]:
        options = self._options
        wanted: dict[str, str] = {}
        for cookie, field in (
            (options.token_cookie, "token"),
            (options.pass_cookie, "password"),
            (options.user_cookie, "user"),
            (options.jwt_cookie, "jwt"),
        ):
            if cookie:
                wanted[cookie] = field
        if not wanted:
            return {}
        return {wanted[name]: value for name, value in read_cookies(request) if name in wanted}


def accept_key(key: str) -> str:
    return base64.b64encode(hashlib.sha1((key + GUID).encode("latin-1")).digest()).decode()


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _offers_compression(request: Request) -> bool:
    return any(
        part.strip(" \t").lower() == COMPRESSION
        for value in request.all("sec-websocket-extensions")
        for part in re.split("[,;]", value)
    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def read_cookies(request: Request) -> Iterator[tuple[str, str]]:
    """Names and values, in order; what is not one is skipped."""
    for header in request.all("cookie"):
        for part in header.split(";"):
            name, _, value = part.strip(" \t").partition("=")
            if len(value) > 1 and value[0] == value[-1] == '"':
                value = value[1:-1]
            if _COOKIE_NAME.fullmatch(name) and _COOKIE_VALUE.fullmatch(value):
                yield name, value
