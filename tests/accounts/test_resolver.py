"""Resolvers: a directory that tools fill, a cache, a web server. Against nats-server where tools can tell."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.accounts.remote_resolvers import UrlResolver
from headrace.accounts.resolvers import AccountNotFound
from headrace.accounts.token_directory import CannotStore, TokenDirectory
from headrace.keys import claims as c
from headrace.keys.jwt import encode, encode_base64url
from headrace.keys.nkeys import KeyPair
from tests.clients import flush
from tests.interop.tokens import (
    ISSUED_AT,
    ONE,
    OPERATOR,
    OTHER_OPERATOR,
    STRANGER,
    SYSTEM,
    TWO,
    USER,
    account_token,
    operator_token,
    pair,
    user_token,
)
from tests.servers import Server, ServerKind, running_server

KINDS: list[ServerKind] = ["nats-server", "headrace"]
SYSTEM_USER = pair("user", 80)


@contextlib.asynccontextmanager
async def connected(server: Server, token: str, user: KeyPair, **options: Any) -> AsyncIterator[nats.NATS]:
    client = nats.NATS()

    async def ignore(_: Exception) -> None: ...

    try:
        await client.connect(
            f"nats://{server.host}:{server.port}",
            user_jwt_cb=lambda: bytearray(token.encode()),
            signature_cb=lambda nonce: encode_base64url(user.sign(nonce.encode())).encode(),
            **{"allow_reconnect": False, "error_cb": ignore, **options},
        )
        yield client
    finally:
        await client.close()


async def answer_to(server: Server, token: str, user: KeyPair) -> bytes:
    """What is said to a CONNECT, until the server closes: nats-py takes its first PING for a welcome."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    nonce = json.loads((await reader.readline())[5:])["nonce"]
    fields = {"verbose": False, "jwt": token, "sig": encode_base64url(user.sign(nonce.encode()))}
    writer.write(b"CONNECT " + json.dumps(fields).encode() + b"\r\n")
    received = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    await writer.wait_closed()
    return received


def as_system(server: Server) -> Any:
    return connected(server, user_token(SYSTEM_USER, signer=SYSTEM), SYSTEM_USER)


def full(directory: Path, extra: str = "allow_delete: true") -> str:
    return (
        f'operator: {operator_token()}\nresolver: {{type: full, dir: "{directory}", {extra}}}\n'
        f"resolver_preload {{ {SYSTEM.public_key}: {account_token(SYSTEM, 'SYS')} }}\n"
    )


def deletion(accounts: object, signer: KeyPair = OPERATOR, subject: str = "") -> str:
    claims = c.GenericClaims(subject=subject or signer.public_key, nats={"accounts": accounts})
    return encode(claims, signer, issued_at=ISSUED_AT)


def update_of(account: KeyPair, name: str = "UPDATE") -> str:
    return f"$SYS.REQ.ACCOUNT.{account.public_key}.CLAIMS.{name}"


UPDATE, LIST, DELETE = ("$SYS.REQ.CLAIMS." + name for name in ("UPDATE", "LIST", "DELETE"))
BAD_EXPORT = [c.Export(subject="a b", type="service")]
BAD_IMPORT = [c.Import(subject="x", account="", type="stream")]
REQUESTS: list[tuple[str, str]] = [
    (LIST, ""),
    (UPDATE, account_token(ONE, "one")),
    (LIST, "anything"),
    (UPDATE, account_token(ONE, "one")),
    (UPDATE, ""),
    (UPDATE, "x.y.z"),
    (UPDATE, "a.b"),
    (UPDATE, user_token()),
    (UPDATE, operator_token()),
    (UPDATE, account_token(ONE)[:-4] + "AAAA"),
    (UPDATE, account_token(TWO, exports=BAD_EXPORT)),
    (UPDATE, account_token(TWO, imports=BAD_IMPORT)),
    (UPDATE, account_token(TWO, signing_keys=["x"])),
    (UPDATE, account_token(TWO, limits={"exports": 0}, exports=[c.Export(subject="a", type="stream")])),
    (UPDATE, account_token(TWO, mappings={"a": [c.WeightedMapping(subject="b", weight=101)]})),
    (UPDATE, account_token(TWO, authorization=c.ExternalAuthorization(auth_users=["x"]))),
    (UPDATE, account_token(TWO, expires=5)),
    (update_of(ONE), account_token(TWO)),
    (update_of(TWO), account_token(TWO)),
    (update_of(TWO), "nonsense"),
    (f"$SYS.ACCOUNT.{TWO.public_key}.CLAIMS.UPDATE", account_token(TWO, "new")),
    (update_of(ONE, "LOOKUP"), ""),
    (update_of(STRANGER, "LOOKUP"), ""),
    (DELETE, "nonsense"),
    (DELETE, account_token(ONE)),
    (DELETE, deletion([ONE.public_key], OTHER_OPERATOR)),
    (DELETE, deletion([ONE.public_key], subject=ONE.public_key)),
    (DELETE, deletion(["../../etc/passwd"])),
    (DELETE, deletion([5])),
    (DELETE, deletion("all")),
    (DELETE, deletion([SYSTEM.public_key])),
    (DELETE, deletion([ONE.public_key, STRANGER.public_key])),
    (LIST, ""),
]


