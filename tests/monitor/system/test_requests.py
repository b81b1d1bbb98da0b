"""The requests of the system account, at nats-server and at headrace: answers, errors and silences agree."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.clients import flush
from tests.monitor.fetch import fetch
from tests.monitor.system.bodies import ACCOUNT_OPTIONS, BODIES, SERVER_OPTIONS, bodies_of
from tests.monitor.test_parameters import VOLATILE, kind_of, normalise, populated_server

REQUESTS_AT_ONCE = 200
FENCE = "$SYS.REQ.ACCOUNT.PING.STATZ"
"""Answered in every account, after all that was asked before it."""
NSUBS = "$SYS.REQ.ACCOUNT.NSUBS"
FLAGS = {"flags", "seq", "time", "id", "timestamp"}
# nats-server shows queues, the memory of Go, and subscriptions of its own.
ONLY_THE_FORM = {"EXPVARZ", "IPQUEUESZ"}

Asked = list[tuple[str, bytes]]


class Requester:
    """Asks many things at once, and knows what was not answered."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, requests: Asked, headers: dict[str, str] | None = None) -> list[list[Msg]]:
        """All answers to each request."""
        answers: list[list[Msg]] = []
        for start in range(0, len(requests), REQUESTS_AT_ONCE):
            answers += await self._ask_some(requests[start : start + REQUESTS_AT_ONCE], headers)
        return answers

    async def _ask_some(self, requests: Asked, headers: dict[str, str] | None) -> list[list[Msg]]:
        client, inbox = self._client, self._client.new_inbox()
        answers: list[list[Msg]] = [[] for _ in requests]
        done = asyncio.Event()

        async def receive(message: Msg) -> None:
            place = message.subject.rpartition(".")[2]
            if place == "fence":
                done.set()
            else:
                answers[int(place)].append(message)

        subscription = await client.subscribe(f"{inbox}.*", cb=receive)
        for place, (subject, body) in enumerate(requests):
            await client.publish(subject, body, reply=f"{inbox}.{place}", headers=headers)
        await client.publish(FENCE, b"", reply=f"{inbox}.fence")
        await asyncio.wait_for(done.wait(), 30)
        await subscription.unsubscribe()
        return answers


@asynccontextmanager
async def requester(url: str, user: str) -> AsyncIterator[Requester]:
    client = await nats.connect(url, user=user, password=user)
    try:
        yield Requester(client)
    finally:
        await client.close()


def comparable(subject: str, answers: list[Msg]) -> Any:
    """What is compared of the answers to one request: usually there is one.

    Two subscriptions of nats-server match FENCE, so that it complains twice about a body.
    """
    compared = [comparable_answer(subject.rpartition(".")[2], answer) for answer in answers]
    return compared[:1] if subject == FENCE else compared


def comparable_answer(kind: str, answer: Msg) -> Any:
    if not answer.data:
        return answer.headers  # no responders
    document = json.loads(answer.data)
    if "server" in document:
        document["server"] = {
            name: kind_of(value) if name in FLAGS else value
            for name, value in document["server"].items()
            if name != "feature_flags"
        }
    data = document.get("data")
    if kind in ONLY_THE_FORM and data is not None:
        document["data"] = kind_of(data)
    elif kind == "SUBSZ" and data:
        data.pop("subscriptions_list", None)
        data["total"] = kind_of(data["total"])
    document = count_only(document)
    return [
        (name, kind_of(value) if name in FLAGS | VOLATILE else normalise(value))
        for name, value in document.items()
    ]


def count_only(value: Any) -> Any:
    """Messages are counted, and every request is one."""
    if isinstance(value, list):
        return [count_only(item) for item in value]
    if isinstance(value, dict):
        return {name: kind_of(item) if name == "msgs" else count_only(item) for name, item in value.items()}
    return value


async def differences(requests: Asked, user: str, urls: list[str]) -> dict[Any, Any]:
    found: list[list[list[Msg]]] = []
    for url in urls:
        async with requester(url, user) as asking:
            found.append(await asking.ask(requests))
    return {
        request: (expected, actual)
        for request, one, other in zip(requests, *found, strict=True)
        if (expected := comparable(request[0], one)) != (actual := comparable(request[0], other))
    }


@asynccontextmanager
async def both(directory: Path) -> AsyncIterator[list[str]]:
    """The addresses of nats-server and of headrace, with the same accounts, clients and streams."""
    async with (
        populated_server("nats-server", directory) as (_, reference),
        populated_server("headrace", directory) as (_, ours),
    ):
        yield [reference, ours]


def at_server(kinds: dict[str, Any], seed: int, combinations: int) -> Asked:
    choose = random.Random(seed)
    return [
        (f"$SYS.REQ.SERVER.PING.{kind}", body)
        for kind, options in kinds.items()
        for body in bodies_of(options, choose, combinations)
    ]


async def test_requests_about_the_server_are_answered_as_by_nats_server(tmp_path: Path) -> None:
    requests = at_server(SERVER_OPTIONS, seed=15, combinations=20)
    async with both(tmp_path) as urls:
        assert await differences(requests, "s", urls) == {}


async def test_requests_about_accounts_are_answered_as_by_nats_server(tmp_path: Path) -> None:
    choose = random.Random(16)
    requests = [
        (f"$SYS.REQ.ACCOUNT.{account}.{kind}", body)
        for kind, options in ACCOUNT_OPTIONS.items()
        for account in ("A", "B", "$G", "nobody", "PING")
        for body in (bodies_of(options, choose, 20) if account == "A" else [b"", b"{}", b"x"])
    ]
    async with both(tmp_path) as urls:
        assert await differences(requests, "s", urls) == {}


