"""A Python function that says who may connect."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA256

from headrace.accounts.credentials import Credentials
from headrace.accounts.python_hook import PythonHook, load_hook
from headrace.auth import Connection, User
from headrace.config.load import load_file
from headrace.config.options import Options, check_options
from headrace.errors import ConfigError
from headrace.keys.nkeys import KeyPair
from headrace.logs import Logger, LogSettings
from tests.broker.conftest import RawClient, Running, Start
from tests.clients import flush
from tests.interop.signatures import fill_in_signatures, signature
from tests.servers import running_server

VIOLATION = b"-ERR 'Authorization Violation'\r\n"
EXAMPLES = Path(__file__).parents[2] / "examples"
PAIR = KeyPair("user", bytes([9]) * 32)

HOOKS = f"""
import asyncio, threading, time
from headrace.auth import Connection, Permissions, SubjectRules, User

blocked = threading.Event()
threads = set()

async def check(connection: Connection) -> User | None:
    threads.add(threading.current_thread().name)
    assert connection.host == "127.0.0.1"
    if connection.user == "raises":
        raise ValueError(f"no such password: {{connection.password}} {{connection.token!r}}")
    if connection.user == "other":
        return "yes"
    if connection.user == "sleeps":
        await asyncio.sleep(60)
    if connection.user == "blocks":
        blocked.wait(60)
    if connection.user == "lost":
        return User(account="NONE")
    if connection.user == "expires":
        return User(expires=time.time() + 2)
    if connection.user == "limited":
        return User("renamed", permissions=Permissions(publish=SubjectRules(allow=("a",))))
    if connection.nkey:
        return User(connection.nkey) if connection.is_signed_by("{PAIR.public_key}") else None
    return User(connection.user) if connection.password == "right" else None

def plain(connection):
    time.sleep(0.01)
    return User("plain") if connection.token == "t" else None

