"""CONNECT and INFO: what they contain, what they may contain, and what holds before and without them."""

from tests.interop import settings
from tests.interop.session import (
    Session,
    bytewise,
    closed,
    connect,
    connect_line,
    opened,
    part,
    pub,
    quiet,
    send,
    session,
)

LOOP = b"SUB foo 1\r\n" + pub(b"foo", b"hi")
BAD_SUBJECT = pub(b"foo.*", b"hi")

# Each sent as the first operation, then a subscription, a message and a publication to a bad subject.
FIRST_LINES: dict[str, bytes] = {
    "empty_object": b"CONNECT {}\r\n",
    "lowercase": b"connect {}\r\n",
    "tab": b"CONNECT\t{}\r\n",
    "without_space": b"CONNECT{}\r\n",
    "many_spaces": b"CONNECT     {}   \r\n",
    "bare_newline": b"CONNECT {}\n",
    "white_space_inside": b'CONNECT { "verbose" : false , "pedantic" : false }\r\n',
    "carriage_return_inside": b'CONNECT {"verbose":\rfalse}\r\n',
    "no_argument": b"CONNECT\r\n",
    "only_space": b"CONNECT \r\n",
    "not_json": b"CONNECT hello\r\n",
    "unfinished_json": b'CONNECT {"verbose":false\r\n',
    "trailing_comma": b'CONNECT {"verbose":false,}\r\n',
    "single_quotes": b"CONNECT {'verbose':false}\r\n",
    "comment": b'CONNECT {"verbose":false/**/}\r\n',
    "trailing_text": b"CONNECT {} {}\r\n",
    "array": b"CONNECT []\r\n",
    "string": b'CONNECT "verbose"\r\n',
    "number": b"CONNECT 1\r\n",
    "null": b"CONNECT null\r\n",
    "true": b"CONNECT true\r\n",
    "unknown_field": b'CONNECT {"verbose":false,"colour":{"a":[1,2,{}]}}\r\n',
    "duplicate_field": b'CONNECT {"verbose":true,"verbose":false}\r\n',
    "field_in_capitals": b'CONNECT {"VERBOSE":false,"Pedantic":false}\r\n',
    "null_field": b'CONNECT {"verbose":null,"name":null,"protocol":null}\r\n',
    "verbose_as_string": b'CONNECT {"verbose":"false"}\r\n',
    "verbose_as_number": b'CONNECT {"verbose":0}\r\n',
    "name_as_number": b'CONNECT {"verbose":false,"name":5}\r\n',
    "user_as_array": b'CONNECT {"verbose":false,"user":[]}\r\n',
    "protocol_as_string": b'CONNECT {"protocol":"1"}\r\n',
    "protocol_as_fraction": b'CONNECT {"protocol":1.5}\r\n',
    "protocol_as_float": b'CONNECT {"protocol":1.0}\r\n',
    "protocol_as_exponent": b'CONNECT {"protocol":1e0}\r\n',
    "protocol_overflow": b'CONNECT {"protocol":99999999999999999999}\r\n',
    "echo_as_string": b'CONNECT {"echo":"no"}\r\n',
    "echo_null": b'CONNECT {"verbose":false,"echo":null}\r\n',
    "invalid_utf8_name": b'CONNECT {"verbose":false,"name":"\xff\xfe"}\r\n',
    "unicode_name": 'CONNECT {"verbose":false,"name":"Δ☃"}\r\n'.encode(),
    "escaped_name": b'CONNECT {"verbose":false,"name":"\\u0000\\n\\ud800\\"}"}\r\n',
    "raw_control_character_in_name": b'CONNECT {"verbose":false,"name":"a\x01b"}\r\n',
    "raw_nul_after_object": b"CONNECT {}\x00\r\n",
    "byte_order_mark": b"CONNECT \xef\xbb\xbf{}\r\n",
    "odd_lang_and_version": b'CONNECT {"verbose":false,"lang":"","version":"%s %d"}\r\n',
    "deep_nesting": b'CONNECT {"verbose":false,"x":' + b"[" * 400 + b"]" * 400 + b"}\r\n",
    "long_name": connect_line(name="n" * 3900),
    "too_long": connect_line(name="n" * 4100),
    "tls_required_by_client": connect_line(tls_required=True),
    "account": connect_line(account="X"),
    "account_empty": connect_line(account=""),
    "new_account": connect_line(new_account=True),
    "jwt_is_ignored": connect_line(jwt="abc", sig="def"),
    "nkey_is_ignored": connect_line(nkey="UABC"),
    "user_is_ignored_without_auth": connect_line(user="a", **{"pass": "b"}),
    "token_is_ignored_without_auth": connect_line(auth_token="t"),
    "protocol_0": connect_line(protocol=0),
    "protocol_1": connect_line(protocol=1),
    "protocol_2": connect_line(protocol=2),
    "protocol_negative": connect_line(protocol=-1),
    "verbose": connect_line(verbose=True),
    "pedantic": connect_line(pedantic=True),
    "verbose_and_pedantic": connect_line(verbose=True, pedantic=True),
    "echo_off": connect_line(echo=False),
    "headers_off": connect_line(headers=False),
    "no_responders": connect_line(no_responders=True),
    "no_responders_without_headers": connect_line(no_responders=True, headers=False),
    "no_responders_headers_left_out": b'CONNECT {"verbose":false,"no_responders":true}\r\n',
    "typical_go_client": connect_line(
        tls_required=False,
        name="",
        lang="go",
        version="1.40.0",
        protocol=1,
        echo=True,
        no_responders=True,
    ),
}

