"""Another account's subjects, streams, API and files are out of reach (FAULTS 38, 39)."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import nats
import pytest
from nats.aio.client import Client

from headrace.config import load_file
from headrace.config.identity import AccountOptions, ServiceExport, ServiceImport, User
from headrace.config.options import check_options
from headrace.errors import ConfigError
from headrace.keys import claims as c
from headrace.streams.api.routes import ROUTES
from tests.accounts.test_isolation import login
from tests.accounts.test_resolver import connected
from tests.adversity.test_paths import TRAVERSALS
from tests.broker.conftest import Start, start
from tests.clients import flush
from tests.interop.tokens import (
    ONE,
    STRANGER,
    SYSTEM,
    TWO,
    USER,
    account_token,
    memory_settings,
    user_token,
)
from tests.servers import ServerKind, running_server

__all__ = ["start"]

CONFIG = """
jetstream { max_mem: 1G, max_file: 1G }
accounts {
  A {
    jetstream: enabled
    users: [{user: a, password: x}]
    exports: [{service: private, accounts: [FRIEND]}, {stream: feed, accounts: [FRIEND]}, {service: open}]
  }
  B { jetstream: enabled, users: [{user: b, password: x}] }
  C { users: [{user: c, password: x}] }
  FRIEND { imports: [{service: {account: A, subject: private}}, {stream: {account: A, subject: feed}}] }
  $SYS { users: [{user: s, password: x}] }
}
authorization { users: [{user: g, password: x}] }
"""
SPOOFED = {"Nats-Request-Info": json.dumps({"acc": "A", "svc": "A", "user": "a"})}


async def connect(port: int, user: str) -> Client:
    return await nats.connect(f"nats://{user}:x@127.0.0.1:{port}", allow_reconnect=False)


def api_subjects() -> list[str]:
    """Every request of the API, about the stream S and its consumer."""
    subjects = []
    for route in ROUTES:
        names = iter(["S", "d", "1"])
        tokens = [next(names, "x") if token in ("*", ">") else token for token in route.pattern.split(".")]
        subjects.append("$JS.API." + ".".join(tokens))
    return [*subjects, "$JS.API.CONSUMER.MSG.NEXT.S.d", "$JS.API.DIRECT.GET.S", "$JS.API.DIRECT.GET.S.s"]


async def request(client: Client, subject: str, headers: dict[str, str] | None) -> dict[str, Any]:
    try:
        answer = await client.request(subject, b"", timeout=30, headers=headers)
    except nats.errors.NoRespondersError:
        return {"error": "nobody"}
    return json.loads(answer.data) if answer.data else {"error": "status"}


@pytest.mark.parametrize("headers", [None, SPOOFED], ids=["plain", "spoofed"])
@pytest.mark.parametrize("user", ["b", "c", "g", "s"])
async def test_the_api_of_another_account_is_out_of_reach(
    user: str, headers: dict[str, str] | None, tmp_path: Path
) -> None:
    with running_server("headrace", CONFIG, ["-sd", str(tmp_path)]) as server:
        owner, stranger = await connect(server.port, "a"), await connect(server.port, user)
        jetstream = owner.jetstream()
        await jetstream.add_stream(name="S", subjects=["s"])
        await jetstream.publish("s", b"secret")
        pulling = await jetstream.pull_subscribe("s", "d", stream="S")
        (message,) = await pulling.fetch(1, timeout=30)
        for subject in api_subjects():
            answer = await request(stranger, subject, headers)
            assert answer.get("error") or not answer.get("streams"), (subject, answer)
            assert "secret" not in json.dumps(answer)
            assert answer.get("state") is None
        for subject in ("s", message.reply, "$JS.FC.S", "$KV.S.x", "_R_.abcdef.ghijkl"):
            await stranger.publish(subject, b"intruder", headers=headers)
        await flush(stranger)
        info = await jetstream.consumer_info("S", "d")
        assert (info.num_ack_pending, info.ack_floor.stream_seq) == (1, 0)
        state = (await jetstream.stream_info("S")).state
        assert (state.messages, state.last_seq) == (1, 1)
        await owner.close()
        await stranger.close()
    assert [path.name for path in (tmp_path / "jetstream").iterdir()] in (["A"], ["A", "B"], ["B", "A"])


@pytest.mark.parametrize("user", ["b", "c", "g", "s"])
async def test_what_is_not_imported_does_not_cross(user: str, tmp_path: Path) -> None:
    with running_server("headrace", CONFIG, ["-sd", str(tmp_path)]) as server:
        owner, stranger = await connect(server.port, "a"), await connect(server.port, user)
        got: list[str] = []

        async def note(message: Any) -> None:
            got.append(f"{message.subject} {message.data}")

        for client in (owner, stranger):
            for subject in ("private", "feed", "open", "*", "x.>", "_INBOX.theirs"):
                await client.subscribe(subject, cb=note)
            await flush(client)
        for subject in ("private", "feed", "open", "x.y"):
            for client in (owner, stranger):
                await client.publish(subject, client.options["user"] or b"", reply="_INBOX.theirs")
                await flush(client)
        for client in (owner, stranger):
            while client.stats["in_msgs"] < 7:  # its own: three subjects by name and by `*`, and `x.>`
                await asyncio.sleep(0.01)
            await flush(client)
        assert [client.stats["in_msgs"] for client in (owner, stranger)] == [7, 7]
        await owner.close()
        await stranger.close()


@pytest.mark.parametrize(
    "name", [name for name in TRAVERSALS if name and "\n" not in name and "\x00" not in name]
)
def test_the_name_of_an_account_is_no_path(name: str, tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    quoted = json.dumps(name, ensure_ascii=False)
    path.write_text(
        f"store_dir: {json.dumps(str(tmp_path / 'store'))}\naccounts {{ {quoted} {{ jetstream: enabled }} }}"
    )
    try:
        options = load_file(str(path)).options
    except ConfigError:
        return
    directory = options.jetstream_directory
    for account in options.accounts:
        streams = os.path.normpath(os.path.join(directory, account.name, "streams"))
        assert Path(streams).parent.parent == Path(directory)


EXTREMES = [-(2**63), -(2**31) - 1, -1, 0, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1]


@pytest.mark.parametrize("number", EXTREMES)
def test_extreme_numbers_are_read_or_refused(number: int, tmp_path: Path) -> None:
    for text in (
        f"accounts {{ A {{ limits: {{max_connections: {number}, max_subscriptions: {number}}} }} }}",
        f"accounts {{ A {{ limits: {{max_payload: {number}, max_leafnodes: {number}}} }} }}",
        f"accounts {{ A {{ jetstream: {{max_mem: {number}, max_streams: {number}}} }} }}",
        f'accounts {{ A {{ exports: [{{stream: "x.*", account_token_position: {number}}}] }} }}',
        f"accounts {{ A {{ exports: [{{service: x, latency: {{sampling: {number}, subject: y}}}}] }} }}",
        f"mappings {{ x: [{{destination: y, weight: {number}}}] }}",
        f'mappings {{ "x.*": "y.{{{{partition({number},1)}}}}" }}',
        f'mappings {{ "x.*": "y.${number}" }}',
    ):
        path = tmp_path / "server.conf"
        path.write_text(text)
        try:
            check_options(load_file(str(path)).options)
        except ConfigError:
            continue


async def test_a_request_does_not_run_in_circles(start: Start) -> None:
    """The configuration refuses such imports; the server would end them all the same."""

    def linked(name: str, source: str) -> AccountOptions:
        return AccountOptions(
            name,
            service_exports=(ServiceExport("x"),),
            service_imports=(ServiceImport(source, "x", "x"),),
        )

    running = start(
        accounts=(linked("A", "C"), linked("B", "A"), linked("C", "B")),
        users=tuple(User(name, "x", account=name.upper()) for name in "abc"),
    )
    client = await login(running, "a")
    frames = await client.ask(b"SUB in 1\r\nPUB x in 0\r\n\r\n")
    assert [frame.headers[:12] for frame in frames] == [b"NATS/1.0 503"]
    listener = await login(running, "b")
    await listener.ask(b"SUB x 1\r\n")
    assert await client.ask(b"PUB x in 1\r\n?\r\n") == []
    assert [frame.payload for frame in await listener.ask()] == [b"?"]


CIRCLE = (ONE, TWO, STRANGER)


def circle_of(kind: Literal["service", "stream"]) -> str:
    """Tokens of three accounts: each imports `x` from the one before, the first from the last."""
    tokens = [
        account_token(
            account,
            exports=[c.Export(subject="x", type=kind)],
            imports=[c.Import(subject="x", account=source.public_key, type=kind)],
        )
        for account, source in zip(CIRCLE, (CIRCLE[-1], *CIRCLE), strict=False)
    ]
    return memory_settings(account_token(SYSTEM), *tokens)


@pytest.mark.parametrize("server_kind", ["headrace", "nats-server"])
@pytest.mark.parametrize(("kind", "expected"), [("service", [3, 2, 1]), ("stream", [1, 2, 2])])
async def test_of_tokens_that_import_in_a_circle_the_import_that_closes_it_does_not_count(
    server_kind: ServerKind, kind: Literal["service", "stream"], expected: list[int]
) -> None:
    """Tokens come from elsewhere, one at a time: nobody has looked at all of them together.

    Here the first account comes first, so it is the one without its import.
    """
    with running_server(server_kind, circle_of(kind)) as server:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(connected(server, user_token(signer=account), USER))
                for account in CIRCLE
            ]
            for client in clients:
                await client.subscribe("x")
                await flush(client)
            for client in clients:
                await client.publish("x", b"?", reply="in")
                await flush(client)
            for client in clients:
                await flush(client)
            assert [client.stats["in_msgs"] for client in clients] == expected


EVERYTHING = """
jetstream { max_mem: 1G, max_file: 1G }
accounts {
  A { jetstream: enabled, users: [{user: a, password: x}], exports: [{stream: ">"}] }
  B { jetstream: enabled, users: [{user: b, password: x}], imports: [{stream: {account: A, subject: ">"}}] }
}
"""


async def test_who_imports_everything_does_not_import_requests(tmp_path: Path) -> None:
    """What one account asks its API for, acknowledges and pulls happens there only."""
    with running_server("headrace", EVERYTHING, ["-sd", str(tmp_path)]) as server:
        a, b = await connect(server.port, "a"), await connect(server.port, "b")
        await b.jetstream().add_stream(name="S", subjects=["only.b"])
        await b.jetstream().publish("only.b", b"1")
        pulling = await b.jetstream().pull_subscribe("only.b", "d", stream="S")
        (message,) = await pulling.fetch(1, timeout=30)
        for subject in api_subjects():
            await request(a, subject, None)
        await a.publish(message.reply, b"+ACK")
        await a.jetstream().add_stream(name="T", subjects=["t"])
        await flush(a)
        info = await b.jetstream().consumer_info("S", "d")
        assert (info.num_ack_pending, info.ack_floor.stream_seq) == (1, 0)
        assert [one.config.name for one in await b.jetstream().streams_info()] == ["S"]
        assert [one.config.name for one in await a.jetstream().streams_info()] == ["T"]
        await a.close()
        await b.close()


ANSWERS = """
accounts {
  A { users: [ { user: a, password: x } ], jetstream: enabled, exports: [ { stream: ">" } ] }
  B { users: [ { user: b, password: x } ], imports: [ { stream: { account: A, subject: ">" } } ] }
}
jetstream: enabled
"""


@pytest.mark.parametrize("kind", ["nats-server", "headrace"])
async def test_who_imports_everything_does_not_import_answers_of_the_server(
    kind: ServerKind, tmp_path: Path
) -> None:
    with running_server(kind, ANSWERS, ["-sd", str(tmp_path)]) as server:
        a, b = await connect(server.port, "a"), await connect(server.port, "b")
        everything = await b.subscribe(">")
        await flush(b)
        await a.request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s"]}', timeout=30)
        await a.request("$JS.API.INFO", timeout=30)
        await a.request("$SYS.REQ.USER.INFO", timeout=30)
        await a.publish("end")
        subjects = []
        while not subjects or subjects[-1] != "end":
            subjects.append((await everything.next_msg(timeout=30)).subject)
        assert [subject for subject in subjects if subject.startswith("_INBOX.")] == []
        await a.close()
        await b.close()