not_a_function = 5
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a configuration, with the module next to it under a name of its own."""
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    module = f"hook_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(HOOKS)
    path = tmp_path / "server.conf"
    path.write_text(f'authorization {{ python: "{module}:check", timeout: 30 }}')
    return str(path)


def options_of(path: str, function: str = "check", **more: Any) -> dict[str, Any]:
    options = load_file(path).options
    return {
        "python_hook": options.python_hook.replace(":check", f":{function}"),
        "config_path": path,
        "auth_timeout": options.auth_timeout,
        **more,
    }


async def enter(running: Running, user: str, password: str = "right", **more: Any) -> RawClient:
    return await running.raw(user=user, **{"pass": password}, **more)


async def test_it_says_who_a_client_is(start: Start, configured: str) -> None:
    running = start(**options_of(configured))
    client = await enter(running, "anna")
    assert await client.ask() == []
    assert next(iter(running.broker.connections.values())).user == "anna"
    refused = await enter(running, "anna", "wrong")
    assert await refused.rest() == VIOLATION
    nobody = await running.raw()
    await nobody.send(b"PING\r\n")
    assert await nobody.rest() == VIOLATION


async def test_a_plain_function_will_do(start: Start, configured: str) -> None:
    running = start(**options_of(configured, "plain"))
    client = await running.raw(auth_token="t")
    assert await client.ask() == []
    refused = await running.raw(auth_token="x")
    assert await refused.rest() == VIOLATION


async def test_what_comes_with_connect_waits_for_the_answer(start: Start, configured: str) -> None:
    running = start(**options_of(configured))
    client = await running.raw()
    await client.send(
        b'CONNECT {"verbose":false,"user":"x","pass":"right"}\r\nSUB foo 1\r\nPUB foo 2\r\nhi\r\n'
    )
    assert [frame.operation for frame in await client.ask()] == ["MSG"]


async def test_an_exception_refuses_and_leaves_a_traceback_without_secrets(
    start: Start, configured: str
) -> None:
    running = start(trace=True, **options_of(configured))
    client = await enter(running, "raises", "c4nary-pass", auth_token="c4nary-'token'")
    assert await client.rest() == VIOLATION
    log = running.log_text()
    assert "Traceback" in log
    assert "ValueError: no such password: [REDACTED]" in log
    assert "c4nary" not in log


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ("other", "returned str, neither a User nor None"),
        ("lost", 'there is no account "NONE"'),
        ("sleeps", "did not answer within 1.5 s"),
    ],
)
async def test_whatever_else_it_does_refuses(start: Start, configured: str, user: str, text: str) -> None:
    running = start(**options_of(configured, auth_timeout=1.5))
    client = await enter(running, user)
    assert await client.rest() == VIOLATION
    assert text in running.log_text()


async def test_a_check_that_blocks_holds_up_nobody_else(start: Start, configured: str) -> None:
    running = start(**options_of(configured, auth_timeout=3.0))
    blocking = [await enter(running, "blocks") for _ in range(3)]
    client = await enter(running, "anna")
    assert await client.ask() == []
    for one in blocking:
        assert await one.rest() == VIOLATION
    module = __import__("sys").modules[running.broker.options.python_hook.partition(":")[0]]
    module.blocked.set()
    assert all(name.startswith("headrace-python-auth-") for name in module.threads)


async def test_a_client_that_leaves_meanwhile_is_forgotten(start: Start, configured: str) -> None:
    running = start(**options_of(configured))
    client = await enter(running, "sleeps")
    await client.close()
    await running.until(lambda: not running.broker.connections)


async def test_it_may_limit_the_time(start: Start, configured: str) -> None:
    running = start(**options_of(configured))
    client = await enter(running, "expires")
    assert await client.ask() == []
    assert await client.rest() == b"-ERR 'User Authentication Expired'\r\n"


async def test_it_may_give_permissions_and_a_name(start: Start, configured: str) -> None:
    running = start(**options_of(configured))
    client = await enter(running, "limited")
    await client.ask()
    identity = next(iter(running.broker.connections.values())).identity
    assert identity.user == "renamed"
    assert identity.permissions is not None
    assert identity.permissions.publish is not None
    assert identity.permissions.publish.allow == ("a",)


async def test_it_can_check_an_nkey(start: Start, configured: str) -> None:
    running = start(**options_of(configured))
    for signer, admitted in ((PAIR, True), (KeyPair.create("user"), False)):
        client = await running.raw()
        sig = fill_in_signatures(signature(signer).encode(), client.info["nonce"].encode()).decode()
        await client.connect(nkey=PAIR.public_key, sig=sig)
        if admitted:
            assert await client.ask() == []
        else:
            assert await client.rest() == VIOLATION


async def test_a_reload_checks_everybody_again_with_the_new_code(start: Start, configured: str) -> None:
    running = start(**options_of(configured))
    anna, bert = await enter(running, "anna"), await enter(running, "bert")
    assert await anna.ask() == []
    assert await bert.ask() == []
    module = running.broker.options.python_hook.partition(":")[0]
    path = Path(configured).parent / f"{module}.py"
    path.write_text(
        HOOKS.replace('connection.password == "right"', 'connection.user == "anna" and 1 + 1 == 2')
    )
    running.broker.reload(
        Options(port=running.broker.port, **options_of(configured)), auth_changed=True, info_changed=False
    )
    assert VIOLATION in await bert.rest()
    assert await anna.ask() == []


@pytest.mark.parametrize(
    ("named", "error"),
    [
        ("nonsense", 'authorization python: "nonsense" is not of the form "module:function"'),
        ("no_such_module_here:check", 'cannot import "no_such_module_here": ModuleNotFoundError'),
        ("{module}:missing", 'has no function "missing"'),
        ("{module}:not_a_function", 'has no function "not_a_function"'),
        ("broken_module:check", 'cannot import "broken_module": SyntaxError'),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(configured: str, named: str, error: str) -> None:
    directory = Path(configured).parent
    (directory / "broken_module.py").write_text("def (")
    module = f"hook_{directory.name}"
    with pytest.raises(ConfigError) as raised:
        load_hook(named.replace("{module}", module), configured)
    assert error in str(raised.value)


def test_it_does_not_go_with_a_callout(tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    key = KeyPair("account", bytes(32)).public_key
    path.write_text(
        "authorization { users: [{user: a}], "
        f'python: "a:b", auth_callout: {{issuer: {key}, auth_users: [a]}} }}'
    )
    with pytest.raises(ConfigError, match="only one of them can decide"):
        check_options(load_file(str(path)).options)


# -- the example


class Provider:
    """An OpenID provider, as far as keys are concerned."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        numbers, point = self.rsa.public_key().public_numbers(), self.ec.public_key().public_numbers()
        keys = [
            {"kid": "r", "kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)},
            {"kid": "e", "kty": "EC", "crv": "P-256", "x": _number(point.x), "y": _number(point.y)},
        ]
        body = json.dumps({"keys": keys}).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def token(self, kid: str = "r", algorithm: str = "", **changes: Any) -> str:
        claims = {"iss": self.url, "aud": "nats", "sub": "anna", "exp": time.time() + 60, **changes}
        header = {"alg": algorithm or {"r": "RS256", "e": "ES256"}[kid], "kid": kid}
        signed = f"{_encode(json.dumps(header).encode())}.{_encode(json.dumps(claims).encode())}"
        if kid == "r":
            made = self.rsa.sign(signed.encode(), padding.PKCS1v15(), SHA256())
        else:
            pair = utils.decode_dss_signature(self.ec.sign(signed.encode(), ec.ECDSA(SHA256())))
            made = b"".join(number.to_bytes(32, "big") for number in pair)
        return f"{signed}.{_encode(made)}"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(number: int) -> str:
    return _encode(number.to_bytes((number.bit_length() + 7) // 8, "big"))


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.close()


async def test_the_example_checks_tokens_of_an_openid_provider(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OIDC_ISSUER", provider.url)
    monkeypatch.setenv("OIDC_AUDIENCE", "nats")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))

    async def admitted(token: str) -> bool:
        client = nats.NATS()
        try:
            await client.connect(
                f"nats://{server.host}:{server.port}", token=token, allow_reconnect=False, error_cb=ignore
            )
            await flush(client)
        except nats.errors.Error:
            return False
        finally:
            await client.close()
        return True

    async def ignore(_: Exception) -> None: ...

    with running_server("headrace", 'authorization { python: "oidc_auth:check" }') as server:
        assert await admitted(provider.token())
        assert await admitted(provider.token("e"))
        assert await admitted(provider.token(aud=["other", "nats"]))
        refused = {
            "expired": provider.token(exp=time.time() - 1),
            "not yet": provider.token(nbf=time.time() + 60),
            "for others": provider.token(aud="other"),
            "of others": provider.token(iss="https://other"),
            "changed": provider.token()[:-4] + "AAAA",
            "another algorithm": provider.token(algorithm="none"),
            "the algorithm of the other key": provider.token(algorithm="ES256"),
            "nonsense": "nonsense",
            "nothing": "",
        }
        assert {why for why, token in refused.items() if await admitted(token)} == set()
        assert "Traceback" not in server.log()
        assert provider.token()[:20] not in server.log()
    await asyncio.sleep(0)


@pytest.mark.parametrize("is_gone", [False, True])
async def test_checks_in_progress_end_before_the_hook_does(is_gone: bool) -> None:
    """It is replaced by a reload, or the server stops, while a check waits or has not even begun."""
    may_end = threading.Event()

    async def check(connection: Connection) -> User:
        while not may_end.is_set():
            await asyncio.sleep(0.001)
        return User("named")

    before = threading.active_count()
    hook, logger = PythonHook(check, "check", 30), Logger(LogSettings())
    checks = [asyncio.ensure_future(hook.decide(Credentials(), logger)) for _ in range(20)]
    await asyncio.sleep(0)
    hook.close()
    for each in checks if is_gone else []:
        each.cancel()
    may_end.set()
    found = await asyncio.gather(*checks, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in found] == [is_gone] * len(checks)
    while threading.active_count() > before:
        await asyncio.sleep(0.001)


def test_a_module_that_cannot_be_loaded_leaves_the_old_one(tmp_path: Path) -> None:
    module = tmp_path / "reloaded_auth.py"
    module.write_text("def check(connection):\n    return None\n")
    config = tmp_path / "server.conf"
    config.write_text('authorization { python: "reloaded_auth:check" }')
    with running_server("headrace", flags=["-c", str(config)]) as server:
        module.write_text("def (")
        config.write_text('authorization { python: "reloaded_auth:check", timeout: 3 }')
        server.process.send_signal(signal.SIGHUP)
        log = server.wait_for_log("Failed to reload server configuration")
        assert 'cannot import "reloaded_auth": SyntaxError' in log
        config.write_text('authorization { python: "reloaded_auth:nothing", timeout: 3 }')
        module.write_text("def check(connection):\n    return None\n")
        server.process.send_signal(signal.SIGHUP)
        log = server.wait_for_log("Failed to reload server configuration", 2)
        assert 'has no function "nothing"' in log


def test_a_server_does_not_start_with_a_module_that_cannot_be_loaded() -> None:
    with (
        pytest.raises(RuntimeError, match='cannot import "no_such_module_at_all"'),
        running_server("headrace", 'authorization { python: "no_such_module_at_all:check" }'),
    ):
        pass
