"""Operator mode in a configuration: what is wrong with it, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config.load import load_file
from headrace.config.options import check_options
from headrace.errors import ConfigError
from tests.interop.tokens import (
    ONE,
    OPERATOR,
    SYSTEM,
    account_token,
    memory_settings,
    operator_token,
    user_token,
)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "operator: /no/such/file",
            "server.conf:1:0: error parsing operator JWT: open /no/such/file: no such file",
        ),
        ("operator: eyJnonsense", "error parsing operator JWT: expected 3 chunks"),
        (f"operator: {user_token()}", "error parsing operator JWT: not operator claim"),
        ("operator: 5", "error parsing operators"),
        ("trusted_keys: nonsense", 'trust key "nonsense" required to be a valid public operator nkey'),
        ("trusted_keys: {a: b}", "error parsing trusted"),
        ("resolver: nonsense", "error parsing account resolver, should be MEM"),
        ("resolver: 5", "error parsing operator resolver, wrong type"),
        ("resolver: URL(ftp://x)", "error parsing account resolver url"),
        ("resolver: {type: full}", "dir has no value and needs to point to a directory"),
        ("resolver: {type: full, dir: /dev/null}", "dir needs to point to an accessible directory"),
        ("resolver: {type: full, dir: x, ttl: 1h}", "FULL does not accept ttl"),
        ("resolver: {type: full, dir: x, hard_delete: true}", "hard_delete has no effect without delete"),
        ("resolver: {type: cache, dir: x, interval: 1h}", "CACHE does not accept sync"),
        ("resolver: {type: cache, dir: x, allow_delete: true}", "CACHE does not accept allow_delete"),
        ("resolver: {dir: x}", "error parsing account resolver, should be MEM"),
        ("resolver: {type: full, dir: x, timeout: soon}", "server.conf:1"),
        ("resolver_preload: 5", "preload should be a map of account_public_key:account_jwt"),
        ("resolver_preload: {A: 5}", "preload map value should be a string JWT"),
        ("resolver_preload: {A: eyJ}", "invalid account JWT"),
        (f"resolver_preload: {{A: {user_token()}}}", "invalid account JWT"),
        (f"resolver_preload: {{'../x': {account_token(ONE)}}}", "resolver_preload: the JWT under"),
        ("resolver_pinned_accounts: {a: b}", "error parsing resolver_pinned_accounts"),
    ],
)
def test_what_is_wrong_with_a_directive(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "server.conf"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_file(str(path))
    assert error in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"operator: {operator_token()}", "operators require an account resolver to be configured"),
        (
            memory_settings(extra="authorization { users: [{user: x}] }"),
            "operators do not allow users to be configured directly",
        ),
        (
            memory_settings(extra="accounts { A {} }"),
            "operators do not allow Accounts to be configured directly",
        ),
        (
            memory_settings(extra=f"trusted_keys: {OPERATOR.public_key}"),
            "conflicting options for 'TrustedKeys' and 'TrustedOperators'",
        ),
        (
            memory_settings(extra=f"system_account: {ONE.public_key}"),
            "system_account in config and operator JWT must be identical",
        ),
        (memory_settings(extra="default_sentinel: x"), "default sentinel JWT not valid"),
        (
            memory_settings(extra=f"default_sentinel: {user_token()}"),
            "default sentinel must be a bearer token",
        ),
        (f"default_sentinel: {user_token()}", "default sentinel requires operators and accounts"),
        (memory_settings(extra="no_auth_user: x"), "no_auth_user not compatible with Trusted Operator"),
        (
            memory_settings(extra="resolver_pinned_accounts: x"),
            'pinned account key "x" is not a valid public account nkey',
        ),
        (
            memory_settings(operator=operator_token(assert_server_version="2.99.0")),
            "expected minor version 99 > server minor version 15",
        ),
        (
            f"operator: {operator_token(system_account='')}\nresolver: {{type: full, dir: x}}",
            "the system account needs to be specified",
        ),
    ],
)
def test_options_that_contradict_each_other(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "server.conf"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        check_options(load_file(str(path)).options)
    assert error in str(raised.value)


def test_an_operator_can_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "operator.jwt"
    file.write_text(
        f"-----BEGIN NATS OPERATOR JWT-----\n{operator_token()}\n------END NATS OPERATOR JWT------\n"
    )
    path = tmp_path / "server.conf"
    path.write_text(f"operator: {file}\nresolver: MEMORY\n")
    options = load_file(str(path)).options
    assert options.trust.operators == (operator_token(),)
    assert options.system_account == SYSTEM.public_key
