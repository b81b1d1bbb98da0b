"""WebSocket: the request that opens it, frames, compression, origins, cookies."""

from __future__ import annotations

import zlib
from typing import Any

from tests.certificates import shared
from tests.interop import settings
from tests.interop.session import (
    PLAIN,
    Session,
    Step,
    bytewise,
    closed,
    connect,
    connect_line,
    frames,
    opened,
    part,
    pub,
    quiet,
    send,
    session,
)
from tests.websockets import CLOSE as CLOSE_FRAME
from tests.websockets import (
    CONTINUATION,
    DEFLATE,
    PING,
    PONG,
    RSV1,
    RSV2,
    RSV3,
    TEXT,
    close_frame,
    deflate,
    fragments,
    frame,
    request,
)

LOOP = b"SUB foo 1\r\n" + pub(b"foo", b"hi")
HELLO = connect_line() + LOOP
EXTENSION = f"Sec-WebSocket-Extensions: {DEFLATE}"
PORT = 4222  # in a Host header, which is compared with an Origin alone

# -- HTTP

REQUESTS: dict[str, bytes] = {
    "usual": request(PORT),
    "any_path": request(PORT, target="/some/where?x=y"),
    "leafnode": request(PORT, target="/leafnode"),
    "leafnode_below": request(PORT, target="/x/leafnode"),
    "mqtt": request(PORT, target="/mqtt"),
    "mqtt_below": request(PORT, target="/x/mqtt"),
    "mqtt_post": request(PORT, target="/mqtt", method="POST"),
    "post": request(PORT, method="POST"),
    "head": request(PORT, method="HEAD"),
    "lower_case_method": request(PORT, method="get"),
    "names_in_other_case": request(PORT, "UPGRADE: WebSocket", "connection: keep-alive, UPGRADE"),
    "upgrade_missing": request(PORT, left_out=["Upgrade"]),
    "upgrade_wrong": request(PORT, "Upgrade: websockets"),
    "upgrade_list": request(PORT, "Upgrade: h2c , WEBSOCKET"),
    "connection_missing": request(PORT, left_out=["Connection"]),
    "connection_wrong": request(PORT, "Connection: keep-alive"),
    "connection_twice": request(PORT, "Connection: keep-alive", "Connection: Upgrade"),
    "connection_close": request(PORT, "Connection: close"),
    "key_missing": request(PORT, left_out=["Sec-WebSocket-Key"]),
    "key_empty": request(PORT, "Sec-WebSocket-Key:"),
    "key_short": request(PORT, "Sec-WebSocket-Key: c2hvcnQ="),
    "key_long": request(PORT, "Sec-WebSocket-Key: " + "A" * 24),
    "key_not_base64": request(PORT, "Sec-WebSocket-Key: !GhlIHNhbXBsZSBub25jZQ=="),
    "version_missing": request(PORT, left_out=["Sec-WebSocket-Version"]),
    "version_old": request(PORT, "Sec-WebSocket-Version: 8"),
    "version_list": request(PORT, "Sec-WebSocket-Version: 8, 13"),
    "host_missing": request(PORT, left_out=["Host"]),
    "host_twice": request(PORT, "Host: a", "Host: b"),
    "host_malformed": request(PORT, "Host: a b"),
    "http_1_0": request(PORT).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "http_1_0_alone": b"GET / HTTP/1.0\r\n\r\n",
    "http_2": request(PORT).replace(b"HTTP/1.1", b"HTTP/2.0"),
    "http_nonsense": request(PORT).replace(b"HTTP/1.1", b"HTTP/one"),
    "no_http": b"CONNECT {}\r\n\r\n",
    "header_without_colon": request(PORT, "nonsense"),
    "header_with_space": request(PORT, "Some Name: x"),
    "header_name_invalid": request(PORT, "N@me: x"),
    "transfer_encoding": request(PORT, "Transfer-Encoding: gzip"),
    "no_masking": request(PORT, "Nats-No-Masking: true"),
    "no_masking_other_case": request(PORT, "Nats-No-Masking: True"),
    "compression_not_enabled": request(PORT, EXTENSION),
    "protocol_ignored": request(PORT, "Sec-WebSocket-Protocol: nats"),
    "origin_does_not_matter": request(PORT, "Origin: http://evil.example"),
    "comes_with_a_frame": request(PORT) + frame(HELLO),
}