def comparable(answer: bytes) -> object:
    """Without what identifies the server."""
    if not answer.startswith(b"{"):
        return answer
    fields = json.loads(answer)
    assert set(fields["server"]) - {"feature_flags"} == {
        "name", "host", "id", "ver", "jetstream", "flags", "seq", "time",
    }  # fmt: skip
    del fields["server"]
    if "not account claim" in str(fields) or "JSON" in str(fields) or "generic" in str(fields):
        return "refused"
    return fields


async def answers_of(kind: ServerKind, directory: Path) -> tuple[list[object], list[str]]:
    answers: list[object] = []
    with running_server(kind, full(directory)) as server:
        async with as_system(server) as client:
            for subject, payload in REQUESTS:
                answer = await client.request(subject, payload.encode(), timeout=30)
                answers.append((subject, comparable(answer.data)))
            packed = await client.subscribe("packed")
            await client.publish("$SYS.REQ.CLAIMS.PACK", b"", reply="packed")
            while piece := (await packed.next_msg(30)).data:
                answers.append(piece)
    return answers, sorted(os.listdir(directory))


async def test_tools_get_the_same_answers_from_both_servers(tmp_path: Path) -> None:
    results = []
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        results.append(await answers_of(kind, tmp_path / kind))
    (theirs, their_files), (ours, our_files) = results
    for one, other in zip(theirs, ours, strict=True):
        assert one == other
    assert their_files == our_files


@pytest.mark.parametrize("kind", KINDS)
async def test_an_account_that_is_deleted_takes_its_users_with_it(tmp_path: Path, kind: ServerKind) -> None:
    with running_server(kind, full(tmp_path)) as server:
        gone = asyncio.Event()

        async def on_closed() -> None:
            gone.set()

        async with as_system(server) as system:
            await system.request(UPDATE, account_token(ONE).encode(), timeout=30)
            async with connected(server, user_token(), USER, closed_cb=on_closed):
                await system.request(DELETE, deletion([ONE.public_key]).encode(), timeout=30)
                await asyncio.wait_for(gone.wait(), 30)
            with pytest.raises(nats.errors.Error):
                async with connected(server, user_token(), USER):
                    pass


@pytest.mark.parametrize("kind", KINDS)
async def test_deleting_must_be_allowed(tmp_path: Path, kind: ServerKind) -> None:
    with running_server(kind, full(tmp_path, "limit: 2")) as server:
        async with as_system(server) as system:
            await system.request(UPDATE, account_token(ONE).encode(), timeout=30)
            answer = await system.request(DELETE, deletion([ONE.public_key]).encode(), timeout=30)
            assert b"delete must be enabled in server config" in answer.data
            answer = await system.request(UPDATE, account_token(TWO).encode(), timeout=30)
            assert b"jwt store is full" in answer.data


async def test_other_accounts_cannot_ask(tmp_path: Path) -> None:
    with running_server("headrace", full(tmp_path)) as server:
        async with as_system(server) as system:
            await system.request(UPDATE, account_token(ONE).encode(), timeout=30)
            async with connected(server, user_token(), USER) as client:
                with pytest.raises(nats.errors.NoRespondersError):
                    await client.request(UPDATE, account_token(TWO).encode(), timeout=30)
                await client.publish(UPDATE, account_token(TWO).encode())
                await flush(client)
            assert TWO.public_key not in str((await system.request(LIST, timeout=30)).data)


async def test_the_system_account_can_begin_without_a_token(tmp_path: Path) -> None:
    """Tools then bring it, and everything else."""
    settings = f'operator: {operator_token()}\nresolver: {{type: full, dir: "{tmp_path}"}}\n'
    with running_server("headrace", settings) as server:
        async with as_system(server) as system:
            for token in (account_token(SYSTEM, "SYS"), account_token(ONE)):
                await system.request(UPDATE, token.encode(), timeout=30)
            async with connected(server, user_token(), USER) as client:
                await flush(client)


# -- names of accounts are names of files


