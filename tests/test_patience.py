"""What tests start gives clients a long time to log in, and is otherwise what the test has written."""

from __future__ import annotations

import json
import re
import urllib.request

import pytest

from tests.interop import settings, tokens
from tests.patience import patient
from tests.servers import ServerKind, running_server

OPERATOR = tokens.memory_settings(tokens.account_token(tokens.SYSTEM))
BLOCK = "\nauthorization { timeout: 30 }\n"


ACCOUNTS = "accounts { A { users: [{user: a}] } }"
WITH_SYSTEM = "accounts { $SYS { users: [] }, A { users: [] } }"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("authorization { token: t }", "authorization { timeout: 30,  token: t }"),
        ("authorization: {\n  users: []\n}", "authorization: { timeout: 30, \n  users: []\n}"),
        (ACCOUNTS, ACCOUNTS + BLOCK),
        (WITH_SYSTEM, WITH_SYSTEM + BLOCK),
        (OPERATOR, OPERATOR + BLOCK),
    ],
)
def test_logins_have_more_time(config: str, expected: str) -> None:
    assert patient(config) == expected


@pytest.mark.parametrize(
    "config",
    [
        "",
        "max_payload: 5",
        "authorization { token: t, timeout: 1 }",
        "authorization { # of { one }\n token: '}', timeout: 1 }",
        'jetstream { domain: "authorization {" }',
        settings.SYSTEM_ACCOUNT_ONLY,
        settings.NAMED_SYSTEM_ACCOUNT,
        settings.ACCOUNTS_WITHOUT_USERS,
        "websocket { authorization { token: t } }",
    ],
)
def test_nothing_else_changes(config: str) -> None:
    assert patient(config) == config


@pytest.mark.parametrize("kind", ["nats-server", "headrace"])
@pytest.mark.parametrize("config", [settings.TOKEN, settings.ACCOUNTS, OPERATOR])
def test_both_servers_are_that_patient(kind: ServerKind, config: str) -> None:
    with running_server(kind, config, ["-m", "-1"]) as server:
        monitor = re.search(r"Starting http monitor on (\S+:\d+)", server.log())
        assert monitor
        with urllib.request.urlopen(f"http://{monitor[1]}/varz") as answer:
            assert json.load(answer)["auth_timeout"] == 30
