"""A wrong configuration is refused with one line: the place, what is wrong, and what to do."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from headrace.cli.nats_server import run
from tests.interop import tokens
from tests.servers import running_server

KEY = tokens.ONE.public_key
OPERATOR = f"operator: {tokens.operator_token()}\nresolver: MEMORY\n"
SERVICE = "exports: [{{service: x}}], imports: [{{service: {{account: {0}, subject: x}}}}]"

UNTRUSTED = tokens.account_token(tokens.ONE, signer=tokens.OTHER_OPERATOR)

MISTAKES = {
    "a malformed token of an account": (
        f"{OPERATOR}resolver_preload {{ {KEY}: a.b.c }}",
        ["server.conf:3:", "invalid account JWT", f"resolver_preload of {KEY}"],
    ),
    "a token under another key": (
        f"{OPERATOR}resolver_preload {{ {tokens.TWO.public_key}: {tokens.account_token(tokens.ONE)} }}",
        ["server.conf:3:", KEY, "the key of each entry is the public key of its account"],
    ),
    "an account that another operator signed": (
        f"{OPERATOR}resolver_preload {{ {KEY}: {UNTRUSTED} }}",
        [
            f"server.conf: resolver_preload: account {KEY}",
            tokens.OTHER_OPERATOR.public_key,
            "is not a trusted operator",
            "let the operator sign it again",
        ],
    ),
    "a malformed token of an operator": (
        "operator: eyJhbGciOi.xx.yy\nresolver: MEMORY\n",
        ["server.conf:1:", "error parsing operator JWT", "is not the JWT of an operator"],
    ),
    "a file of an operator that is missing": (
        "operator: nowhere.jwt\nresolver: MEMORY\n",
        ["open nowhere.jwt: no such file", "it names the file with the operator's JWT"],
    ),
    "operators without a resolver": (
        f"operator: {tokens.operator_token()}\n",
        ["operators require an account resolver", "resolver: MEMORY with resolver_preload"],
    ),
    "a seed where a key belongs": (
        f"authorization {{ users: [{{ nkey: {tokens.USER.seed} }}] }}",
        ["Not a valid public nkey for a user", "a seed starts with SU"],
    ),
    "imports in a cycle": (
        f"accounts {{ A {{ {SERVICE.format('B')} }}, B {{ {SERVICE.format('A')} }} }}",
        ['service import "x": import forms a cycle', "in the account B", "remove one import"],
    ),
    "an import that is not exported": (
        "accounts { A {}, B { imports: [{stream: {account: A, subject: x}}] } }",
        ['stream import "x": stream import not authorized', "in the account B"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_one_line_says_what_is_wrong_and_what_to_do(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text, expected = MISTAKES[name]
    Path("server.conf").write_text(text)
    assert run(["-a", "127.0.0.1", "-p", "-1", "-c", "server.conf"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert [part for part in expected if part not in said] == [], said
    assert tokens.USER.seed not in said


def test_a_reload_with_a_malformed_token_says_the_same_and_changes_nothing() -> None:
    with running_server("headrace", tokens.memory_settings(tokens.account_token(tokens.SYSTEM))) as server:
        server.log_file.with_name("server.conf").write_text(f"{OPERATOR}resolver_preload {{ {KEY}: a.b.c }}")
        server.process.send_signal(signal.SIGHUP)
        log = server.wait_for_log("Failed to reload server configuration")
        assert f"invalid account JWT (resolver_preload of {KEY}" in log
        assert server.process.poll() is None