# The INFO that greets, and the one after the first PING that follows this CONNECT, under these settings.
INFO_FIELDS: dict[str, tuple[str, bytes]] = {
    "default": (settings.DEFAULT, connect_line(protocol=1)),
    "without_connect": (settings.DEFAULT, b"PING\r\n"),
    "protocol_0": (settings.DEFAULT, connect_line(protocol=0)),
    "limits": (settings.LIMITS, connect_line(protocol=1)),
    "no_headers": (settings.NO_HEADERS, connect_line(protocol=1)),
    "password": (settings.USER_AND_PASSWORD, connect_line(protocol=1, user="derek", **{"pass": "s3cr3t"})),
    "token": (settings.TOKEN, connect_line(protocol=1, auth_token="t0k3n")),
    "users": (settings.USERS, connect_line(protocol=1, user="plain", **{"pass": "word"})),
    "no_auth_user": (settings.NO_AUTH_USER, connect_line(protocol=1)),
}

SESSIONS: list[Session] = [
    *(session(f"connect_{name}", data, LOOP, BAD_SUBJECT) for name, data in FIRST_LINES.items()),
    *(
        session(f"info_fields_{name}", part(b""), quiet(), first, b"PING\r\n", settings=text, whole_info=True)
        for name, (text, first) in INFO_FIELDS.items()
    ),
    session("connect_no_info_before_the_first_ping", part(connect_line(protocol=1)), quiet(), opened()),
    session("connect_second_info_only_once", connect(protocol=1), b"PING\r\n", b"PING\r\n"),
    session(
        "connect_second_info_after_the_pong", part(connect_line(protocol=1) + b"PING\r\n"), quiet(lines=2)
    ),
    session("connect_ping_before_connect_has_no_info", b"PING\r\n", connect(protocol=1)),
    session("connect_verbose_ok_before_pong", part(connect_line(verbose=True) + b"PING\r\n"), quiet(lines=2)),
    session("connect_not_needed_for_ping", b"PING\r\n"),
    session("connect_not_needed_for_pub_and_sub", LOOP, BAD_SUBJECT, b"UNSUB 1\r\n"),
    session("connect_missing_means_no_headers", b"HPUB foo 12 12\r\nNATS/1.0\r\n\r\n\r\n"),
    session("connect_missing_means_no_no_responders", b"SUB r 1\r\n", pub(b"nobody", b"", b"r")),
    session("connect_twice", connect(), connect(), LOOP),
    session("connect_twice_in_one_write", connect_line() + connect_line(verbose=True) + LOOP),
    session(
        "connect_again_drops_subscriptions", connect(), b"SUB foo 1\r\n", connect(), pub(b"foo", b"hi"), LOOP
    ),
    session("connect_again_turns_verbose_on", connect(), LOOP, connect(verbose=True), LOOP),
    session("connect_again_turns_verbose_off", connect(verbose=True), LOOP, connect(), LOOP),
    session(
        "connect_again_keeps_fields_left_out", connect(verbose=True, echo=False), b"CONNECT {}\r\n", LOOP
    ),
    session("connect_again_turns_pedantic_on", connect(), BAD_SUBJECT, connect(pedantic=True), BAD_SUBJECT),
    session("connect_again_turns_echo_off", connect(), LOOP, connect(echo=False), LOOP),
    session("connect_again_with_bad_json", connect(), b"CONNECT {\r\n"),
    session("connect_again_with_bad_protocol", connect(), connect(protocol=7)),
    session("connect_again_with_protocol_1", connect(), connect(protocol=1), b"PING\r\n"),
    session("connect_first_keeps_earlier_subscriptions", LOOP, connect(), pub(b"foo", b"again")),
    session("connect_bytewise", bytewise(connect_line(protocol=1)), LOOP),
    session("connect_split_inside_json", send(connect_line(name="x" * 700), chunks=(3, 50, 1)), LOOP),
    session("connect_bad_protocol_closes_before_the_rest", part(connect_line(protocol=9) + LOOP), closed()),
]