OFFERS: dict[str, tuple[str, ...]] = {
    "as_we_like_it": (EXTENSION,),
    "as_chromium": ("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",),
    "other_case": ("sec-websocket-extensions: PerMessage-Deflate",),
    "second_in_list": ("Sec-WebSocket-Extensions: x-webkit-deflate-frame , permessage-deflate",),
    "another": ("Sec-WebSocket-Extensions: permessage-bzip2",),
    "none": (),
}

# (settings, Origin, Host)
ORIGINS: dict[str, tuple[str, str, str]] = {
    "same": (settings.WEBSOCKET_SAME_ORIGIN, "http://a.example", "a.example"),
    "same_with_port": (settings.WEBSOCKET_SAME_ORIGIN, "http://a.example:81", "A.example:81"),
    "same_default_port": (settings.WEBSOCKET_SAME_ORIGIN, "http://a.example", "a.example:80"),
    "same_other_port": (settings.WEBSOCKET_SAME_ORIGIN, "http://a.example:81", "a.example"),
    "same_other_host": (settings.WEBSOCKET_SAME_ORIGIN, "http://b.example", "a.example"),
    "same_other_scheme": (settings.WEBSOCKET_SAME_ORIGIN, "https://a.example:80", "a.example"),
    "same_null": (settings.WEBSOCKET_SAME_ORIGIN, "null", "a.example"),
    "same_empty": (settings.WEBSOCKET_SAME_ORIGIN, "", "a.example"),
    "same_bad_port": (settings.WEBSOCKET_SAME_ORIGIN, "http://a.example:x", "a.example"),
    "listed": (settings.WEBSOCKET_ORIGINS, "http://shop.example", "a"),
    "listed_default_port": (settings.WEBSOCKET_ORIGINS, "http://SHOP.example:80", "a"),
    "listed_tls": (settings.WEBSOCKET_ORIGINS, "https://shop.example:8443", "a"),
    "listed_address": (settings.WEBSOCKET_ORIGINS, "http://[::1]:8080", "a"),
    "not_listed": (settings.WEBSOCKET_ORIGINS, "http://evil.example", "a"),
    "not_listed_port": (settings.WEBSOCKET_ORIGINS, "http://shop.example:81", "a"),
    "not_listed_scheme": (settings.WEBSOCKET_ORIGINS, "https://shop.example", "a"),
    "not_listed_below": (settings.WEBSOCKET_ORIGINS, "http://x.shop.example", "a"),
}


def _http(name: str, *steps: Step | bytes, text: str = settings.WEBSOCKET) -> Session:
    return session(f"websocket_request_{name}", *steps, settings=text, wire="http")


HTTP: list[Session] = [
    *(_http(name, data) for name, data in REQUESTS.items()),
    *(
        _http(f"offer_{name}", request(PORT, *headers), text=settings.WEBSOCKET_COMPRESSED)
        for name, headers in OFFERS.items()
    ),
    *(
        _http(f"origin_{name}", request(PORT, f"Origin: {origin}", f"Host: {host}"), text=text)
        for name, (text, origin, host) in ORIGINS.items()
    ),
    _http(
        "old_origin_header",
        request(PORT, "Sec-WebSocket-Origin: http://evil"),
        text=settings.WEBSOCKET_ORIGINS,
    ),
    _http("no_origin", request(PORT), text=settings.WEBSOCKET_ORIGINS),
    _http("after_a_mistake", request(PORT, method="PUT"), request(PORT, left_out=["Upgrade"]), request(PORT)),
    _http("bytewise", bytewise(request(PORT))),
]

# -- frames


def _frames(name: str, *steps: Step | bytes, compressed: bool = False, only_closes: bool = False) -> Session:
    text = settings.WEBSOCKET_COMPRESSED if compressed else settings.WEBSOCKET
    upgrade = (EXTENSION,) if compressed else ()
    name = f"websocket_{'deflate' if compressed else 'frame'}_{name}"
    return session(name, *steps, settings=text, wire="websocket", upgrade=upgrade, only_closes=only_closes)


