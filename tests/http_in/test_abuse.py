"""Peers that mean harm: slow, endless, many at once, hostile; and what must not be seen (FAULTS 41, 42)."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import string
import threading
from pathlib import Path
from urllib.parse import urlsplit

import nats
import pytest

from headrace import Server
from headrace.http.peer import Bounds
from headrace.http_in import bodies
from tests.clients import flush
from tests.http_in.requests import NDJSON, basic, bearer, post
from tests.http_in.streams import add_stream, count

SECONDS = 30.0
CANARY = "c4nary"


def connect(server: Server) -> socket.socket:
    parts = urlsplit(server.http_in_url)
    return socket.create_connection((parts.hostname, parts.port), timeout=SECONDS)


def read_all(client: socket.socket) -> bytes:
    received = b""
    while piece := client.recv(65536):
        received += piece
    return received


def request(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    with connect(server) as client:
        last = request("/publish/orders.eu", b"99", "Connection: close")
        client.sendall(b"".join(request("/publish/orders.eu", b"%d" % k) for k in range(99)) + last)
        received = read_all(client)
    answers = [line for line in received.split(b"\n") if line.startswith(b"{")]
    assert answers == [b'{"stream":"ORDERS","seq":%d}' % (k + 1) for k in range(100)]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_request_may_come_in_pieces_of_any_size(server: Server, size: int) -> None:
    sent = request("/publish/orders.eu", b"hello", "Connection: close")
    with connect(server) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(sent), size):
            client.sendall(sent[at : at + size])
        assert read_all(client).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /publish/orders.eu HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /publish/orders.eu HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /publish/orders.eu HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST /publish/orders.eu HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /publish/orders.eu HTTP/1.1\r\nHost: x\r\nNats-Msg-Id: a\0b\r\nContent-Length: 0\r\n\r\n",
        b"POST /publish/orders.eu HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
        b"POST /publish/" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"CONNECT {}\r\nPUB orders.eu 1\r\nx\r\n",
    ],
)
def test_what_is_not_http_is_refused(server: Server, sent: bytes) -> None:
    with connect(server) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        received = read_all(client)
    assert received[:10] in (b"HTTP/1.1 4", b"")
    assert count(server.url) == 0


HEAD = b"POST /publish/orders.eu HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"Content-Length: 9000000\r\n\r\n", 413),
        (HEAD + b"Content-Length: 9000000\r\nExpect: 100-continue\r\n\r\n", 413),
        (HEAD + b"A: b\r\n" * 20_000 + b"\r\n", 431),
        (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ],
)
def test_what_is_refused_early_is_answered_in_json_and_is_the_last(
    server: Server, sent: bytes, status: int
) -> None:
    """Whatever follows: it may be a request that somebody else has smuggled in."""
    with connect(server) as client:
        client.sendall(sent + request("/publish/orders.smuggled", b"hi"))
        head, _, body = read_all(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body)["error"]["code"] == status
    assert json.loads(body)["error"]["description"]
    assert count(server.url) == 0


def test_a_body_that_comes_too_slowly_is_answered_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.http.server.Bounds", lambda: Bounds(body_seconds=0.05))
    with Server(http_in=-1) as server, connect(server) as client:
        client.sendall(HEAD + b"Content-Length: 10\r\n\r\nx")
        assert json.loads(read_all(client).partition(b"\r\n\r\n")[2])["error"]["code"] == 408


def test_a_body_that_does_not_come_is_not_a_message() -> None:
    """Its length is announced, and then the peer leaves."""
    with Server(http_in=-1) as server:
        add_stream(server.url)
        for sent in (b"", b"x" * 99):
            with connect(server) as client:
                head = b"POST /publish/orders.eu HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
                client.sendall(head + sent)
                client.shutdown(socket.SHUT_WR)
                assert not read_all(client).startswith(b"HTTP/1.1 2")
        assert count(server.url) == 0


def test_slow_bodies_keep_nobody_else_from_publishing(server: Server) -> None:
    slow = [connect(server) for _ in range(50)]
    try:
        for client in slow:
            client.sendall(b"POST /publish/orders.eu HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
        assert post(f"{server.http_in_url}orders.eu", b"quick").status == 200
    finally:
        for client in slow:
            client.close()
    assert count(server.url) == 1


async def test_all_bodies_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body counts until its message is answered, and here the test decides when that is."""
    monkeypatch.setattr(bodies, "BODIES_AT_ONCE", 1)
    with Server(http_in={"port": -1, "max_body": 100_000, "timeout": "60s"}, max_payload=200_000) as server:
        url = server.http_in_url
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        await client.jetstream().add_stream(name="HELD", subjects=["held"], no_ack=True)
        held = await client.subscribe("held")
        await flush(client)
        first = asyncio.create_task(asyncio.to_thread(post, f"{url}held", b"x" * 90_000))
        message = await held.next_msg(SECONDS)
        assert (await asyncio.to_thread(post, f"{url}orders.eu", b"y" * 50_000)).status == 503
        await message.respond(b'{"stream":"HELD","seq":1}')
        assert (await first).status == 200
        assert (await asyncio.to_thread(post, f"{url}orders.eu", b"y" * 50_000)).status == 200
        await client.close()


