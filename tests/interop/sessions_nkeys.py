"""nkeys: a nonce in INFO, which users sign with their keys."""

from __future__ import annotations

from headrace.keys.nkeys import KeyPair
from tests.interop.session import Session, closed, connect, connect_line, opened, part, pub, send, session
from tests.interop.signatures import signature

LOOP = b"SUB foo 1\r\n" + pub(b"foo", b"hi")

ANNA, BERT, STRANGER = (KeyPair("user", bytes([number]) * 32) for number in (1, 2, 3))
ACCOUNT = KeyPair("account", bytes([1]) * 32)

ONLY_NKEYS = f"""
authorization {{ users = [ {{ nkey: {ANNA.public_key} }}, {{ nkey: {BERT.public_key} }} ] }}
"""

NKEYS_AND_USERS = f"""
authorization {{
  users = [
    {{ nkey: {ANNA.public_key} }}
    {{ user: plain, password: word }}
  ]
}}
"""

NO_AUTH_NKEY = f"""
authorization {{ users = [ {{ nkey: {ANNA.public_key} }}, {{ user: plain, password: word }} ] }}
no_auth_user: {ANNA.public_key}
"""

NO_AUTH_USER = f"""
authorization {{ users = [ {{ nkey: {ANNA.public_key} }}, {{ user: plain, password: word }} ] }}
no_auth_user: plain
"""


def _login(pair: KeyPair, **options: object) -> bytes:
    return connect_line(**{"nkey": pair.public_key, "sig": signature(pair), **options})


def _plain(**options: object) -> bytes:
    return connect_line(**{"user": "plain", "pass": "word", **options})


KEY = ANNA.public_key

# (settings, what is sent first)
LOGINS: dict[str, tuple[str, bytes]] = {
    "one": (ONLY_NKEYS, _login(ANNA)),
    "other": (ONLY_NKEYS, _login(BERT)),
    "verbose": (ONLY_NKEYS, _login(ANNA, verbose=True)),
    "protocol_1": (ONLY_NKEYS, _login(ANNA, protocol=1)),
    "padded": (ONLY_NKEYS, _login(ANNA, sig=signature(ANNA, padded=True))),
    "unknown": (ONLY_NKEYS, _login(STRANGER)),
    "signed_by_another": (ONLY_NKEYS, connect_line(nkey=KEY, sig=signature(BERT))),
    "signed_by_a_stranger": (ONLY_NKEYS, connect_line(nkey=KEY, sig=signature(STRANGER))),
    "no_signature": (ONLY_NKEYS, connect_line(nkey=KEY)),
    "empty_signature": (ONLY_NKEYS, connect_line(nkey=KEY, sig="")),
    "signature_without_key": (ONLY_NKEYS, connect_line(sig=signature(ANNA))),
    "nothing": (ONLY_NKEYS, connect_line()),
    "signature_is_no_base64": (ONLY_NKEYS, connect_line(nkey=KEY, sig="!!!")),
    "signature_is_short": (ONLY_NKEYS, connect_line(nkey=KEY, sig="AAAA")),
    "signature_is_long": (ONLY_NKEYS, connect_line(nkey=KEY, sig="A" * 2000)),
    "signature_with_spaces": (ONLY_NKEYS, connect_line(nkey=KEY, sig=f" {signature(ANNA)}")),
    "signature_is_zero": (ONLY_NKEYS, connect_line(nkey=KEY, sig="A" * 86)),
    "key_in_small_letters": (ONLY_NKEYS, _login(ANNA, nkey=KEY.lower())),
    "key_is_a_seed": (ONLY_NKEYS, _login(ANNA, nkey=KeyPair("user", bytes(32)).seed)),
    "key_of_an_account": (ONLY_NKEYS, _login(ANNA, nkey=ACCOUNT.public_key)),
    "key_is_nonsense": (ONLY_NKEYS, _login(ANNA, nkey="nonsense")),
    "key_is_long": (ONLY_NKEYS, _login(ANNA, nkey="U" * 3000)),
    "key_is_binary": (ONLY_NKEYS, _login(ANNA, nkey="\u0000\u2603")),
    "key_is_a_number": (ONLY_NKEYS, connect_line(nkey=5, sig=signature(ANNA))),
    "jwt_is_ignored": (ONLY_NKEYS, _login(ANNA, jwt="nonsense")),
    "only_jwt": (ONLY_NKEYS, connect_line(jwt="a.b.c", sig=signature(ANNA))),
    "user_instead": (ONLY_NKEYS, _plain()),
    "key_as_user": (ONLY_NKEYS, connect_line(user=KEY, sig=signature(ANNA))),
    "token_instead": (ONLY_NKEYS, connect_line(auth_token=KEY)),
    "account_named": (ONLY_NKEYS, _login(ANNA, account="X")),
    "bad_protocol": (ONLY_NKEYS, _login(ANNA, protocol=3)),
    "first_is_ping": (ONLY_NKEYS, b"PING\r\n"),
    "mixed_key": (NKEYS_AND_USERS, _login(ANNA)),
    "mixed_user": (NKEYS_AND_USERS, _plain()),
    "mixed_user_wrong": (NKEYS_AND_USERS, _plain(**{"pass": "wrong"})),
    "mixed_both": (NKEYS_AND_USERS, _plain(nkey=KEY, sig=signature(ANNA))),
    "mixed_both_wrong_password": (NKEYS_AND_USERS, _plain(nkey=KEY, sig=signature(ANNA), **{"pass": "x"})),
    "mixed_both_wrong_signature": (NKEYS_AND_USERS, _plain(nkey=KEY, sig=signature(BERT))),
    "mixed_user_and_unknown_key": (NKEYS_AND_USERS, _plain(nkey=STRANGER.public_key)),
    "mixed_user_with_signature": (NKEYS_AND_USERS, _plain(sig=signature(STRANGER))),
    "mixed_nothing": (NKEYS_AND_USERS, connect_line()),
    "no_auth_key_nothing": (NO_AUTH_NKEY, connect_line()),
    "no_auth_key_named": (NO_AUTH_NKEY, connect_line(nkey=KEY)),
    "no_auth_key_wrong_signature": (NO_AUTH_NKEY, connect_line(nkey=KEY, sig="x")),
    "no_auth_key_user": (NO_AUTH_NKEY, _plain()),
    "no_auth_key_token": (NO_AUTH_NKEY, connect_line(auth_token="x")),
    "no_auth_key_password_only": (NO_AUTH_NKEY, connect_line(**{"pass": "word"})),
    "no_auth_key_ping": (NO_AUTH_NKEY, b"PING\r\n"),
    "no_auth_user_nothing": (NO_AUTH_USER, connect_line()),
    "no_auth_user_key": (NO_AUTH_USER, _login(ANNA)),
    "no_auth_user_key_unsigned": (NO_AUTH_USER, connect_line(nkey=KEY)),
    "no_auth_user_unknown_key": (NO_AUTH_USER, _login(STRANGER)),
    "no_auth_user_password_only": (NO_AUTH_USER, connect_line(**{"pass": "word"})),
    "no_auth_user_token": (NO_AUTH_USER, connect_line(auth_token="x")),
}

