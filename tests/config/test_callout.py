"""Mistakes in the directives of nkeys, operator mode and callouts, in the words of nats-server."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.config.load import load_file
from headrace.errors import ConfigError
from tests.interop.tokens import ONE, USER, user_token
from tests.servers import server_command

ACCOUNT = ONE.public_key
CALLOUT = f"authorization {{ auth_callout {{ issuer: {ACCOUNT}, auth_users: [x]"

MISTAKES = {
    "operator is no file": "operator: /no/such/file",
    "operator is no token": "operator: eyJnonsense",
    "operator is a user": f"operator: {user_token()}",
    "trusted key": "trusted_keys: nonsense",
    "resolver unknown": "resolver: nonsense",
    "resolver without type": "resolver: {dir: x}",
    "resolver is a device": "resolver: {type: full, dir: /dev/null}",
    "resolver full with ttl": "resolver: {type: full, dir: DIR, ttl: '1h'}",
    "resolver hard delete": "resolver: {type: full, dir: DIR, hard_delete: true}",
    "resolver cache with interval": "resolver: {type: cache, dir: DIR, interval: '1h'}",
    "resolver cache with delete": "resolver: {type: cache, dir: DIR, allow_delete: true}",
    "resolver timeout": "resolver: {type: full, dir: DIR, timeout: soon}",
    "preload": "resolver_preload: 5",
    "preload of a number": "resolver_preload: {A: 5}",
    "preload of nonsense": "resolver_preload: {A: eyJ}",
    "preload of a user": f"resolver_preload: {{A: {user_token()}}}",
    "callout is empty": "authorization { auth_callout { } }",
    "callout issuer": "authorization { auth_callout { issuer: x } }",
    "callout issuer is a user": f"authorization {{ auth_callout {{ issuer: {USER.public_key} }} }}",
    "callout xkey": f"{CALLOUT}, xkey: x }} }}",
    "callout unknown field": f"{CALLOUT}, nonsense: x }} }}",
    "callout unknown account": f"{CALLOUT}, allowed_accounts: [B] }} }}",
    "nkey twice": f"authorization {{ users: [{{nkey: {USER.public_key}}}, {{nkey: {USER.public_key}}}] }}",
}


@pytest.mark.parametrize("text", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_in_the_words_of_nats_server(tmp_path: Path, text: str) -> None:
    path = tmp_path / "server.conf"
    path.write_text(text.replace("DIR", str(tmp_path / "tokens")))
    command = [*server_command("nats-server"), "-t", "-c", str(path)]
    theirs = subprocess.run(command, capture_output=True, text=True, timeout=60)
    with pytest.raises(ConfigError) as ours:
        load_file(str(path))
    assert theirs.stderr.strip() == f"nats-server: {ours.value}"