@given(st.text(max_size=70) | st.sampled_from(["../x", "..", "", "B" * 56, ONE.public_key.lower(), "A/../x"]))
def test_nothing_but_the_key_of_an_account_becomes_a_file(name: str) -> None:
    directory = TokenDirectory("/nonexistent")
    with pytest.raises(CannotStore, match="invalid public key"):
        directory.save(name, "token")
    with pytest.raises(CannotStore, match="invalid public key"):
        directory.delete(name, for_good=True)
    with pytest.raises(AccountNotFound):
        directory.load(name)
    with pytest.raises(AccountNotFound):
        UrlResolver("http://127.0.0.1:1/", 1.0).fetch_now(name or "x")


def test_keys_of_other_kinds_are_no_files_either(tmp_path: Path) -> None:
    directory = TokenDirectory(str(tmp_path))
    for key in (USER.public_key, OPERATOR.public_key, ONE.seed):
        with pytest.raises(CannotStore):
            directory.save(key, "token")
    assert os.listdir(tmp_path) == []


def test_a_directory_keeps_the_newer_token(tmp_path: Path) -> None:
    directory = TokenDirectory(str(tmp_path))
    newer, older = account_token(ONE, "new", issued_at=ISSUED_AT + 1), account_token(ONE, "old")
    directory.store(ONE.public_key, newer)
    directory.store(ONE.public_key, older)
    assert directory.load(ONE.public_key) == newer
    directory.save(ONE.public_key, older)
    assert directory.load(ONE.public_key) == older


def test_a_cache_drops_the_oldest(tmp_path: Path) -> None:
    directory = TokenDirectory(str(tmp_path), limit=2, drops_oldest=True)
    for number, account in enumerate((ONE, TWO, STRANGER)):
        directory.save(account.public_key, account_token(account))
        os.utime(tmp_path / f"{account.public_key}.jwt", (number, number))
    assert directory.names() == sorted([TWO.public_key, STRANGER.public_key])


# -- resolvers that ask others