SESSIONS: list[Session] = [
    *(session(f"nkey_{name}", data, LOOP, settings=text) for name, (text, data) in LOGINS.items()),
    session("nkey_info", opened(), settings=ONLY_NKEYS, whole_info=True),
    session("nkey_info_mixed", opened(), settings=NKEYS_AND_USERS, whole_info=True),
    session("nkey_info_no_auth_key", opened(), settings=NO_AUTH_NKEY, whole_info=True),
    session(
        "nkey_info_connected", _login(ANNA, protocol=1), b"PING\r\n", settings=ONLY_NKEYS, whole_info=True
    ),
    session("nkey_again_other", _login(ANNA), LOOP, _login(BERT), LOOP, settings=ONLY_NKEYS),
    session("nkey_again_wrong", _login(ANNA), connect_line(sig="x"), settings=ONLY_NKEYS),
    session("nkey_again_keeps_fields", _login(ANNA), b"CONNECT {}\r\n", LOOP, settings=ONLY_NKEYS),
    session(
        "nkey_two_see_each_other",
        _login(ANNA) + b"SUB foo 1\r\n",
        send(_login(BERT) + pub(b"foo", b"x"), "b"),
        settings=ONLY_NKEYS,
    ),
    session(
        "nkey_signature_of_another_connection",
        connect(nkey=KEY, sig=signature(ANNA)),
        # "b" signs with the nonce of "b"; a replay of the signature for "a" is in tests/accounts.
        send(connect_line(nkey=KEY, sig=signature(ANNA, padded=True)) + LOOP, "b"),
        settings=ONLY_NKEYS,
    ),
    session("nkey_refused_before_the_rest", part(_login(STRANGER) + LOOP), closed(), settings=ONLY_NKEYS),
]
