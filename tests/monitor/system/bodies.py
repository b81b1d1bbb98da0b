"""Every request of the system account with every option: right values, wrong ones and hostile ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

FILTERS: dict[str, tuple[object, ...]] = {
    "server_name": ("one", "on", "zz"),
    "cluster": ("c",),
    "host": ("127.0.0.1", "127", "10.0.0.1"),
    "exact_match": (True, False),
    "tags": (["a:b"], [" A:B "], ["a:b", "no"], []),
    "domain": ("hub", "hu"),
}
BOOLEANS = (True, False)
NUMBERS = (0, 1, -1, 2**63 - 1)
ACCOUNTS = ("A", "B", "nobody")
CONNZ: dict[str, tuple[object, ...]] = {
    "sort": ("cid", "subs", "stop", "reason", "uptime", "bad"),
    "auth": BOOLEANS,
    "subscriptions": BOOLEANS,
    "subscriptions_detail": BOOLEANS,
    "offset": NUMBERS,
    "limit": NUMBERS,
    "cid": (999, 2**64 - 1),
    "mqtt_client": ("x",),
    "state": (0, 1, 2, 3, -1),
    "user": ("a", "nobody"),
    "acc": ACCOUNTS,
    "filter_subject": ("foo.x", ">", "foo.*", "nothing", ""),
}
SUBSZ: dict[str, tuple[object, ...]] = {
    "offset": NUMBERS,
    "limit": NUMBERS,
    "account": ("nobody",),
    "test": ("foo.x", "foo.*", "a..b", "."),
}
JSZ: dict[str, tuple[object, ...]] = {
    "account": ACCOUNTS,
    "accounts": BOOLEANS,
    "streams": BOOLEANS,
    "consumer": BOOLEANS,
    "direct_consumer": BOOLEANS,
    "config": BOOLEANS,
    "leader_only": BOOLEANS,
    "offset": NUMBERS,
    "limit": NUMBERS,
    "raft": BOOLEANS,
    "stream_leader_only": BOOLEANS,
}
SERVER_OPTIONS: dict[str, dict[str, tuple[object, ...]]] = {
    "VARZ": {},
    "CONNZ": CONNZ,
    "SUBSZ": SUBSZ,
    "ROUTEZ": {"subscriptions": BOOLEANS, "subscriptions_detail": BOOLEANS},
    "GATEWAYZ": {
        "name": ("x",),
        "accounts": BOOLEANS,
        "account_name": ACCOUNTS,
        "subscriptions": BOOLEANS,
        "subscriptions_detail": BOOLEANS,
    },
    "LEAFZ": {"subscriptions": BOOLEANS, "account": ACCOUNTS},
    "ACCOUNTZ": {"account": ACCOUNTS},
    "JSZ": JSZ,
    "HEALTHZ": {
        "js-enabled": BOOLEANS,
        "js-enabled-only": BOOLEANS,
        "js-server-only": BOOLEANS,
        "js-meta-only": BOOLEANS,
        "account": ("A", "nobody"),
        "stream": ("S", "nothing"),
        "consumer": ("C",),
        "details": BOOLEANS,
    },
    "EXPVARZ": {},
    "IPQUEUESZ": {"all": (False,), "filter": ("x",)},
    "RAFTZ": {"account": ACCOUNTS, "group": ("x",)},
    "IDZ": {},
    "RELOAD": {},
    "KICK": {"cid": (999,)},
    "LDM": {"cid": (999,)},
}
ACCOUNT_OPTIONS: dict[str, dict[str, tuple[object, ...]]] = {
    "CONNZ": CONNZ,
    "SUBSZ": {"test": SUBSZ["test"]},
    "LEAFZ": SERVER_OPTIONS["LEAFZ"],
    "JSZ": JSZ,
    "INFO": {},
    "STATZ": {"accounts": (["A"], ["B", "nobody"], []), "include_unused": BOOLEANS},
    "CONNS": {"acc": ("A", "B", "")},
}
# Of any type but, at most, one: JSON texts.
VALUES = (
    *("null", "true", "0", "-1", "1.5", "1e2", "-0", "18446744073709551616", "1" + "0" * 40),
    *(
        '""',
        '"x"',
        r'"\ud800"',
        r'"\u0000<>&\u2028"',
        "[]",
        "[1]",
        '[null, "x"]',
        "{}",
        '{"a": [1]}',
        "[[[[]]]]",
    ),
)
BODIES = (
    *(
        b"",
        b" ",
        b"\n",
        b"{",
        b"}",
        b"[",
        b"]",
        b"[]",
        b"null",
        b"true",
        b"tru",
        b"0",
        b"-",
        b"1.",
        b'"x"',
        b'"',
    ),
    *(b"{}", b"{} ", b"{}{}", b"{} {}", b"{}x", b"{},", b"{'a':1}", b'{"a"}', b'{"a":}', b'{"a":1,}', b"{,}"),
    *(b'{"a":1 "b":2}', b'{"a":nul}', b'{"a":01}', b'{"a":"\n"}', b'{"a":"\\x"}', b"nonsense", b"\x00"),
    *(b'{"LIMIT":1,"Offset":0}', b'{"limit":1,"limit":2}', b'{"server_name":"one","server_name":"zz"}'),
    *(
        b'{"a":' * 50 + b"1" + b"}" * 50,
        b"[" * 2000,
        b'{"unknown":' + b'["x",' * 20 + b"1" + b"]" * 20 + b"}",
    ),
)


def one_option(options: dict[str, tuple[object, ...]]) -> Iterator[bytes]:
    """Each option alone, with each value that it may and may not have."""
    for name, values in options.items():
        yield from (json.dumps({name: value}).encode() for value in values)
        yield from (f"{json.dumps(name)}: {value}".join("{}").encode() for value in VALUES)


def several_options(options: dict[str, tuple[object, ...]], choose: random.Random) -> bytes:
    """Some of them at once; now and then one has a value of the wrong type."""
    names = choose.sample(sorted(options), choose.randint(1, min(4, len(options))))
    parts = [f"{json.dumps(name)}: {json.dumps(choose.choice(options[name]))}" for name in names]
    if choose.random() < 0.2:
        parts[0] = f"{json.dumps(names[0])}: {choose.choice(VALUES)}"
    return ", ".join(parts).join("{}").encode()


def bodies_of(
    options: dict[str, tuple[object, ...]], choose: random.Random, combinations: int
) -> list[bytes]:
    """All kinds of bodies of a request with these options."""
    common = {**options, **FILTERS}
    mixed = [several_options(common, choose) for _ in range(combinations)]
    return [*BODIES, *one_option(options), *one_option(FILTERS), *mixed]
