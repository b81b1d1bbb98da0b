"""Accounts of an operator, at nats-server and at headrace: what is shown of their tokens agrees."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nats

from headrace.keys import claims
from headrace.keys.creds import format_creds
from tests.interop.tokens import (
    ONE,
    OTHER_USER,
    REVOKED,
    SYSTEM,
    TWO,
    USER,
    account_token,
    memory_settings,
    user_token,
)
from tests.monitor.fetch import fetch
from tests.monitor.test_parameters import MONITOR, normalise
from tests.servers import ServerKind, running_server

EXPORTS = [
    claims.Export(name="a", subject="svc.a", type="service"),
    claims.Export(name="b", subject="svc.b", type="service", token_req=True),
    claims.Export(name="c", subject="st.>", type="stream", token_req=True),
]
REVOCATIONS = {REVOKED.public_key: 1_700_000_000, "*": 1_600_000_000}
CONFIG = 'server_name: one\nhttp: "127.0.0.1:-1"\n' + memory_settings(
    account_token(SYSTEM, "sys"),
    account_token(ONE, "one", tags=["x:y"], revocations=REVOCATIONS, exports=EXPORTS),
    account_token(TWO),
)
TARGETS = (
    "/varz",
    "/accountz",
    f"/accountz?acc={ONE.public_key}",
    "/accstatz",
    "/accstatz?unused=1",
    "/connz?auth=1",
)
SUBJECTS = [f"$SYS.REQ.ACCOUNT.{ONE.public_key}.{kind}" for kind in ("INFO", "STATZ", "CONNZ")]
TOKEN = re.compile(r'"jwt": "eyJ[^"]*",\s*')


def without_order(value: Any) -> Any:
    """A token lists its fields in the order of whoever has made it."""
    if isinstance(value, dict):
        return {
            name: json.dumps(item, sort_keys=True)
            if name in ("decoded_jwt", "trusted_operators_claim")
            else without_order(item)
            for name, item in value.items()
        }
    return value


async def documents(kind: ServerKind, directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, pair, token in (
        ("user", USER, user_token()),
        ("admin", OTHER_USER, user_token(OTHER_USER, signer=SYSTEM, name="admin")),
    ):
        (directory / name).write_text(format_creds(token, pair))
    with running_server(kind, CONFIG) as server:
        monitor = MONITOR.search(server.log())
        assert monitor
        url = f"nats://127.0.0.1:{server.port}"
        user = await nats.connect(url, user_credentials=str(directory / "user"))
        admin = await nats.connect(url, user_credentials=str(directory / "admin"))
        for target in TARGETS:
            text = (await fetch(int(monitor[1]), target)).text
            # On purpose, a user's token is not shown here.
            found[target] = json.loads(TOKEN.sub("", text) if target.startswith("/connz") else text)
        for subject in SUBJECTS:
            found[subject] = json.loads((await admin.request(subject, timeout=30)).data)["data"]
        own = await user.request("$SYS.REQ.ACCOUNT.PING.STATZ", timeout=30)
        found["own"] = [one["acc"] for one in json.loads(own.data)["data"]["account_statz"]]
        await user.close()
        await admin.close()
    return {name: normalise(without_order(document)) for name, document in found.items()}


async def test_accounts_and_their_tokens_are_shown_as_by_nats_server(tmp_path: Path) -> None:
    expected, actual = await documents("nats-server", tmp_path), await documents("headrace", tmp_path)
    assert {name: actual[name] for name in expected if actual[name] != expected[name]} == {}
    assert actual["own"] == [ONE.public_key]
