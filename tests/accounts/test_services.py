"""Services across accounts: how many answers come back, for how long, and what is measured."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from headrace.config.identity import AccountOptions, Latency, ServiceExport, ServiceImport, User
from tests.accounts.test_isolation import login
from tests.broker.conftest import RawClient, Running, Start
from tests.frames import Frame

LATENCY = Latency("results")


def started(start: Start, *exports: ServiceExport, share: bool = False) -> Running:
    """A exports, B imports all of it, and C imports that from B."""
    imports = tuple(ServiceImport("A", one.subject, one.subject, share) for one in exports)
    onwards = tuple(ServiceImport("B", one.subject, f"far.{one.subject}") for one in exports)
    again = tuple(ServiceExport(one.subject, response=one.response) for one in exports)
    return start(
        server_name="same",
        accounts=(
            AccountOptions("A", service_exports=exports),
            AccountOptions("B", service_imports=imports, service_exports=again),
            AccountOptions("C", service_imports=onwards),
        ),
        users=tuple(User(name, "x", account=name.upper()) for name in "abc"),
    )


def messages(frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if frame.operation in ("MSG", "HMSG")]


async def ask(service: RawClient, client: RawClient, subject: bytes = b"svc") -> Frame:
    """Send a request, and return it as the service got it."""
    await client.ask(b"PUB %b inbox 1\r\n?\r\n" % subject)
    (request,) = messages(await service.ask())
    return request


async def answer(service: RawClient, request: Frame, *bodies: bytes) -> None:
    await service.ask(b"".join(b"PUB %b %d\r\n%b\r\n" % (request.reply, len(body), body) for body in bodies))


def pending(running: Running, account: str = "A") -> int:
    return len(running.broker.services._responses[account])


@pytest.mark.parametrize("subject", [b"svc", b"far.svc"])
@pytest.mark.parametrize(
    ("response", "expected"),
    [("singleton", [b"1"]), ("stream", [b"1", b"2", b""]), ("chunked", [b"1", b"2", b""])],
)
async def test_as_many_answers_as_the_export_says(
    start: Start, response: Any, expected: list[bytes], subject: bytes
) -> None:
    running = started(start, ServiceExport("svc", response=response))
    service = await login(running, "a")
    client = await login(running, "c" if subject.startswith(b"far") else "b")
    await service.ask(b"SUB svc 1\r\n")
    await client.ask(b"SUB inbox 1\r\n")
    request = await ask(service, client, subject)
    assert request.reply.startswith(b"_R_.")
    assert request.subject == b"svc"
    await answer(service, request, b"1", b"2", b"", b"late")
    got = messages(await client.ask())
    assert [(frame.subject, frame.payload) for frame in got] == [(b"inbox", body) for body in expected]
    assert pending(running) == 0


async def test_answers_that_come_too_late_are_lost(start: Start) -> None:
    running = started(start, ServiceExport("svc", response="stream", response_threshold=1.0))
    service, client = await login(running, "a"), await login(running, "b")
    await service.ask(b"SUB svc 1\r\n")
    await client.ask(b"SUB inbox 1\r\n")
    request = await ask(service, client)
    await answer(service, request, b"1")
    await running.until(lambda: pending(running) == 0)
    await answer(service, request, b"2")
    assert [frame.payload for frame in messages(await client.ask())] == [b"1"]


async def test_an_answer_may_ask_back(start: Start) -> None:
    running = started(start, ServiceExport("svc", response="stream"))
    service, client = await login(running, "a"), await login(running, "b")
    await service.ask(b"SUB svc 1\r\nSUB back 2\r\n")
    await client.ask(b"SUB inbox 1\r\n")
    request = await ask(service, client)
    await service.ask(b"PUB %b back 1\r\n!\r\n" % request.reply)
    (got,) = messages(await client.ask())
    assert got.reply.startswith(b"_R_.")
    await answer(client, got, b"and back")
    assert [(frame.subject, frame.payload) for frame in messages(await service.ask())] == [
        (b"back", b"and back")
    ]


async def test_nobody_else_gets_an_answer(start: Start) -> None:
    """Not in the account of the service, nor in that of the client."""
    running = started(start, ServiceExport("svc"))
    service, client = await login(running, "a"), await login(running, "b")
    await service.ask(b"SUB svc 1\r\nSUB inbox 2\r\n")
    await client.ask(b"SUB inbox 1\r\nSUB _R_.> 2\r\n")
    request = await ask(service, client)
    assert await service.ask(b"PUB %b 2\r\nhi\r\n" % request.reply) == []
    assert [frame.sid for frame in messages(await client.ask())] == [b"1"]


# -- measurements


async def results(service: RawClient) -> list[dict[str, Any]]:
    return [
        json.loads(frame.payload) for frame in messages(await service.ask()) if frame.subject == b"results"
    ]


@pytest.mark.parametrize("share", [False, True])
async def test_an_answer_is_measured(start: Start, share: bool) -> None:
    running = started(start, ServiceExport("svc", latency=LATENCY), share=share)
    service, client = await login(running, "a"), await login(running, "b", name="me")
    await service.ask(b"SUB svc 1\r\n")
    await client.ask(b"SUB inbox 1\r\n")
    request = await ask(service, client)
    assert request.reply.endswith(b".T")
    await service.ask(b"SUB results 9\r\n")
    await service.send(b"PUB %b 1\r\n!\r\n" % request.reply)
    (found,) = await results(service)
    assert list(found) == [
        *(
            "type",
            "id",
            "timestamp",
            "status",
            "requestor",
            "responder",
            "start",
            "service",
            "system",
            "total",
        )
    ]
    assert (found["type"], found["status"]) == ("io.nats.server.metric.v1.service_latency", 200)
    assert found["requestor"]["acc"] == "B"
    assert found["requestor"].get("name") == ("me" if share else None)
    assert (found["responder"]["acc"], found["responder"]["user"]) == ("A", "a")
    assert found["total"] >= found["service"] >= 0


@pytest.mark.parametrize(
    ("status", "description"),
    [(400, "Bad Request"), (408, "Request Timeout"), (503, "Service Unavailable"), (504, "Service Timeout")],
)
async def test_what_is_not_answered_is_measured_too(start: Start, status: int, description: str) -> None:
    threshold = 0.05 if status == 504 else 0.0
    running = started(start, ServiceExport("svc", latency=LATENCY, response_threshold=threshold))
    service, client = await login(running, "a"), await login(running, "b")
    await service.ask(b"SUB results 9\r\n" + (b"SUB svc 1\r\n" if status != 503 else b""))
    await client.ask(b"SUB inbox 1\r\n")
    await client.ask(b"PUB svc 1\r\n?\r\n" if status == 400 else b"PUB svc inbox 1\r\n?\r\n")
    if status == 408:
        await client.close()
    found: list[dict[str, Any]] = []
    while not found:
        found = await results(service)
        await asyncio.sleep(0)
    (one,) = found
    assert (one["status"], one["description"]) == (status, description)
    assert (one["requestor"]["acc"], "responder" in one) == ("B", False)


@pytest.mark.parametrize(
    ("header", "is_measured"),
    [
        (b"K: v", False),
        (b"X-B3-Sampled: 1", True),
        (b"X-B3-Sampled: 0", False),
        (b"X-B3-TraceId: 80f198ee56343ba864fe8b2a57d3eff7", True),
        (b"B3: 80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90", True),
        (b"B3: 80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-0-05e3ac9a4f6e3b90", False),
        (b"B3: 0", False),
        (b"B3: 1", True),
        (b"Uber-Trace-Id: 479fefe9525eddb:5adb976bfc1f95c1:479fefe9525eddb:1", True),
        (b"Uber-Trace-Id: 479fefe9525eddb:5adb976bfc1f95c1:479fefe9525eddb:0", False),
        (b"Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", True),
        (b"Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", False),
        (b"Traceparent: nonsense", False),
    ],
)
async def test_headers_ask_for_a_measurement(start: Start, header: bytes, is_measured: bool) -> None:
    running = started(start, ServiceExport("svc", latency=Latency("results", 0)))
    service, client = await login(running, "a"), await login(running, "b")
    await service.ask(b"SUB results 9\r\nSUB svc 1\r\n")
    await client.ask(b"SUB inbox 1\r\n")
    headers = b"NATS/1.0\r\n" + header + b"\r\n\r\n"
    await client.ask(b"HPUB svc inbox %d %d\r\n%b\r\n" % (len(headers), len(headers), headers))
    (request,) = messages(await service.ask())
    await service.send(b"PUB %b 1\r\n!\r\n" % request.reply)
    found = await results(service)
    assert len(found) == is_measured
    if is_measured:
        name, _, value = header.decode().partition(": ")
        assert {key.lower(): shown for key, shown in found[0]["header"].items()} == {name.lower(): [value]}