GOOD_FRAMES: dict[str, bytes] = {
    "text": frame(HELLO, TEXT),
    "two_at_once": frame(connect_line()) + frame(LOOP),
    "operation_over_two": frame(HELLO[:40]) + frame(HELLO[40:]),
    "fragments": fragments([HELLO[:3], HELLO[3:40], HELLO[40:]]),
    "fragments_one_byte_each": fragments(HELLO[at : at + 1] for at in range(len(HELLO))),
    "fragments_empty": fragments([b"", HELLO, b"", b""]),
    "empty": frame(b"") + frame(b"", TEXT) + frame(HELLO),
    "mask_of_zeros": frame(HELLO, key=bytes(4)),
    "length_in_two_bytes": frame(HELLO, length_bytes=2),
    "length_in_eight_bytes": frame(HELLO, length_bytes=8),
    "long": frame(connect_line() + b"SUB foo 1\r\n" + pub(b"foo", b"x" * 8000)),
    "ping": frame(HELLO) + frame(b"are you there", PING),
    "ping_empty": frame(b"", PING) + frame(HELLO),
    "ping_longest": frame(b"x" * 125, PING) + frame(HELLO),
    "pings": frame(b"1", PING) + frame(b"2", PING) + frame(HELLO),
    "pong": frame(b"unasked", PONG) + frame(HELLO),
    "ping_between_fragments": frame(HELLO[:40], fin=False)
    + frame(b"?", PING)
    + frame(HELLO[40:], CONTINUATION),
}

CLOSES: dict[str, bytes] = {
    "without_status": close_frame(None),
    "normal": close_frame(1000),
    "going_away": close_frame(1001, b"tab closed"),
    "own_status": close_frame(4000, b"x" * 123),
    "registered_status": close_frame(3999),
    "not_utf8": close_frame(1000, b"\xff\xfe"),
    "after_operations": frame(HELLO) + close_frame(1000) + frame(LOOP),
}

BROKEN_RULES: dict[str, bytes] = {
    "not_masked": frame(HELLO, key=None),
    "rsv1": frame(HELLO, rsv=RSV1),
    "rsv2": frame(HELLO, rsv=RSV2),
    "rsv3": frame(b"", PING, rsv=RSV3),
    "opcode_3": frame(HELLO, 3),
    "opcode_11": frame(b"", 11),
    "long_ping": frame(b"x" * 126, PING),
    "fragment_of_ping": frame(b"", PING, fin=False),
    "continuation_first": frame(HELLO, CONTINUATION),
    "continuation_after_last": frame(HELLO) + frame(LOOP, CONTINUATION),
    "message_in_message": frame(HELLO, fin=False) + frame(LOOP),
    "length_2_to_the_63": frame(b"x", length=1 << 63, length_bytes=8),
    "close_of_one_byte": frame(b"x", CLOSE_FRAME),
    "close_999": close_frame(999),
    "close_1005": close_frame(1005),
    "close_1016": close_frame(1016),
    "close_5000": close_frame(5000),
    "nonsense": frame(b"nonsense\r\n"),
}

FRAMES: list[Session] = [
    *(_frames(name, frames(data), pub(b"foo", b"again")) for name, data in GOOD_FRAMES.items()),
    *(
        _frames(f"{name}_bytewise", frames(GOOD_FRAMES[name], chunks=(1,)))
        for name in ("two_at_once", "ping")
    ),
    *(_frames(f"close_{name}", part(data, raw=True), closed()) for name, data in CLOSES.items()),
    *(
        _frames(f"broken_{name}", part(data, raw=True), closed(), only_closes=True)
        for name, data in BROKEN_RULES.items()
    ),
    _frames(
        "of_2_to_the_62", part(frame(connect_line() + b"PING\r\n", length=1 << 62), raw=True), quiet(lines=1)
    ),
    _frames("payload_too_long", connect(), part(b"PUB foo 8193\r\n"), closed()),
    _frames("line_too_long", connect(), part(b"SUB " + b"x" * 5000), closed()),
    _frames(
        "meets_a_plain_client", connect(), b"SUB foo 1\r\n", send(connect_line() + pub(b"foo", b"hi"), PLAIN)
    ),
    _frames(
        "reaches_a_plain_client",
        send(connect_line() + b"SUB foo 1\r\n", PLAIN),
        connect(),
        pub(b"foo", b"hi"),
    ),
]