class TokenServer:
    """Serves tokens over HTTP."""

    def __init__(self, tokens: dict[str, str]) -> None:
        asked = self.asked = []  # type: list[str]

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.removeprefix("/jwt/v1/accounts/")
                asked.append(name)
                self.send_response(200 if name in tokens or not name else 404)
                self.end_headers()
                self.wfile.write(tokens.get(name, "").encode())

            def log_message(self, *_: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwt/v1/accounts/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def tokens() -> Iterator[TokenServer]:
    importing = account_token(ONE, imports=[c.Import(subject="x", account=TWO.public_key, type="stream")])
    made = TokenServer(
        {
            SYSTEM.public_key: account_token(SYSTEM),
            ONE.public_key: importing,
            TWO.public_key: account_token(TWO, exports=[c.Export(subject="x", type="stream")]),
        }
    )
    yield made
    made.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_tokens_come_from_a_web_server(tokens: TokenServer, kind: ServerKind) -> None:
    settings = f"operator: {operator_token()}\nresolver: URL({tokens.url})\n"
    with running_server(kind, settings) as server:
        async with connected(server, user_token(), USER) as client:
            await flush(client)
        async with connected(server, user_token(signer=TWO), USER) as client:
            await flush(client)
        with pytest.raises(nats.errors.Error):
            async with connected(server, user_token(signer=STRANGER), USER):
                pass
    assert {"", SYSTEM.public_key, ONE.public_key, TWO.public_key, STRANGER.public_key} == set(tokens.asked)


@pytest.mark.parametrize("kind", KINDS)
def test_a_web_server_must_answer_at_the_start(kind: ServerKind) -> None:
    settings = f"operator: {operator_token()}\nresolver: URL(http://127.0.0.1:1/)\n"
    with pytest.raises(RuntimeError, match="could not fetch"), running_server(kind, settings):
        pass


@pytest.mark.parametrize("kind", KINDS)
async def test_a_cache_asks_in_the_system_account(tmp_path: Path, kind: ServerKind) -> None:
    settings = (
        f'operator: {operator_token()}\nresolver: {{type: cache, dir: "{tmp_path}", timeout: "3s"}}\n'
        f"resolver_preload {{ {SYSTEM.public_key}: {account_token(SYSTEM, 'SYS')} }}\n"
        "authorization { timeout: 30 }\n"
    )
    with running_server(kind, settings) as server:
        async with as_system(server) as system:
            asked: list[str] = []

            async def on_lookup(message: Any) -> None:
                asked.append(re.split(r"\.", message.subject)[3])
                if asked[-1] == ONE.public_key:
                    await message.respond(account_token(ONE).encode())

            await system.subscribe("$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP", cb=on_lookup)
            await flush(system)
            async with connected(server, user_token(), USER) as client:
                await flush(client)
            assert b"Authorization Violation" in await answer_to(server, user_token(signer=TWO), USER)
            async with connected(server, user_token(), USER) as client:
                await flush(client)
            assert asked == [ONE.public_key, TWO.public_key]
            answer = await system.request(UPDATE, account_token(STRANGER).encode(), timeout=30)
            assert b"jwt update cache skipped" in answer.data
            answer = await system.request(UPDATE, account_token(ONE, "new").encode(), timeout=30)
            assert b"jwt updated cache" in answer.data
    assert (tmp_path / f"{ONE.public_key}.jwt").read_text() == account_token(ONE, "new")


async def test_a_new_token_changes_what_streams_may_use(tmp_path: Path) -> None:
    settings = full(tmp_path / "tokens") + f'jetstream {{ store_dir: "{tmp_path / "streams"}" }}\n'

    async def bring(**limits: int) -> None:
        await system.request(UPDATE, account_token(ONE, limits=limits).encode(), timeout=30)

    with running_server("headrace", settings) as server:
        async with as_system(server) as system:
            await bring()
            async with connected(server, user_token(), USER) as client:
                streams = client.jetstream(timeout=30)
                with pytest.raises(nats.errors.Error, match="not enabled for account"):
                    await streams.add_stream(name="A", subjects=["a"])
                await bring(disk_storage=-1, mem_storage=-1, streams=1, consumer=-1)
                await streams.add_stream(name="A", subjects=["a"])
                assert (await streams.publish("a", b"kept")).seq == 1
                with pytest.raises(nats.errors.Error, match="maximum number of streams reached"):
                    await streams.add_stream(name="B", subjects=["b"])
                await bring(disk_storage=-1, mem_storage=-1, streams=2, consumer=-1)
                await streams.add_stream(name="B", subjects=["b"])
                assert (await streams.get_msg("A", 1)).data == b"kept"


IMPORTS = [
    c.Import(subject="news.>", account=TWO.public_key, type="stream", local_subject="from.two.>"),
    c.Import(subject="help", account=TWO.public_key, type="service", local_subject="ask"),
]
EXPORTS = [c.Export(subject="news.>", type="stream"), c.Export(subject="help", type="service")]


async def first_heard(heard: Any, publisher: Any, kind: ServerKind) -> Any:
    """nats-server connects the accounts a moment after it has answered: what is sent until then is lost."""
    if kind == "headrace":
        await publisher.publish("news.x", b"hi")
        return await heard.next_msg(30)
    for _ in range(100):
        await publisher.publish("news.x", b"hi")
        await flush(publisher)
        with contextlib.suppress(nats.errors.TimeoutError):
            return await heard.next_msg(0.2)
    raise AssertionError("nothing is heard")


async def last_heard(heard: Any, publisher: Any, own: Any, kind: ServerKind) -> list[bytes]:
    """What is heard of a message that must not come, before one of the own account.

    nats-server separates the accounts, too, a moment after it has answered.
    """
    seen: list[bytes] = []
    for _ in range(1 if kind == "headrace" else 100):
        await publisher.publish("news.x", b"no")
        await flush(publisher)
        await own.publish("from.two.mine", b"own")
        seen = []
        while b"own" not in seen:
            seen.append(bytes((await heard.next_msg(30)).data))
        if b"no" not in seen:
            break
    return [data for data in seen if data != b"hi"]


@pytest.mark.parametrize("kind", KINDS)
async def test_accounts_import_from_each_other_by_their_tokens(tmp_path: Path, kind: ServerKind) -> None:
    with running_server(kind, full(tmp_path)) as server:
        async with as_system(server) as system:
            for token in (account_token(TWO, exports=EXPORTS), account_token(ONE, imports=IMPORTS)):
                await system.request(UPDATE, token.encode(), timeout=30)
            async with (
                connected(server, user_token(), USER) as one,
                connected(server, user_token(signer=TWO), USER) as two,
            ):
                heard = await one.subscribe("from.two.>")
                await flush(one)

                async def answer(message: Any) -> None:
                    await message.respond(b"answer")

                await two.subscribe("help", cb=answer)
                message = await first_heard(heard, two, kind)
                assert (message.subject, message.data) == ("from.two.x", b"hi")
                assert (await one.request("ask", b"", timeout=30)).data == b"answer"
                # The export ends, and with it what it had let through.
                await system.request(UPDATE, account_token(TWO, exports=EXPORTS[1:]).encode(), timeout=30)
                assert await last_heard(heard, two, one, kind) == [b"own"]