def test_one_peer_too_many_is_turned_away() -> None:
    with Server(http_in={"port": -1, "max_connections": 3}) as server:
        others = [connect(server) for _ in range(3)]
        try:
            for client in others:
                client.sendall(request("/publish/a?ack=no", b"x"))
                assert client.recv(12) == b"HTTP/1.1 202"
            with connect(server) as client:
                client.sendall(request("/publish/a?ack=no", b"x"))
                assert client.recv(12) == b"HTTP/1.1 503"
        finally:
            for client in others:
                client.close()


def test_many_at_once_are_all_answered(server: Server) -> None:
    """Each gets the answer to its own message."""
    seen: list[tuple[bytes, int]] = []

    def publish(worker: int) -> None:
        for k in range(20):
            reply = post(f"{server.http_in_url}orders.{worker}.{k}", b"x", {"Nats-Msg-Id": f"{worker}-{k}"})
            again = post(f"{server.http_in_url}orders.{worker}.{k}", b"x", {"Nats-Msg-Id": f"{worker}-{k}"})
            seen.append((b"", reply.document["seq"]))
            assert again.document == {**reply.document, "duplicate": True}

    workers = [threading.Thread(target=publish, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(seq for _, seq in seen) == list(range(1, 161))


NUMBERS = ["0", "-1", "9223372036854775807", "18446744073709551616", "1e9", "", "x", "%00", "1;2"]
PATHS = ["orders.eu", "orders..", "*", ">", "%", "%zz", "%ff", "$JS.API.INFO", "_INBOX.x", "a" * 2048]
QUERIES = ["", "?ack=no", "?ack=", "?", "?ack=no&ack=yes", "?%61ck=no", "?a=" + "b" * 5000]
NAMES = [
    "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Subject-Sequence", "Nats-TTL", "Nats-Rollup",
    "Nats-Msg-Id", "Nats-Schedule", "Nats-Incr", "X-Source", "Authorization", "Content-Type", "Expect",
]  # fmt: skip
VALUES = [
    *NUMBERS,
    "all",
    "sub",
    "application/x-ndjson",
    "Basic YTpi",
    "a" * 9000,
    "100-continue",
    "\xe4\xff",
]
EXPECTED = {200, 202, 400, 401, 403, 404, 405, 409, 413, 417, 503, 504}
BYTES = string.printable.encode() + b'{}[]":\n' * 10


def hostile_requests(chance: random.Random, times: int) -> list[tuple[str, str, dict[str, str], bytes]]:
    """Method, path, headers, body: any mixture of what is almost right."""
    made = []
    for _ in range(times):
        headers = {chance.choice(NAMES): chance.choice(VALUES) for _ in range(chance.randrange(4))}
        body = bytes(chance.choice(BYTES) for _ in range(chance.randrange(60)))
        target = chance.choice(PATHS) + chance.choice(QUERIES)
        made.append((chance.choice(["POST"] * 9 + ["GET"]), target, headers, body))
    return made


def test_hostile_requests_are_answered_and_the_server_stays_well(caplog: pytest.LogCaptureFixture) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    statuses: dict[int, int] = {}
    with Server(http_in={"port": -1, "timeout": "50ms", "headers": ["X-Source"]}) as server:
        add_stream(server.url)
        for method, path, headers, body in hostile_requests(random.Random(seed), 400):
            reply = post(server.http_in_url + path, body, headers, method=method)
            statuses[reply.status] = statuses.get(reply.status, 0) + 1
            assert reply.status in EXPECTED, (path, headers)
            assert b"Traceback" not in reply.body
    print(statuses)
    assert "Internal error" not in caplog.text


def test_no_secret_is_logged_or_answered(tmp_path: Path) -> None:
    log = tmp_path / "log"
    users = [{"user": "anna", "password": CANARY}]
    with Server(http_in=-1, users=users, log_file=str(log), debug=True, trace=True) as server:
        url = f"{server.http_in_url}orders.eu?ack=no"
        replies = [
            post(url, b"x", headers)
            for headers in (
                basic("anna", CANARY),
                basic("anna", f"{CANARY}-wrong"),
                basic(CANARY, "x") | {"Cookie": CANARY},
                bearer(CANARY),
                {"Authorization": f"Basic {CANARY}"},
                {"Authorization": f"Digest {CANARY}"},
                {**NDJSON, **bearer(CANARY)},
            )
        ]
    assert [reply.status for reply in replies] == [202, *[401] * 6]
    assert not any(CANARY.encode() in reply.body + repr(reply.headers).encode() for reply in replies)
    text = log.read_text()
    assert f'User "{CANARY}"' in text, "the name of a user is no secret"
    assert CANARY not in text.replace(f'User "{CANARY}"', "").replace(f'"user":"{CANARY}"', "").replace(
        f'"user": "{CANARY}"', ""
    )
