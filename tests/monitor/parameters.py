"""Every endpoint with every parameter, and values for them: right ones, wrong ones and hostile ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from urllib.parse import quote

BOOLS = ("1", "true", "T", "0", "FALSE")
INTEGERS = ("0", "1", "2", "-1", "+1", "9223372036854775807", "-9223372036854775808", "00")
SUBS = (*BOOLS, "detail", "DETAIL")
ACCOUNTS = ("A", "B", "$G", "SYS", "nobody", "a")
STREAMS = ("S", "T", "nothing")
SORTS = ("cid", "start", "subs", "msgs_from", "uptime", "stop", "reason")
STATES = ("open", "closed", "any", "ALL")
HOSTILE = (
    "",
    "yes",
    "1.5",
    "1e3",
    "0x1",
    "1_0",
    " 1",
    "99999999999999999999",
    "-99999999999999999999",
    "9" * 5000,
    "\0",
    '"\\\n\r',
    "<script>alert(1)</script>",
    "&<>\u2028\u2029",
    "../../../etc/passwd",
    "%n%s%d",
    "*",
    ">",
    "a..b",
    "\x7f\u202e\U0001f600",
    "null",
    "[]",
    "{}",
)
RAW_HOSTILE = ("%ff%fe", "%zz", "1;2", "%", "%c3%28", "%f3%a0%80%81")
"""Written into the address as they are: what no text encodes to."""

PARAMETERS: dict[str, dict[str, tuple[str, ...]]] = {
    "/varz": {"callback": ("f", "alert(1)//")},
    "/connz": {
        "sort": SORTS,
        "auth": BOOLS,
        "subs": SUBS,
        "offset": INTEGERS,
        "limit": INTEGERS,
        "cid": ("999", "18446744073709551615"),
        "state": STATES,
        "user": ("a", "b", "nobody"),
        "acc": ("A", "B", "nobody"),
        "mqtt_client": ("x",),
        "callback": ("f",),
    },
    "/routez": {"subs": SUBS},
    "/gatewayz": {"subs": SUBS, "accs": BOOLS, "gw_name": ("x",), "acc_name": ACCOUNTS},
    "/leafz": {"subs": BOOLS, "acc": ACCOUNTS},
    "/subsz": {
        "subs": BOOLS,
        "offset": INTEGERS,
        "limit": INTEGERS,
        "test": ("foo.x", "nobody.listens", "foo.*"),
        "acc": ("nobody",),
    },
    "/accountz": {"acc": ACCOUNTS},
    "/accstatz": {"unused": BOOLS},
    "/jsz": {
        "accounts": BOOLS,
        "streams": BOOLS,
        "consumers": BOOLS,
        "direct-consumers": BOOLS,
        "config": BOOLS,
        "offset": INTEGERS,
        "limit": INTEGERS,
        "leader-only": BOOLS,
        "raft": BOOLS,
        "stream-leader-only": BOOLS,
        "acc": ACCOUNTS,
    },
    "/healthz": {
        "js-enabled": BOOLS,
        "js-enabled-only": BOOLS,
        "js-server-only": BOOLS,
        "js-meta-only": BOOLS,
        "details": BOOLS,
        "account": ("A", "nobody"),
        "stream": STREAMS,
        "consumer": ("C", "nobody"),
    },
    "/ipqueuesz": {"all": BOOLS, "queues": ("x",)},
    "/raftz": {"acc": ACCOUNTS, "group": ("x",)},
    "/stacksz": {},
    "/debug/vars": {},
}


def targets(seed: int, combinations: int) -> Iterator[str]:
    """Each value of each parameter alone, and then several parameters at once, at random."""
    choose = random.Random(seed)
    for path, parameters in PARAMETERS.items():
        yield path
        for name, values in parameters.items():
            yield from (f"{path}?{name}={quote(value)}" for value in (*values, *HOSTILE))
            yield from (f"{path}?{name}={value}" for value in RAW_HOSTILE)
    for _ in range(combinations):
        path = choose.choice([path for path, parameters in PARAMETERS.items() if len(parameters) > 1])
        parameters = PARAMETERS[path]
        names = choose.sample(sorted(parameters), choose.randint(2, min(5, len(parameters))))
        chosen = [(name, choose.choice((*parameters[name], choose.choice(HOSTILE)))) for name in names]
        yield path + "?" + "&".join(f"{name}={quote(value)}" for name, value in chosen)
