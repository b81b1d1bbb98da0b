"""Authorization callouts: a service decides who may connect.

A session cannot know the request that a service would get, so these look at what both servers do without a
service, and at whom they do not ask; tests/accounts/test_callout.py has a service that answers, and runs it
against both servers.
"""

from __future__ import annotations

from headrace.keys.nkeys import KeyPair
from tests.interop.session import Session, closed, connect_line, opened, part, pub, session
from tests.interop.signatures import signature
from tests.interop.tokens import ONE, pair

LOOP = b"SUB foo 1\r\n" + pub(b"foo", b"hi")

KEY_USER: KeyPair = pair("user", 60)

# Who gets no answer is refused after a time in which everybody can ask; who is to be let in has more.
IMPATIENT, PATIENT = "timeout: 4", "timeout: 30"

CALLOUT = f"""
authorization {{
  {IMPATIENT}
  users: [
    {{ user: service, password: word }}
    {{ user: plain, password: word }}
    {{ nkey: {KEY_USER.public_key} }}
  ]
  auth_callout {{ issuer: {ONE.public_key}, auth_users: [ service ] }}
}}
"""

CALLOUT_ACCOUNTS = f"""
accounts {{
  AUTH {{ users: [ {{ user: service, password: word }} ] }}
  APP {{ users: [ {{ user: app, password: word }} ] }}
  FREE {{ users: [ {{ user: free, password: word }} ] }}
}}
authorization {{
  {IMPATIENT}
  auth_callout {{
    issuer: {ONE.public_key}, account: AUTH, auth_users: [ service ], allowed_accounts: [ APP ]
  }}
}}
"""


def _login(user: str, password: str = "word") -> bytes:
    return connect_line(user=user, **{"pass": password})


ADMITTED: dict[str, tuple[str, bytes]] = {
    "service": (CALLOUT, _login("service")),
    "service_in_its_account": (CALLOUT_ACCOUNTS, _login("service")),
    "account_that_is_not_asked_for": (CALLOUT_ACCOUNTS, _login("free")),
}

REFUSED: dict[str, tuple[str, bytes]] = {
    "service_wrong_password": (CALLOUT, _login("service", "wrong")),
    "account_that_is_not_asked_for_wrong_password": (CALLOUT_ACCOUNTS, _login("free", "wrong")),
    "nobody_answers": (CALLOUT, connect_line()),
    "nobody_answers_known_user": (CALLOUT, _login("plain")),
    "nobody_answers_unknown_user": (CALLOUT, _login("stranger")),
    "nobody_answers_token": (CALLOUT, connect_line(auth_token="x")),
    "nobody_answers_nkey": (CALLOUT, connect_line(nkey=KEY_USER.public_key, sig=signature(KEY_USER))),
    "nobody_answers_jwt": (CALLOUT, connect_line(jwt="nonsense")),
    "nobody_answers_in_account": (CALLOUT_ACCOUNTS, _login("app")),
    "nobody_answers_account_of_nobody": (CALLOUT_ACCOUNTS, connect_line()),
}

SESSIONS: list[Session] = [
    *(
        session(f"callout_{name}", data, LOOP, settings=text.replace(IMPATIENT, PATIENT))
        for name, (text, data) in ADMITTED.items()
    ),
    *(
        session(f"callout_{name}", part(data + LOOP), closed(), settings=text)
        for name, (text, data) in REFUSED.items()
    ),
    session("callout_info", opened(), settings=CALLOUT, whole_info=True),
    session("callout_first_is_ping", b"PING\r\n", settings=CALLOUT.replace(IMPATIENT, PATIENT)),
    session("callout_says_nothing", part(b""), closed(), settings=CALLOUT),
]

SESSIONS += [
    session(
        "callout_service_must_not_publish_requests",
        _login("service"),
        b"SUB $SYS.REQ.USER.AUTH 1\r\n",
        pub(b"$SYS.REQ.USER.AUTH", b"forged"),
        settings=CALLOUT.replace(IMPATIENT, PATIENT),
    ),
]