DEFLATED: list[Session] = [
    _frames("message", frames(frame(deflate(HELLO), rsv=RSV1)), compressed=True),
    _frames("not_used", HELLO, compressed=True),
    _frames("long_answer", connect(), LOOP + pub(b"foo", b"x" * 8000), compressed=True),
    _frames(
        "fragments", frames(fragments([deflate(HELLO)[:9], deflate(HELLO)[9:]], rsv=RSV1)), compressed=True
    ),
    _frames("stored", frames(frame(deflate(HELLO, 0), rsv=RSV1)), compressed=True),
    _frames("last_block", frames(frame(zlib.compress(HELLO, wbits=-15), rsv=RSV1)), compressed=True),
    _frames(
        "ping_in_between",
        frames(
            frame(deflate(HELLO)[:9], rsv=RSV1, fin=False)
            + frame(b"?", PING)
            + frame(deflate(HELLO)[9:], CONTINUATION)
        ),
        compressed=True,
    ),
    _frames(
        "two_messages",
        frames(frame(deflate(connect_line()), rsv=RSV1) + frame(deflate(LOOP), rsv=RSV1)),
        compressed=True,
    ),
    *(
        _frames(f"broken_{name}", part(data, raw=True), closed(), compressed=True, only_closes=True)
        for name, data in {
            "corrupt": frame(b"\xff" * 20, rsv=RSV1),
            "cut_off": frame(deflate(HELLO)[:-8], rsv=RSV1),
            "ping": frame(b"", PING, rsv=RSV1),
            "continuation": frame(deflate(HELLO)[:9], rsv=RSV1, fin=False)
            + frame(b"x", CONTINUATION, rsv=RSV1),
            "too_much": frame(deflate(connect_line() + b"PING\r\n" * 2000), rsv=RSV1),
            "endless": frame(b"", rsv=RSV1, fin=False)
            + frame(b"\0\0\0\xff\xff" * 2000, CONTINUATION, fin=False) * 8,
        }.items()
    ),
]

# -- who may connect: (settings, headers, what is sent first)

LOGINS: dict[str, tuple[str, tuple[str, ...], bytes]] = {
    "nobody_is_guest": (settings.WEBSOCKET_USERS, (), connect_line()),
    "without_connect": (settings.WEBSOCKET_USERS, (), b"PING\r\n"),
    "user": (settings.WEBSOCKET_USERS, (), connect_line(user="boss", **{"pass": "word"})),
    "user_wrong": (settings.WEBSOCKET_USERS, (), connect_line(user="boss", **{"pass": "x"})),
    "cookies": (settings.WEBSOCKET_USERS, ("Cookie: who=boss; secret=word",), connect_line()),
    "cookies_apart": (settings.WEBSOCKET_USERS, ("Cookie: who=boss", "Cookie: secret=word"), connect_line()),
    "cookies_quoted": (settings.WEBSOCKET_USERS, ('Cookie: who="boss"; secret="word"',), connect_line()),
    "cookies_wrong": (settings.WEBSOCKET_USERS, ("Cookie: who=boss; secret=x",), connect_line()),
    "cookies_half": (settings.WEBSOCKET_USERS, ("Cookie: who=boss",), connect_line()),
    "cookie_for_password": (settings.WEBSOCKET_USERS, ("Cookie: secret=word",), connect_line(user="boss")),
    "connect_before_cookies": (
        settings.WEBSOCKET_USERS,
        ("Cookie: who=boss; secret=x",),
        connect_line(user="guest", **{"pass": "word"}),
    ),
    "cookies_without_connect": (settings.WEBSOCKET_USERS, ("Cookie: who=boss; secret=word",), b"PING\r\n"),
    "cookies_of_others": (settings.WEBSOCKET_USERS, ("Cookie: session=1; WHO=boss",), connect_line()),
    "own_user": (settings.WEBSOCKET_PASSWORD, (), connect_line(user="derek", **{"pass": "s3cr3t"})),
    "own_user_wrong": (settings.WEBSOCKET_PASSWORD, (), connect_line(user="derek", **{"pass": "x"})),
    "own_user_nothing": (settings.WEBSOCKET_PASSWORD, (), connect_line()),
    "own_user_by_cookies": (
        settings.WEBSOCKET_PASSWORD,
        ("Cookie: who=derek; secret=s3cr3t",),
        connect_line(),
    ),
    "token_of_the_others": (settings.WEBSOCKET_PASSWORD, (), connect_line(auth_token="t0k3n")),
    "token": (settings.WEBSOCKET_TOKEN, (), connect_line(auth_token="t0k3n")),
    "token_wrong": (settings.WEBSOCKET_TOKEN, (), connect_line(auth_token="x")),
    "token_by_cookie": (settings.WEBSOCKET_TOKEN, ("Cookie: ticket=t0k3n",), connect_line()),
    "token_by_cookie_wrong": (settings.WEBSOCKET_TOKEN, ("Cookie: ticket=x",), connect_line()),
    "token_missing": (settings.WEBSOCKET_TOKEN, (), connect_line()),
}

