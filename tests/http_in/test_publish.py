"""One message per request."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path

import nats
import pytest

from headrace import Server
from headrace.errors import ConfigError, UsageError
from tests.certificates import Authority
from tests.clients import flush
from tests.http_in.requests import basic, post
from tests.http_in.streams import add_stream, count, message


def test_the_answer_says_where_the_message_is(server: Server) -> None:
    reply = post(f"{server.http_in_url}orders.eu", b"one litre of milk")
    assert (reply.status, reply.document) == (200, {"stream": "ORDERS", "seq": 1})
    assert reply.headers["content-type"] == "application/json"
    stored = message(server.url, 1)
    assert (stored.subject, stored.data, stored.headers) == ("orders.eu", b"one litre of milk", None)


@pytest.mark.parametrize("body", [b"", b"\0\r\n\xff", b"x" * 100_000])
def test_any_bytes_are_a_message(server: Server, body: bytes) -> None:
    assert post(f"{server.http_in_url}orders.eu", body).status == 200
    assert (message(server.url, 1).data or b"") == body


@pytest.mark.parametrize(
    ("subject", "headers", "error"),
    [
        ("$JS.API.STREAM.INFO.ORDERS", {}, "this subject is a request to the server, which no stream stores"),
        ("$SYS.REQ.USER.INFO", {}, "this subject is a request to the server, which no stream stores"),
        ("orders.eu", {"Nats-Trace-Only": "true"}, "the header Nats-Trace-Only cannot be used over HTTP"),
    ],
)
def test_what_nobody_would_acknowledge_is_refused_at_once(
    subject: str, headers: dict[str, str], error: str
) -> None:
    with Server(http_in={"port": -1, "timeout": "60s"}) as server:
        add_stream(server.url)
        begin = time.monotonic()
        reply = post(server.http_in_url + subject, b"", headers)
        assert (reply.status, reply.error.startswith(error)) == (400, True), reply.body
        assert time.monotonic() - begin < 30
        assert count(server.url) == 0


def test_a_body_may_come_in_chunks(server: Server) -> None:
    assert post(f"{server.http_in_url}orders.eu", iter([b"one ", b"litre"])).status == 200
    assert message(server.url, 1).data == b"one litre"


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("orders.a%20b", None),
        ("orders.%C3%A4", "orders.ä"),
        ("orders.a/b", "orders.a/b"),
        ("orders.%2e", None),
    ],
)
def test_subjects_are_percent_encoded(server: Server, path: str, subject: str | None) -> None:
    reply = post(server.http_in_url + path, b"x")
    assert reply.status == (200 if subject else 400)
    if subject:
        assert message(server.url, 1).subject == subject


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "a..b",
        "a.",
        ".a",
        "*",
        "a.*",
        ">",
        "a.>",
        "%20",
        "a%09b",
        "a%0d%0aPUB%20x%201",
        "%00",
        "a" * 3000,
    ],
)
def test_what_is_no_subject_is_refused(server: Server, path: str) -> None:
    reply = post(server.http_in_url + path, b"x")
    assert reply.status == 400
    assert "subject" in reply.error


def test_headers_of_streams_work(server: Server) -> None:
    url = f"{server.http_in_url}orders.eu"
    assert post(url, b"x", {"NATS-MSG-ID": "a"}).document == {"stream": "ORDERS", "seq": 1}
    assert post(url, b"x", {"nats-msg-id": "a"}).document == {"stream": "ORDERS", "seq": 1, "duplicate": True}
    reply = post(url, b"x", {"Nats-Expected-Last-Sequence": "7"})
    assert (reply.status, reply.document["error"]["err_code"]) == (409, 10071)
    assert post(url, b"x", {"Nats-Expected-Last-Sequence": "1"}).document["seq"] == 2
    assert post(url, b"x", {"Nats-Expected-Stream": "OTHER"}).status == 409
    assert post(url, b"x", {"Nats-Expected-Last-Msg-Id": "z"}).status == 409
    assert post(url, b"x", {"Nats-TTL": "1h"}).status == 400  # this stream has none
    assert count(server.url) == 2


def test_only_chosen_headers_become_those_of_the_message(server: Server) -> None:
    headers = {"x-source": "shop", "X-Other": "no", "Nats-My-Own": "yes", "Cookie": "no"}
    assert post(f"{server.http_in_url}orders.eu", b"x", headers).status == 200
    assert message(server.url, 1).headers == {"X-Source": "shop", "Nats-My-Own": "yes"}


@pytest.mark.parametrize("name", ["Nats-Batch-Id", "nats-batch-sequence", "Nats-Request-Info"])
def test_headers_that_need_more_than_one_answer_are_refused(server: Server, name: str) -> None:
    reply = post(f"{server.http_in_url}orders.eu", b"x", {name: "1"})
    assert (reply.status, count(server.url)) == (400, 0)


def test_without_a_stream_it_is_not_found(server: Server) -> None:
    reply = post(f"{server.http_in_url}other", b"x")
    assert reply.status == 404
    assert "no stream has this subject" in reply.error


async def test_a_subscriber_is_no_stream(server: Server) -> None:
    """Nor does its answer count."""
    client = await nats.connect(server.url)

    async def answer(received) -> None:
        await received.respond(b'{"hello": 1}')

    await client.subscribe("other.>", cb=answer)
    await client.subscribe("other.>", "queue", cb=answer)
    await flush(client)
    reply = await asyncio.to_thread(post, f"{server.http_in_url}other.x", b"x")
    assert reply.status == 404
    await client.close()


async def test_without_acknowledgement_subscribers_get_it(server: Server) -> None:
    client = await nats.connect(server.url)
    subscription = await client.subscribe("other")
    await flush(client)
    reply = await asyncio.to_thread(post, f"{server.http_in_url}other?ack=no", b"hello", {"X-Source": "a"})
    assert (reply.status, reply.document) == (202, {"accepted": True})
    received = await subscription.next_msg(timeout=30)
    assert (received.data, received.reply, received.headers) == (b"hello", "", {"X-Source": "a"})
    await client.close()


@pytest.mark.parametrize(
    "query", ["ack=maybe", "x=1", "ack", "ack=no&x=1", "&".join(["ack=no"] * 99), "%00=1"]
)
def test_other_parameters_are_refused(server: Server, query: str) -> None:
    assert post(f"{server.http_in_url}orders.eu?{query}", b"x").status == 400


def test_the_limits_of_server_and_stream_hold() -> None:
    with Server(http_in={"port": -1, "max_body": 3000}, max_payload=2000) as server:
        add_stream(server.url, max_msg_size=1000)
        url = f"{server.http_in_url}orders.eu"
        assert post(url, b"x" * 1000).status == 200
        too_large_for_the_stream = post(url, b"x" * 1001)
        assert too_large_for_the_stream.document["error"]["err_code"] == 10054
        assert too_large_for_the_stream.status == 413
        too_large_for_the_server = post(url, b"x" * 2001)
        assert (too_large_for_the_server.status, "2000 bytes" in too_large_for_the_server.error) == (
            413,
            True,
        )
        assert post(url, b"x" * 3001).status == 413
        assert post(url, b"x" * 900).document["seq"] == 2


def test_a_full_stream_is_unavailable() -> None:
    with Server(http_in=-1) as server:
        add_stream(server.url, max_msgs=1, discard="new")
        assert post(f"{server.http_in_url}orders.eu", b"x").status == 200
        reply = post(f"{server.http_in_url}orders.eu", b"x")
        assert (reply.status, reply.document["error"]["err_code"]) == (503, 10077)
        assert reply.headers["retry-after"] == "1"


def test_without_jetstream_it_is_unavailable() -> None:
    with Server(http_in=-1, jetstream=False) as server:
        assert post(f"{server.http_in_url}orders.eu", b"x").status == 503
        assert post(f"{server.http_in_url}orders.eu?ack=no", b"x").status == 202


def test_a_domain_is_named() -> None:
    with Server(http_in=-1, jetstream_domain="hub") as server:
        add_stream(server.url)
        reply = post(f"{server.http_in_url}orders.eu", b"x")
        assert reply.document == {"stream": "ORDERS", "seq": 1, "domain": "hub"}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_other_methods_are_refused(server: Server, method: str) -> None:
    reply = post(f"{server.http_in_url}orders.eu", b"", method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "POST, OPTIONS")


@pytest.mark.parametrize("path", ["/", "/publishx", "/varz", "/publish/../x", "//publish/a"])
def test_other_paths_are_not_found(server: Server, path: str) -> None:
    root = server.http_in_url.removesuffix("/publish/")
    assert post(root + path, b"x").status in (400, 404)


# -- browsers


def test_a_page_may_not_publish_unless_it_is_allowed() -> None:
    """Browsers send a simple POST without asking first; they always say where the page comes from."""
    with Server(http_in={"port": -1, "allowed_origins": ["https://shop.example"]}) as server:
        add_stream(server.url)
        url = f"{server.http_in_url}orders.eu"
        assert post(url, b"x", {"Origin": "https://evil.example"}).status == 403
        assert post(url, b"x", {"Origin": "null"}).status == 403
        assert count(server.url) == 0
        reply = post(url, b"x", {"Origin": "https://shop.example"})
        assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, "https://shop.example")
        preflight = post(url, b"", {"Origin": "https://shop.example"}, method="OPTIONS")
        assert (preflight.status, "POST" in preflight.headers["access-control-allow-methods"]) == (204, True)
        assert post(url, b"", {"Origin": "https://evil.example"}, method="OPTIONS").status == 403


def test_any_page_may_publish_if_all_are_allowed() -> None:
    with Server(http_in={"port": -1, "allowed_origins": "*"}) as server:
        add_stream(server.url)
        assert post(f"{server.http_in_url}orders.eu", b"x", {"Origin": "https://a.example"}).status == 200


# -- the port


def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("server")
    tls = {"cert_file": files.certificate, "key_file": files.key}
    with Server(http_in={"port": -1, "tls": tls}, user="anna", password="a") as server:
        add_stream(server.url, login={"user": "anna", "password": "a"})
        assert server.http_in_url.startswith("https://")
        context = ssl.create_default_context(cafile=authority.certificate)
        url = f"{server.http_in_url}orders.eu"
        assert post(url, b"x", basic("anna", "a"), tls=context).document == {"stream": "ORDERS", "seq": 1}


def test_it_is_off_unless_configured() -> None:
    with Server() as server, pytest.raises(UsageError, match="takes no messages over HTTP"):
        _ = server.http_in_url


def test_a_port_in_use_is_an_error() -> None:
    with Server(http_in=-1) as server:
        port = int(server.http_in_url.split(":")[2].partition("/")[0])
        with pytest.raises(UsageError, match="Unable to listen for messages over HTTP"):
            Server(http_in=port).start()


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"prot": 1}, 'unknown field "prot"'),
        ({"port": "x"}, "expected an integer"),
        ({"port": -1, "max_body": 0}, "greater than 0"),
        ({"port": -1, "timeout": "0s"}, "greater than 0"),
        ({"port": -1, "timeout": "soon"}, "error parsing timeout"),
        ({"port": -1, "headers": ["a b"]}, "is not the name of a header"),
        ({"port": -1, "headers": ["Authorization"]}, "holds secrets"),
        ({"port": -1, "headers": 7}, "expected an array"),
        (True, "expected port or host:port"),
    ],
)
def test_a_wrong_block_is_an_error(block: object, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Server(http_in=block)


def test_two_ports_cannot_be_the_same() -> None:
    with pytest.raises(ConfigError, match="http_in and port both use port 4222"):
        Server(port=4222, http_in=4222)


async def test_mapped_subjects_are_stored_and_what_nobody_acknowledges_is_unknown() -> None:
    """Where subjects are mapped, only the time tells that there is no stream."""
    mappings = {"old.orders": "orders.eu", "other": "elsewhere"}
    async with Server(http_in={"port": -1, "timeout": "100ms"}, mappings=mappings) as server:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        subscription = await client.subscribe("elsewhere")
        await flush(client)
        reply = await asyncio.to_thread(post, f"{server.http_in_url}other", b"x")
        assert (reply.status, "it may be stored" in reply.error) == (504, True)
        assert (await subscription.next_msg(timeout=30)).data == b"x"
        url = f"{server.http_in_url}old.orders"
        while (reply := await asyncio.to_thread(post, url, b"x", {"Nats-Msg-Id": "1"})).status == 504:
            pass  # a busy disk: to be repeated with the same id, as the documentation says
        assert reply.document["seq"] == 1
        assert (await client.jetstream().get_msg("ORDERS", 1)).subject == "orders.eu"
        await client.close()


def test_a_server_without_room_is_unavailable() -> None:
    with Server(http_in=-1, jetstream_max_store=100_000) as server:
        add_stream(server.url)
        statuses = [post(f"{server.http_in_url}orders.eu", b"x" * 30_000).status for _ in range(6)]
        assert (statuses[0], statuses[-1]) == (200, 503)
        assert set(statuses) == {200, 503}
        assert count(server.url) == statuses.count(200)
