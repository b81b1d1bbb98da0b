"""The views and acts as JSON: what they show is what the server has."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from datetime import datetime
from typing import Any

import nats
import pytest
from nats.js.api import RetentionPolicy, StreamConfig

from headrace.config.identity import AccountLimits, AccountOptions, User
from headrace.monitor.console.views import messages as browser
from headrace.server import Server
from tests.clients import flush
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.console.conftest import StreamServer, Visit, Visitor


async def test_the_overview_counts(streams: StreamServer, visit: Visit, connect: Connecter) -> None:
    server = await streams(server_name="mill")
    client = await connect(server.broker.port, name="feed")
    await client.jetstream().add_stream(name="ORDERS", subjects=["orders.*"])
    for _ in range(3):
        await client.jetstream().publish("orders.a", b"x")
    view = await (await visit(server)).view("overview", history=1)
    assert view["server"]["name"] == "mill"
    assert view["connections"] == 1
    assert view["slow_consumers"] == 0
    assert (view["streams"]["count"], view["streams"]["messages"]) == (1, 3)
    assert view["streams"]["problems"] == []
    assert view["sample"][1] >= 3
    assert view["sample"][5] >= 1  # groups were synced
    assert view["history"]


async def test_the_figures_of_an_account_are_its_own(
    streams: StreamServer, visit: Visit, connect: Connecter
) -> None:
    """Of clients that have left, too; and its limit, not that of the server."""
    accounts = (
        AccountOptions("SHOP", jetstream=AccountLimits(max_storage=1_000_000)),
        AccountOptions("OTHER", jetstream=AccountLimits()),
    )
    users = tuple(User(user=name, password="p", account=name.upper()) for name in ("shop", "other"))
    server = await streams(accounts=accounts, users=users, jetstream_max_store=50_000_000)
    shop, other = await visit(server), await visit(server)
    assert await shop.log_in(user="shop", password="p") == 200
    assert await other.log_in(user="other", password="p") == 200
    for so_far in (0, 100, 200):
        assert (await shop.view("overview"))["sample"][1] == so_far
        client = await connect(server.broker.port, user="shop", password="p")
        for _ in range(100):
            await client.publish("a", b"1234")
        await flush(client)
        view = await shop.view("overview")
        assert (view["sample"][1], view["sample"][3], view["connections"]) == (
            so_far + 100,
            4 * (so_far + 100),
            1,
        )
        await client.close()
        while (await shop.view("overview"))["connections"]:
            await asyncio.sleep(0.01)
    assert (await other.view("overview"))["sample"][1] == 0
    assert (await shop.view("overview"))["streams"]["max_storage"] == 1_000_000
    assert (await other.view("overview"))["streams"]["max_storage"] == -1


async def test_a_server_without_streams_says_so(start: Starter, visit: Visit) -> None:
    visitor = await visit(await start())
    assert (await visitor.view("overview"))["streams"] is None
    assert (await visitor.view("streams"))["is_off"]
    assert (await visitor.view("consumers"))["consumers"] == []
    assert (await visitor.view("buckets"))["buckets"] == []
    assert (await visitor.view("tables"))["tables"] == []
    status, document = await visitor.get("view/messages?account=$G&stream=S")
    assert (status, document["error"]["message"]) == (404, "This server runs without streams (JetStream).")


async def test_connections_are_sorted_filtered_and_paged(
    start: Starter, visit: Visit, connect: Connecter
) -> None:
    server = await start()
    visitor = await visit(server)
    for number in range(7):
        client = await connect(server.broker.port, name=f"client-{number}")
        for place in range(number):
            await client.subscribe(f"subject.{place}")
        await flush(client)
    page = await visitor.view("connections", sort="subscriptions", order="down", limit=3)
    assert [one["name"] for one in page["connections"]] == ["client-6", "client-5", "client-4"]
    assert (page["total"], page["matching"]) == (7, 7)
    page = await visitor.view("connections", sort="subscriptions", order="down", limit=3, offset=6)
    assert [one["name"] for one in page["connections"]] == ["client-0"]
    page = await visitor.view("connections", filter="CLIENT-3")
    assert [one["subscriptions"] for one in page["connections"]] == [3]
    cid = page["connections"][0]["cid"]
    detail = await visitor.view("connection", cid=cid)
    assert sorted(one["subject"] for one in detail["subscriptions"]) == [
        "subject.0",
        "subject.1",
        "subject.2",
    ]


async def test_a_connection_is_closed(start: Starter, visit: Visit, connect: Connecter) -> None:
    server = await start()
    visitor = await visit(server)
    closed = asyncio.Event()

    async def on_closed() -> None:
        closed.set()

    await connect(server.broker.port, name="victim", closed_cb=on_closed)
    (one,) = (await visitor.view("connections"))["connections"]
    await visitor.act("connection.close", cid=one["cid"])
    await closed.wait()
    assert (await visitor.view("connections"))["connections"] == []
    status, message = await visitor.refused("connection.close", cid=one["cid"])
    assert (status, message) == (404, f"There is no connection {one['cid']}. It may have been closed.")


# -- streams and messages


async def browse(visitor: Visitor, **parameters: Any) -> list[dict[str, Any]]:
    """All pages."""
    found: list[dict[str, Any]] = []
    page: dict[str, Any] = {"next": ""}
    while True:
        more = {"seq": page["next"]} if page["next"] else {}
        page = await visitor.view("messages", account="$G", stream="S", **{**parameters, **more})
        found += page["messages"]
        if not page["next"]:
            return found


async def fill(server: Server, count: int, seed: int) -> tuple[nats.NATS, list[dict[str, Any]]]:
    """A stream with gaps, and what is in it."""
    chance = random.Random(seed)
    client = await nats.connect(f"nats://127.0.0.1:{server.broker.port}")
    js = client.jetstream()
    await js.add_stream(name="S", subjects=["s.>"], max_msgs_per_subject=40)
    stored = []
    for number in range(count):
        subject = f"s.{chance.choice('abc')}.{chance.randrange(4)}"
        payload = chance.choice(
            [json.dumps({"n": number, "even": number % 2 == 0}).encode(), b"text", b"", b"\xff"]
        )
        ack = await js.publish(subject, payload)
        stored.append({"seq": ack.seq, "subject": subject, "payload": payload})
    for seq in chance.sample(range(1, count + 1), count // 5):
        await js.delete_msg("S", seq) if await _has(js, seq) else None
    return client, stored


async def _has(js: Any, seq: int) -> bool:
    try:
        await js.get_msg("S", seq)
    except nats.js.errors.NotFoundError:
        return False
    return True


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("budget", [20_000, 30])
async def test_the_browser_shows_what_matches(
    streams: StreamServer, visit: Visit, monkeypatch: pytest.MonkeyPatch, order: str, budget: int
) -> None:
    """Against a model, with every filter, in pages, with a budget that ends in the middle, too."""
    monkeypatch.setattr(browser, "MAX_MESSAGES_READ", budget)
    server = await streams()
    client, stored = await fill(server, 200, 7)
    js = client.jetstream()
    there = [one for one in stored if await _has(js, one["seq"])]
    assert 0 < len(there) < 200
    visitor = await visit(server)
    for subject in ("", "s.a.*", "s.b.2", "x.y"):
        for where in ("", "even = true", "n < 120 and n > 20"):
            expected = [
                one["seq"]
                for one in there
                if (not subject or subject == "s.>" or _matches(one["subject"], subject))
                and _passes(one["payload"], where)
            ]
            found = await browse(visitor, subject=subject, where=where, order=order, limit=20)
            sequences = [int(one["seq"]) for one in found]
            assert sequences == (expected[::-1] if order == "newest" else expected), (subject, where)
    payloads = {one["seq"]: one["payload"] for one in there}
    for one in await browse(visitor, limit=200):
        assert base64.b64decode(one["data"]) == payloads[int(one["seq"])]
    await client.close()


def _matches(subject: str, pattern: str) -> bool:
    tokens, wanted = subject.split("."), pattern.split(".")
    return len(tokens) == len(wanted) and all(b in ("*", a) for a, b in zip(tokens, wanted, strict=True))


def _passes(payload: bytes, where: str) -> bool:
    if not where:
        return True
    if not payload.startswith(b"{"):
        return False
    fields = json.loads(payload)
    return bool(fields["even"]) if where.startswith("even") else 20 < fields["n"] < 120


async def test_a_search_is_bounded_and_continues(
    streams: StreamServer, visit: Visit, connect: Connecter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "MAX_SEQUENCES_PASSED", 100)
    server = await streams()
    client = await connect(server.broker.port)
    js = client.jetstream()
    await js.add_stream(name="S", subjects=["s.*"])
    for number in range(500):
        await js.publish("s.rare" if number == 0 else "s.often", b"{}")
    visitor = await visit(server)
    page = await visitor.view("messages", account="$G", stream="S", where="x = 1", order="oldest")
    assert page["messages"] == []
    assert (page["scanned"], page["next"]) == (100, "101")
    assert await browse(visitor, where="x = 1") == []
    assert [one["seq"] for one in await browse(visitor, subject="s.rare")] == ["1"]


async def test_a_start_that_is_no_sequence_is_explained(streams: StreamServer, visit: Visit) -> None:
    visitor = await visit(await streams())
    await visitor.act("request", account="$G", subject="$JS.API.STREAM.CREATE.S", payload='{"name":"S"}')
    for wrong in ("abc", "-1", "1.5", "9" * 21):
        status, document = await visitor.get(
            "view/messages", params={"account": "$G", "stream": "S", "seq": wrong}
        )
        assert (status, document["error"]["message"]) == (400, '"Start at" is a sequence, such as 42.')


async def test_messages_between_times(streams: StreamServer, visit: Visit, connect: Connecter) -> None:
    server = await streams()
    client = await connect(server.broker.port)
    js = client.jetstream()
    await js.add_stream(name="S", subjects=["s"])
    for _ in range(5):
        await js.publish("s", b"")
        await asyncio.sleep(0.005)  # each in a millisecond of its own
    visitor = await visit(server)
    times = [datetime.fromisoformat(one["time"]).timestamp() for one in await browse(visitor, order="oldest")]
    third = int(times[2] * 1000)
    since = await browse(visitor, order="oldest", **{"from": third})
    assert [one["seq"] for one in since] == ["3", "4", "5"]
    assert [one["seq"] for one in await browse(visitor, order="oldest", to=third)] == ["1", "2", "3"]
    far = int(datetime(2999, 1, 1).timestamp() * 1000)
    assert await browse(visitor, **{"from": far}) == []
    assert len(await browse(visitor, to=far)) == 5
    assert len(await browse(visitor, to=2**64 - 1)) == 5


async def test_browsing_changes_nothing(streams: StreamServer, visit: Visit, connect: Connecter) -> None:
    """A work queue can be looked into: no consumer is made, and no message is taken."""
    server = await streams()
    client = await connect(server.broker.port)
    js = client.jetstream()
    await js.add_stream(StreamConfig(name="S", subjects=["s"], retention=RetentionPolicy.WORK_QUEUE))
    worker = await js.pull_subscribe("s", durable="worker")
    for _ in range(10):
        await js.publish("s", b"job")
    before = (await js.stream_info("S")).state
    visitor = await visit(server)
    assert len(await browse(visitor)) == 10
    await visitor.view("message", account="$G", stream="S", seq=4)
    await visitor.view("subjects", account="$G", stream="S")
    assert (await js.stream_info("S")).state == before
    assert before.consumer_count == 1
    assert len(await worker.fetch(10)) == 10


async def test_an_empty_stream_and_one_whose_messages_are_gone(
    streams: StreamServer, visit: Visit, connect: Connecter
) -> None:
    server = await streams()
    client = await connect(server.broker.port)
    js = client.jetstream()
    await js.add_stream(name="S", subjects=["s"])
    visitor = await visit(server)
    for order in ("newest", "oldest"):
        assert await browse(visitor, order=order) == []
    for _ in range(3):
        await js.publish("s", b"")
    await js.delete_msg("S", 3)  # the tail
    assert [one["seq"] for one in await browse(visitor)] == ["2", "1"]
    await js.purge_stream("S")
    for order in ("newest", "oldest"):
        assert await browse(visitor, order=order) == []
    for seq in (0, 1, 3, 4, 2**64 - 1):
        assert (await visitor.get(f"view/message?account=$G&stream=S&seq={seq}"))[0] == 404
    stream = await visitor.view("stream", account="$G", stream="S")
    assert (stream["messages"], stream["first_seq"], stream["last_seq"]) == (0, "4", "3")


async def test_streams_and_subjects_are_paged(
    streams: StreamServer, visit: Visit, connect: Connecter
) -> None:
    server = await streams()
    client = await connect(server.broker.port)
    js = client.jetstream()
    for number in range(5):
        await js.add_stream(name=f"S{number}", subjects=[f"s{number}.>"])
        for place in range(number * 10):
            await js.publish(f"s{number}.{place:02}", b"")
    visitor = await visit(server)
    page = await visitor.view("streams", sort="messages", order="down", limit=2)
    assert [(one["name"], one["messages"]) for one in page["streams"]] == [("S4", 40), ("S3", 30)]
    assert page["total"] == 5
    assert [one["name"] for one in (await visitor.view("streams", filter="S2."))["streams"]] == ["S2"]
    page = await visitor.view("subjects", account="$G", stream="S4", offset=38, limit=10)
    assert (page["total"], [one["subject"] for one in page["subjects"]]) == (40, ["s4.38", "s4.39"])
    page = await visitor.view("subjects", account="$G", stream="S4", filter="s4.07")
    assert page["subjects"] == [{"subject": "s4.07", "messages": 1}]


async def test_messages_are_deleted_and_streams_purged(
    streams: StreamServer, visit: Visit, connect: Connecter
) -> None:
    server = await streams()
    client = await connect(server.broker.port)
    js = client.jetstream()
    await js.add_stream(name="S", subjects=["s.*"])
    for number in range(10):
        await js.publish(f"s.{number % 2}", b"")
    visitor = await visit(server)
    where = {"account": "$G", "stream": "S"}
    await visitor.act("message.delete", **where, seq="4")
    assert (await js.stream_info("S")).state.messages == 9
    status, message = await visitor.refused("message.delete", **where, seq="4")
    assert (status, message) == (400, "sequence 4 not found")
    for wrong in ("", "s", "S "):
        status, message = await visitor.refused("stream.purge", **where, confirm=wrong)
        assert (status, message) == (400, "Type the name of the stream to confirm.")
    assert (await js.stream_info("S")).state.messages == 9
    purged = await visitor.act("stream.purge", **where, confirm="S", filter="s.1", keep="1")
    assert purged["purged"] == 3
    await visitor.act("stream.purge", **where, confirm="S")
    assert (await js.stream_info("S")).state.messages == 0
    await visitor.act("stream.delete", **where, confirm="S")
    assert (await visitor.refused("stream.purge", **where, confirm="S")) == (404, "stream not found")


async def test_consumers_are_paused_reset_and_deleted(
    streams: StreamServer, visit: Visit, connect: Connecter
) -> None:
    server = await streams()
    client = await connect(server.broker.port)
    js = client.jetstream()
    await js.add_stream(name="S", subjects=["s"])
    worker = await js.pull_subscribe("s", durable="worker")
    for _ in range(10):
        await js.publish("s", b"")
    fetched = await worker.fetch(6)
    for message in fetched[:4]:
        await message.ack_sync()
    visitor = await visit(server)
    of = {"account": "$G", "stream": "S", "consumer": "worker"}

    async def row() -> dict[str, Any]:
        (found,) = (await visitor.view("consumers", account="$G", stream="S"))["consumers"]
        return dict(found)

    shown = await row()
    assert (shown["pending"], shown["ack_pending"], shown["ack_floor"]) == (4, 2, "4")
    assert shown["last_used"] > 0
    await visitor.act("consumer.pause", **of, seconds=3600)
    assert (await row())["paused"]
    await visitor.act("consumer.resume", **of)
    assert not (await row())["paused"]
    await visitor.act("consumer.reset", **of)
    shown = await row()
    assert (shown["pending"], shown["ack_pending"]) == (6, 0)
    status, message = await visitor.refused("consumer.pause", **of, seconds=0)
    assert status == 400
    status, message = await visitor.refused("consumer.unpin", **of, group="g")
    assert status == 400
    await visitor.act("consumer.delete", **of)
    assert (await visitor.view("consumers"))["consumers"] == []
    assert await visitor.refused("consumer.delete", **of) == (404, "consumer not found")
    assert (await visitor.refused("consumer.reset", **of))[0] == 503


async def test_publishing_and_requests(streams: StreamServer, visit: Visit, connect: Connecter) -> None:
    server = await streams(max_payload=10_000)
    client = await connect(server.broker.port)
    await client.jetstream().add_stream(name="S", subjects=["s.*"])
    visitor = await visit(server)
    body = {
        "account": "$G",
        "subject": "s.1",
        "payload": "héllo",
        "headers": [["Nats-Msg-Id", "1"], ["X", "y z"]],
    }
    assert (await visitor.act("publish", **body))["seq"] == "1"
    assert (await visitor.act("publish", **body))["duplicate"]
    message = await client.jetstream().get_msg("S", 1)
    assert (message.data, message.headers) == ("héllo".encode(), {"Nats-Msg-Id": "1", "X": "y z"})
    assert not (await visitor.act("publish", account="$G", subject="nobody"))["delivered"]

    async def answer(request: Any) -> None:
        if request.reply:
            await request.respond(b"\x00" + request.data)

    await client.subscribe("ask", cb=answer)
    await flush(client)
    assert (await visitor.act("publish", account="$G", subject="ask"))["delivered"]
    reply = await visitor.act("request", account="$G", subject="ask", payload="1")
    assert base64.b64decode(reply["data"]) == b"\x001"
    assert (await visitor.refused("request", account="$G", subject="nobody"))[0] == 503

    async def keep_silent(request: Any) -> None: ...

    await client.subscribe("silent", cb=keep_silent)
    await flush(client)
    assert (await visitor.refused("request", account="$G", subject="silent", seconds=0.05))[0] == 504
    large = "x" * (server.options.max_payload + 1)
    assert (await visitor.refused("publish", account="$G", subject="s.1", payload=large))[0] == 413


async def test_tables_show_what_queries_report(
    streams: StreamServer, visit: Visit, connect: Connecter
) -> None:
    server = await streams()
    client = await connect(server.broker.port)
    await client.jetstream().add_stream(name="ORDERS", subjects=["orders"])
    for _ in range(10):
        await client.jetstream().publish("orders", b"")
    report = {
        "id": "q1",
        "stream": "ORDERS",
        "table": "tables/orders",
        "format": "delta",
        "state": "running",
        "seq": 7,
        "batch": 3,
        "rows": 7,
        "rows_per_second": 3.5,
        "deletions": 5,
        "dead_letters": 2,
        "every": 10,
        "time": "2026-11-16T12:00:00Z",
    }
    await client.publish("$HEADRACE.LANDING.ORDERS", json.dumps(report).encode())
    await client.publish("$HEADRACE.LANDING.ORDERS", b'{"id": "<broken>"')
    await flush(client)
    visitor = await visit(server)
    (row,) = (await visitor.view("tables"))["tables"]
    assert (row["table"], row["state"], row["lag"], row["dead_letters"]) == ("tables/orders", "running", 3, 2)
    assert (row["rows_per_second"], row["deletions"]) == (3.5, 5)
    assert (await visitor.view("tables", filter="nothing"))["tables"] == []