LOGIN: list[Session] = [
    *(
        session(
            f"websocket_login_{name}",
            data,
            LOOP,
            settings=text,
            wire="websocket",
            upgrade=headers,
            whole_info=True,
        )
        for name, (text, headers, data) in LOGINS.items()
    ),
    *(
        session(
            f"websocket_info_{name}",
            opened(),
            connect(protocol=1),
            settings=text,
            wire="websocket",
            whole_info=True,
        )
        for name, text in {
            "usual": settings.WEBSOCKET,
            "users": settings.WEBSOCKET_USERS,
            "password": settings.WEBSOCKET_PASSWORD,
        }.items()
    ),
    session(
        "websocket_info_of_plain_client",
        opened(PLAIN),
        settings=settings.WEBSOCKET_USERS,
        wire="websocket",
        whole_info=True,
    ),
    session(
        "websocket_forwarded_for",
        opened(),
        settings=settings.WEBSOCKET,
        wire="websocket",
        upgrade=("X-Forwarded-For: 1.2.3.4",),
        whole_info=True,
    ),
    session(
        "websocket_no_masking",
        frames(frame(HELLO, key=None)),
        settings=settings.WEBSOCKET,
        wire="websocket",
        upgrade=("Nats-No-Masking: true",),
        only_closes=True,
    ),
    session(
        "websocket_stale",
        part(b""),
        closed(),
        settings=settings.WEBSOCKET_IMPATIENT,
        wire="websocket",
    ),
]

# -- over TLS

_CERTIFICATE = shared().server
OVER_TLS = f"""
websocket {{
  listen: "127.0.0.1:-1", compression: true
  tls {{ cert_file: "{_CERTIFICATE.certificate}", key_file: "{_CERTIFICATE.key}" }}
}}
max_payload: 8192
"""


def _secure(name: str, *steps: Step | bytes, **options: Any) -> Session:
    return session(f"websocket_tls_{name}", *steps, settings=OVER_TLS, wire="websocket over TLS", **options)


SECURE: list[Session] = [
    _secure("info", opened(), connect(protocol=1), whole_info=True),
    _secure("info_of_plain_client", opened(PLAIN), whole_info=True),
    _secure("same_origin_is_https", opened(), upgrade=("Origin: https://127.0.0.1:{port}",)),
    *(_secure(name, frames(GOOD_FRAMES[name])) for name in ("text", "fragments", "long", "ping")),
    *(_secure(f"close_{name}", part(CLOSES[name], raw=True), closed()) for name in ("normal", "own_status")),
    _secure("deflate", frames(frame(deflate(HELLO), rsv=RSV1)), upgrade=(EXTENSION,)),
    _secure("deflate_long_answer", connect(), LOOP + pub(b"foo", b"x" * 8000), upgrade=(EXTENSION,)),
    _secure("payload_too_long", connect(), part(b"PUB foo 8193\r\n"), closed()),
]

SESSIONS: list[Session] = [*HTTP, *FRAMES, *DEFLATED, *LOGIN, *SECURE]