async def test_subscriptions_are_counted_as_by_nats_server(tmp_path: Path) -> None:
    subjects = ["", "x", "x.y", "x.*", "*", "*.*", "x.>", ">", "o.1", "nobody", "a..b", "$JS.API.INFO"]
    queues = [{}, {"queue": None}, {"queue": ""}] + [
        {"queue": base64.b64encode(name).decode()} for name in (b"w", b"nobody")
    ]
    bodies = [
        {"acc": account, "subject": subject, **queue}
        for account in ("A", "B", "SYS", "$G", "nobody", "")
        for subject in subjects
        for queue in queues
    ]
    bad = [b"", b"{", b"[]", b"{}", b"null", b'{"acc": 5}', b'{"acc": "A", "subject": "x", "queue": "w"}']
    requests = [(NSUBS, body) for body in (*(json.dumps(one).encode() for one in bodies), *bad)]
    async with both(tmp_path) as urls:
        found = []
        for url in urls:
            client = await nats.connect(url, user="a", password="a")
            for subject, queue in (("x", ""), ("x", "w"), ("x", "w"), ("x", "v"), ("x.*", ""), ("o.1", "w")):
                await client.subscribe(subject, queue=queue)
            await flush(client)
            async with requester(url, "s") as asking:
                found.append([[one.data for one in answers] for answers in await asking.ask(requests)])
            await client.close()
    assert dict(zip(requests, found[1], strict=True)) == dict(zip(requests, found[0], strict=True))
    assert found[0][requests.index((NSUBS, b'{"acc": "A", "subject": "x"}'))] == [b"4"]


async def test_a_server_is_asked_by_its_id_as_well(tmp_path: Path) -> None:
    """RELOAD, KICK and LDM only so."""
    async with (
        populated_server("nats-server", tmp_path) as (reference, reference_url),
        populated_server("headrace", tmp_path) as (ours, our_url),
    ):
        found = []
        for port, url in ((reference, reference_url), (ours, our_url)):
            name = (await fetch(port, "/varz")).json["server_id"]
            requests = [
                (f"$SYS.REQ.SERVER.{name}.{kind}", body)
                for kind in SERVER_OPTIONS
                for body in (BODIES if kind in ("RELOAD", "KICK", "LDM") else BODIES[:2])
            ]
            async with requester(url, "s") as asking:
                answers = await asking.ask(requests)
            found.append(
                [comparable(*each) for each in zip((one for one, _ in requests), answers, strict=True)]
            )
        assert found[0] == found[1]


async def test_statsz_is_answered_as_by_nats_server(tmp_path: Path) -> None:
    """They have a line of their own in nats-server, so each of them waits for its answer."""
    bodies = [b"", b"{}", b"x", b'{"tags":1}', b'{"tags":["a:b"]}', b'{"server_name":"on"}']
    async with both(tmp_path) as urls:
        found = []
        for url in urls:
            client = await nats.connect(url, user="s", password="s")
            found.append(
                [
                    comparable_answer("STATSZ", await client.request(subject, body, timeout=30))
                    for subject in ("$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.STATSZ")
                    for body in bodies
                ]
            )
            await client.close()
        assert found[0] == found[1]


async def test_there_are_no_profiles_of_go(tmp_path: Path) -> None:
    bodies = [
        b"",
        b'{"name":"zz"}',
        b'{"name":"cpu"}',
        b'{"name":"cpu","duration":15000000001}',
        b'{"name":1}',
    ]
    async with both(tmp_path) as urls:
        found = []
        for url in urls:
            client = await nats.connect(url, user="s", password="s")
            subject = "$SYS.REQ.SERVER.PING.PROFILEZ"
            found.append(
                [comparable_answer("", await client.request(subject, body, timeout=30)) for body in bodies]
            )
            await client.close()
        assert found[0] == found[1]


async def test_others_see_their_own_account_and_nothing_else(tmp_path: Path) -> None:
    choose = random.Random(17)
    own = [
        (subject, body)
        for subject in ("$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.SERVER.PING.CONNZ")
        for body in bodies_of(ACCOUNT_OPTIONS["CONNZ"], choose, 20)
    ]
    own += [("$SYS.REQ.ACCOUNT.PING.STATZ", body) for body in bodies_of(ACCOUNT_OPTIONS["STATZ"], choose, 20)]
    closed = [("$SYS.REQ.SERVER.PING", b"")]
    closed += [(f"$SYS.REQ.SERVER.PING.{kind}", b"") for kind in SERVER_OPTIONS if kind != "CONNZ"]
    closed += [
        (f"$SYS.REQ.ACCOUNT.{account}.{kind}", b"")
        for account in ("A", "B", "SYS", "PING")
        for kind in ACCOUNT_OPTIONS
        if (account, kind) not in (("PING", "CONNZ"), ("PING", "STATZ"))
    ]
    async with both(tmp_path) as urls:
        assert await differences(own + closed, "a", urls) == {}
        async with requester(urls[1], "a") as asking:
            answers = await asking.ask(own)
            for answer in (message for messages in answers for message in messages):
                data = json.loads(answer.data).get("data") or {}
                assert {one.get("account", "A") for one in data.get("connections") or ()} <= {"A"}
                assert {one["acc"] for one in data.get("account_statz") or ()} <= {"A"}
            for messages in await asking.ask(closed):
                assert [(message.headers or {}).get("Status") for message in messages] == ["503"]
