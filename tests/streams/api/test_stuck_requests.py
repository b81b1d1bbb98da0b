"""A request that fails by a mistake of ours, or never ends: answered, logged, and no reason not to stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from headrace.streams import jetstream_account
from headrace.streams.api import dispatch as api
from headrace.streams.api.dispatch import Request, Route
from headrace.streams.errors import api_error
from headrace.streams.jetstream_account import JetStreamAccount
from tests.servers import STOP_SECONDS
from tests.streams.embedded import embedded_server
from tests.streams.peers import API, ask, client_of, jetstream_server


def fail_at_once(owner: object, request: Request) -> dict[str, Any]:
    raise KeyError("a mistake")


async def fail_later(owner: object, request: Request) -> dict[str, Any]:
    await asyncio.sleep(0)
    return fail_at_once(owner, request)


def refuse_in_words_that_cannot_be_encoded(owner: object, request: Request) -> dict[str, Any]:
    raise api_error("invalid_json", err="\ud800")


async def refuse_so_later(owner: object, request: Request) -> dict[str, Any]:
    return refuse_in_words_that_cannot_be_encoded(owner, request)


async def step_on_the_spot(account: JetStreamAccount, request: Request) -> dict[str, Any]:
    await account.jetstream.slices.run(lambda: False, progress=lambda: 7)
    return {}


def never_end(owner: object, request: Request) -> Awaitable[dict[str, Any]]:
    return asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    "handler",
    [fail_at_once, fail_later, refuse_in_words_that_cannot_be_encoded, refuse_so_later, step_on_the_spot],
)
async def test_a_bug_in_a_handler_is_answered_and_logged_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: Any
) -> None:
    routes = (*jetstream_account.ROUTES, Route("STREAM.BUG.*", "bug_response", handler))
    monkeypatch.setattr(jetstream_account, "ROUTES", routes)
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        for _ in range(2):  # the stream is free again afterwards
            answer = await ask(client, "STREAM.BUG.A")
            assert answer["error"] == {"code": 500, "description": "internal error"}
        await client.close()
        log = server.log()
    assert f"[ERR] JetStream API request failed: {API}STREAM.BUG.A: Traceback" in log
    assert f"in {handler.__name__}" in log


async def test_a_request_that_cannot_be_answered_does_not_hold_up_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Route("STREAM.BUG.*", "bug_response", fail_later, on_error={"no_json": object()})
    monkeypatch.setattr(jetstream_account, "ROUTES", (*jetstream_account.ROUTES, broken))
    async with embedded_server(tmp_path) as server:
        client = await server.client()
        await client.publish(f"{API}STREAM.BUG.A", b"", reply="r")
        assert (await ask(client, "STREAM.INFO.A"))["error"]["err_code"] == 10059
        await client.close()


async def test_a_request_that_never_ends_is_logged_and_does_not_keep_the_server_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = (*jetstream_account.ROUTES, Route("STREAM.BUG.*", "bug_response", never_end))
    monkeypatch.setattr(jetstream_account, "ROUTES", routes)
    monkeypatch.setattr(api, "LONG_SECONDS", 0.01)
    monkeypatch.setattr(jetstream_account, "STOP_REQUESTS_SECONDS", 0.01)
    warning = f"[WRN] JetStream API request has not been answered for 0.02 seconds: {API}STREAM.BUG.A"
    async with asyncio.timeout(30):
        async with embedded_server(tmp_path) as server:
            client = await server.client()
            await client.publish(f"{API}STREAM.BUG.A", b"", reply="r")
            await client.publish(f"{API}STREAM.INFO.A", b"", reply="r")  # waits behind it
            while warning not in server.log():
                await asyncio.sleep(0.01)
            assert "error" not in await ask(client, "STREAM.CREATE.B", {"name": "B"})  # others do not
            await client.close()
        log = server.log()
    assert f"[WRN] JetStream Shutdown: gave up on a request that does not end: {API}STREAM.BUG.A" in log
    assert "JetStream Shutdown" in log


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_filtered_purges_of_what_is_empty_or_has_no_tail_are_answered(
    tmp_path: Path, storage: str
) -> None:
    with jetstream_server("headrace", tmp_path) as server:
        async with client_of(server) as client:
            config = {"name": "S", "subjects": ["T.*"], "storage": storage}
            await ask(client, "STREAM.CREATE.S", config)
            for body in ({"filter": "foo", "seq": 4}, {"filter": "bar", "keep": 2}, {"filter": "T.a"}):
                assert (await ask(client, "STREAM.PURGE.S", body))["purged"] == 0
            for _ in range(5):
                await client.request("T.a", b"x", timeout=30)
            assert (await ask(client, "STREAM.MSG.DELETE.S", {"seq": 5}))["success"]
            assert (await ask(client, "STREAM.PURGE.S", {"filter": "T.a"}))["purged"] == 4
            assert json.loads((await client.request("T.a", b"x", timeout=30)).data)["seq"] == 6
        server.process.terminate()
        server.process.wait(STOP_SECONDS)
