"""Accounts that no trusted operator has signed: nobody may use them, nor start a server with them."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import nats.errors
import pytest

from headrace.config import load_file
from headrace.errors import ConfigError
from headrace.keys.jwt import decode
from tests.accounts.test_resolver import KINDS, UPDATE, as_system, connected, full, update_of
from tests.clients import flush
from tests.interop.tokens import (
    ISSUED_AT,
    ONE,
    OPERATOR,
    OPERATOR_SIGNER,
    OTHER_OPERATOR,
    SIGNER,
    SYSTEM,
    TWO,
    USER,
    account_token,
    memory_settings,
    operator_token,
    user_token,
)
from tests.servers import ServerKind, running_server

TRUSTED, UNTRUSTED = account_token(ONE, "shop"), account_token(ONE, "shop", signer=OTHER_OPERATOR)
REASON = (
    f'resolver_preload: account {ONE.public_key} ("shop") is signed by {OTHER_OPERATOR.public_key}, '
    "which is not a trusted operator or a signing key of one"
)


def write_token(directory: Path, token: str) -> Path:
    """As if a tool had put it there."""
    path = directory / f"{decode(token).subject}.jwt"
    path.write_text(token)
    return path


def refusal_of(settings: str) -> str:
    """The log of a server that does not start."""
    with pytest.raises(RuntimeError) as raised, running_server("headrace", settings):
        pass
    return str(raised.value)


def load(directory: Path, text: str) -> None:
    path = directory / "server.conf"
    path.write_text(text)
    load_file(str(path))


@pytest.mark.parametrize("resolver", ["resolver: MEMORY\n", ""])
def test_trusted_keys_are_the_only_ones_that_may_sign_if_there_is_no_operator(
    tmp_path: Path, resolver: str
) -> None:
    preload = f"{resolver}resolver_preload {{ {ONE.public_key}: {UNTRUSTED} }}\n"
    load(tmp_path, f"trusted_keys: [{OPERATOR.public_key}, {OTHER_OPERATOR.public_key}]\n{preload}")
    load(tmp_path, preload)  # nobody reads it without operators
    with pytest.raises(ConfigError, match="is not a trusted operator"):
        load(tmp_path, f"trusted_keys: {OPERATOR.public_key}\n{preload}")


def test_the_operator_itself_may_not_sign_accounts_if_it_says_so(tmp_path: Path) -> None:
    strict = operator_token(strict_signing_key_usage=True)
    load(tmp_path, memory_settings(account_token(ONE, signer=OPERATOR_SIGNER), operator=strict))
    with pytest.raises(ConfigError, match=f"is signed by {OPERATOR.public_key}, which is not a trusted"):
        load(tmp_path, memory_settings(account_token(ONE), operator=strict))


async def test_a_reload_with_an_account_that_nobody_trusted_signed_changes_nothing() -> None:
    system = account_token(SYSTEM, "SYS")
    with running_server("headrace", memory_settings(system, TRUSTED)) as server:
        async with connected(server, user_token(), USER) as client:
            server.log_file.with_name("server.conf").write_text(memory_settings(system, UNTRUSTED))
            server.process.send_signal(signal.SIGHUP)
            log = server.wait_for_log("Failed to reload server configuration")
            assert f"server.conf: {REASON} (let the operator sign it again" in log
            await flush(client)
            async with connected(server, user_token(), USER) as another:
                await flush(another)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_strict", [False, True])
async def test_users_of_an_account_that_nobody_trusted_signed_are_refused(
    tmp_path: Path, kind: ServerKind, is_strict: bool
) -> None:
    """With strict signing keys, the operator's own key is not one that signs accounts."""
    signer = OPERATOR if is_strict else OTHER_OPERATOR
    write_token(tmp_path, account_token(SYSTEM, "SYS", signer=OPERATOR_SIGNER))
    write_token(tmp_path, account_token(ONE, "one", signer=signer, signing_keys=[SIGNER.public_key]))
    write_token(tmp_path, account_token(TWO, "two", signer=OPERATOR_SIGNER, signing_keys=[SIGNER.public_key]))
    operator = operator_token(strict_signing_key_usage=is_strict)
    settings = f'operator: {operator}\nresolver: {{type: full, dir: "{tmp_path}"}}\n'
    with running_server(kind, settings) as server:
        with pytest.raises(nats.errors.Error, match=r"[Aa]uthorization"):
            async with connected(server, user_token(signer=SIGNER, account=ONE), USER):
                pass
        async with connected(server, user_token(signer=SIGNER, account=TWO), USER) as client:
            await flush(client)


async def test_a_token_that_nobody_trusted_signed_is_not_stored(tmp_path: Path) -> None:
    """nats-server stores it and says that all is well; users are refused once it is read again."""
    with running_server("headrace", full(tmp_path)) as server:
        async with as_system(server) as client:
            assert b'"code":200' in (await client.request(UPDATE, TRUSTED.encode(), timeout=30)).data
            newer = account_token(ONE, "shop", signer=OTHER_OPERATOR, issued_at=ISSUED_AT + 1)
            for subject in (UPDATE, update_of(ONE)):
                answer = json.loads((await client.request(subject, newer.encode(), timeout=30)).data)
                assert answer["error"] == {
                    "account": ONE.public_key,
                    "code": 500,
                    "description": f"jwt validation failed - {OTHER_OPERATOR.public_key} is not a trusted "
                    "operator or a signing key of one",
                }
        async with connected(server, user_token(), USER) as client:
            await flush(client)
    assert (tmp_path / f"{ONE.public_key}.jwt").read_text() == TRUSTED


def test_a_preload_that_nobody_trusted_signed_does_not_replace_a_token(tmp_path: Path) -> None:
    """nats-server starts and replaces it, and the users of the account cannot log in any more."""
    settings = f"{full(tmp_path)}resolver_preload {{ {ONE.public_key}: {UNTRUSTED} }}\n"
    older = account_token(ONE, "shop", issued_at=ISSUED_AT - 1)
    path = write_token(tmp_path, older)
    for text in (older, UNTRUSTED):
        path.write_text(text)
        log = refusal_of(settings)
        assert log.count("[FTL]") == 1
        assert f"server.conf: {REASON} (let the operator sign it again" in log
        assert path.read_text() == text


async def test_a_preload_that_nobody_trusted_signed_is_ignored_if_there_is_a_newer_token(
    tmp_path: Path,
) -> None:
    settings = f"{full(tmp_path)}resolver_preload {{ {ONE.public_key}: {UNTRUSTED} }}\n"
    write_token(tmp_path, account_token(ONE, "shop", issued_at=ISSUED_AT + 1))
    with running_server("headrace", settings) as server:
        server.wait_for_log(f"the newer token in {tmp_path} is used")
        async with connected(server, user_token(), USER) as client:
            await flush(client)
