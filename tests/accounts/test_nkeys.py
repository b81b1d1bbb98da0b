"""Users with nkeys: the nonce, signatures, and what is no key at all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.accounts.authentication import Authenticator
from headrace.accounts.credentials import Credentials
from headrace.config.identity import User
from headrace.config.load import load_file
from headrace.config.options import Options, check_options
from headrace.errors import ConfigError
from headrace.keys.jwt import encode_base64url
from headrace.keys.nkeys import KeyPair
from tests.broker.conftest import Running, Start
from tests.clients import flush

ANNA = KeyPair("user", bytes([1]) * 32)
VIOLATION = b"-ERR 'Authorization Violation'\r\n"
USERS = (User(nkey=ANNA.public_key), User("plain", "word"))


def signed(pair: KeyPair, nonce: str) -> str:
    return encode_base64url(pair.sign(nonce.encode()))


async def test_every_connection_has_a_nonce_of_its_own(start: Start) -> None:
    running = start(users=USERS)
    nonces = {(await running.raw()).info["nonce"] for _ in range(20)}
    assert len(nonces) == 20
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{15}", nonce) for nonce in nonces)


async def test_servers_have_keys_of_their_own(start: Start) -> None:
    infos = [(await start().raw()).info for _ in range(3)]
    assert len({info["server_id"] for info in infos}) == 3
    assert len({info["xkey"] for info in infos}) == 3


@pytest.mark.parametrize("options", [{}, {"token": "x"}, {"users": (User("plain", "word"),)}])
async def test_nobody_is_asked_to_sign_where_nobody_has_a_key(start: Start, options: dict[str, Any]) -> None:
    assert "nonce" not in (await start(**options).raw()).info


async def test_a_signature_of_another_connection_is_refused(start: Start) -> None:
    running = start(users=USERS)
    first, second = await running.raw(), await running.raw()
    signature = signed(ANNA, first.info["nonce"])
    await second.connect(nkey=ANNA.public_key, sig=signature)
    assert await second.rest() == VIOLATION
    await first.connect(nkey=ANNA.public_key, sig=signature)
    assert await first.ask() == []


async def test_nats_py_logs_in_with_a_seed(start: Start, tmp_path: Path) -> None:
    running = start(users=USERS)
    seed = tmp_path / "anna.nk"
    seed.write_text(ANNA.seed)
    client = await running.client(nkeys_seed=str(seed))
    await flush(client)
    assert next(iter(running.broker.connections.values())).user == ANNA.public_key


async def test_the_log_says_who_was_refused_and_never_with_what(start: Start) -> None:
    running = start(users=USERS, trace=True)
    client = await running.raw()
    signature = signed(KeyPair.create("user"), client.info["nonce"])
    await client.connect(nkey=ANNA.public_key, sig=signature)
    assert await client.rest() == VIOLATION
    log = running.log_text()
    assert f'authentication error - Nkey "{ANNA.public_key}"' in log
    assert "Signature not verified" in log
    assert signature not in log


JUNK = st.text(max_size=100) | st.sampled_from(
    ["U" * 56, "", "=" * 86, "A" * 86, "\x00", "\ud800", ANNA.seed]
)


@given(JUNK, JUNK, JUNK)
def test_no_junk_is_admitted_or_raises(nkey: str, sig: str, jwt: str) -> None:
    authenticator = Authenticator(Options(users=USERS))
    for key in (nkey, ANNA.public_key):
        assert authenticator.check(Credentials(nkey=key, sig=sig, jwt=jwt, nonce="nonce")) is None


async def test_junk_on_the_wire_is_refused_without_a_traceback(start: Start) -> None:
    running: Running = start(users=USERS)
    for fields in (
        {"nkey": "\u2603" * 100, "sig": "x"},
        {"nkey": ANNA.public_key, "sig": "\u0000"},
        {"nkey": ANNA.public_key[:-1] + "A", "sig": "A" * 86},
        {"jwt": "eyJ" * 1000, "sig": "A" * 86},
    ):
        client = await running.raw(**fields)
        assert await client.rest() == VIOLATION
    for line in (b'{"nkey":[1]}', b'{"sig":{"a":1}}', b'{"jwt":1}'):
        client = await running.raw()
        await client.send(b"CONNECT " + line + b"\r\n")
        await client.rest()
    assert "Traceback" not in running.log_text()


async def test_a_key_that_a_reload_removes_is_cut_off(start: Start) -> None:
    running = start(users=USERS)
    client = await running.raw()
    await client.connect(nkey=ANNA.public_key, sig=signed(ANNA, client.info["nonce"]))
    stays = await running.raw(user="plain", **{"pass": "word"})
    assert await client.ask() == []
    assert await stays.ask() == []
    running.broker.reload(
        Options(port=running.broker.port, users=USERS[1:]), auth_changed=True, info_changed=False
    )
    assert VIOLATION in await client.rest()
    assert await stays.ask() == []


@pytest.mark.parametrize(
    ("users", "text"),
    [
        (f"{{nkey: {ANNA.seed}}}", "Not a valid public nkey for a user"),
        ("{nkey: nonsense}", "Not a valid public nkey for a user"),
        (f"{{nkey: {KeyPair('account', bytes(32)).public_key}}}", "Not a valid public nkey for a user"),
        (f"{{nkey: {ANNA.public_key}, user: x}}", "Nkey users do not take usernames or passwords"),
        (f"{{nkey: {ANNA.public_key}, password: x}}", "Nkey users do not take usernames or passwords"),
        (
            f"{{nkey: {ANNA.public_key}}}, {{nkey: {ANNA.public_key}}}",
            f'Duplicate nkey "{ANNA.public_key}" detected',
        ),
        ("{nkey: 5}", "expected a string, got an integer"),
        ("{nkey: ''}", "User entry requires a user"),
    ],
)
def test_what_is_wrong_with_a_key_in_the_configuration(tmp_path: Path, users: str, text: str) -> None:
    path = tmp_path / "server.conf"
    path.write_text(f"authorization {{ users: [{users}] }}")
    with pytest.raises(ConfigError) as raised:
        load_file(str(path))
    assert text in str(raised.value)
    assert "server.conf:1" in str(raised.value)
    assert ANNA.seed not in str(raised.value)


def test_an_nkey_can_be_the_user_without_credentials() -> None:
    check_options(Options(users=USERS, no_auth_user=ANNA.public_key))
    with pytest.raises(ConfigError):
        check_options(Options(users=USERS, no_auth_user=KeyPair.create("user").public_key))


def test_a_key_needs_no_password_to_be_warned_of() -> None:
    assert not Options(users=USERS[:1]).has_plaintext_password
