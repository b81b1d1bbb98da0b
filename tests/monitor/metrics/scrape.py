"""Scrapes, as Prometheus's own parsers read them, and a server with something of everything."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from nats.aio.client import Client
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from headrace.server import Server
from tests.clients import flush
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.fetch import fetch

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
HOSTILE = 'A"{x="1"}#,é%s☃'
Series = tuple[str, tuple[tuple[str, str], ...]]
Values = dict[Series, float]


def series(name: str, **labels: str) -> Series:
    return name, tuple(sorted(labels.items()))


def values_of(families: list[Metric]) -> Values:
    """Every value of a page, by its series. No series may be there twice."""
    found: Values = {}
    for family in families:
        for sample in family.samples:
            key = series(sample.name, **sample.labels)
            assert key not in found, key
            found[key] = sample.value
    return found


def parse(page: str, *, openmetrics: bool = False) -> list[Metric]:
    families = list((parse_openmetrics if openmetrics else parse_plain)(page))
    names = [family.name for family in families]
    assert len(set(names)) == len(names)
    return families


async def scrape(port: int, *, target: str = "/metrics", accept: str = "") -> list[Metric]:
    """The families of a page."""
    response = await fetch(port, target, accept=accept)
    assert response.status == 200, response.text
    is_openmetrics = response.headers["content-type"].startswith("application/openmetrics-text")
    assert is_openmetrics == bool(accept)
    return parse(response.text, openmetrics=is_openmetrics)


async def values(port: int, target: str = "/metrics") -> Values:
    return values_of(await scrape(port, target=target))


async def ask(client: Client, verb: str, body: object = None) -> dict[str, Any]:
    request = json.dumps(body).encode() if body is not None else b""
    answer: dict[str, Any] = json.loads((await client.request(f"$JS.API.{verb}", request, timeout=30)).data)
    assert "error" not in answer, answer
    return answer


async def create_stream(client: Client, name: str, **config: Any) -> None:
    await ask(client, f"STREAM.CREATE.{name}", {"name": name, **config})


async def create_consumer(client: Client, stream: str, name: str, **config: Any) -> None:
    hour = 3600 * 10**9  # nothing is redelivered, however slow the machine is
    config = {"durable_name": name, "ack_policy": "explicit", "ack_wait": hour, **config}
    body = {"stream_name": stream, "config": config}
    await ask(client, f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body)


async def report(client: Client, stream: str, **fields: Any) -> None:
    """What a landing query sends."""
    body = {"id": "q1", "stream": stream, "table": f"tables/{stream}", "seq": 0, "rows": 0, **fields}
    await client.publish(f"$HEADRACE.LANDING.{stream}", json.dumps(body).encode())
    await flush(client)


async def populated(
    start: Starter, connect: Connecter, directory: Path, **options: Any
) -> tuple[Server, Client]:
    """A server with streams, a mirror, sources, consumers and a landing, none of which changes by itself."""
    server = await start(jetstream=True, store_dir=str(directory / "store"), **options)
    client = await connect(server.broker.port)
    await create_stream(client, "ORDERS", subjects=["orders.>"], max_bytes=100_000, max_msgs=50)
    work = {"storage": "memory", "retention": "workqueue", "discard": "new"}
    await create_stream(client, HOSTILE, subjects=["hostile"], **work)
    await create_stream(client, "MIRROR", mirror={"name": "ORDERS"})
    twice = [{"name": "ORDERS", "filter_subject": f"orders.{n}"} for n in (1, 2)]
    await create_stream(client, "SOURCES", sources=[*twice, {"name": "NOWHERE"}])
    for number in range(10):
        await client.request(f"orders.{number}", b"payload", timeout=30)
    await create_consumer(client, "ORDERS", "pull")
    await create_consumer(client, "ORDERS", "push", deliver_subject="nobody")
    await create_consumer(client, HOSTILE, "c\"'☃")
    inbox = await client.subscribe("inbox")
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.ORDERS.pull", b'{"batch":3}', reply="inbox")
    for _ in range(3):
        message = await inbox.next_msg(timeout=30)
    await client.request(message.reply, b"+ACK", timeout=30)
    await client.publish("$JS.API.CONSUMER.MSG.NEXT.ORDERS.pull", b'{"batch":1}', reply="inbox")
    await inbox.next_msg(timeout=30)
    await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{HOSTILE}.c\"'☃", b"1", reply="inbox")
    await report(
        client,
        "ORDERS",
        table='lake\\x "y"',
        seq=7,
        rows=7,
        rows_per_second=3.5,
        deletions=2,
        dead_letters=1,
        state="failed",
    )
    copied = series("headrace_stream_messages", account="$G", stream="MIRROR")
    sourced = series("headrace_stream_messages", account="$G", stream="SOURCES")
    committed = series("headrace_commit_group_messages_sum")
    while True:
        now = await values(server.monitor.port)
        if (now[copied], now[sourced], now[committed]) == (10, 2, 22):
            return server, client
        await asyncio.sleep(0.02)
