"""/metrics is limited, whatever there is; valid, whatever names are; consistent, whatever happens."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.monitor.metrics import page
from headrace.monitor.metrics.exposition import OPENMETRICS as OPEN
from headrace.monitor.metrics.exposition import PLAIN, Exposition
from headrace.monitor.metrics.families import Family, Table, gauge
from headrace.monitor.metrics.histogram import Histogram
from headrace.monitor.metrics.loop_stalls import LoopStalls
from headrace.monitor.metrics.selection import Limits
from tests.clients import flush
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.fetch import fetch, read_response
from tests.monitor.metrics.scrape import (
    ask,
    create_consumer,
    create_stream,
    parse,
    populated,
    scrape,
    series,
    values,
    values_of,
)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "NONSENSE"])
async def test_only_get_and_head_are_answered(method: str, start: Starter) -> None:
    server = await start()
    refused = await fetch(server.monitor.port, "/metrics", method=method)
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


async def test_head_has_no_body_and_paths_are_exact(start: Starter) -> None:
    server = await start()
    head = await fetch(server.monitor.port, "/metrics", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert head.headers["x-content-type-options"] == "nosniff"
    for target, status in {"/metrics/": 404, "/metrics/x": 404, "/Metrics": 404, "/%6detrics": 200}.items():
        assert (await fetch(server.monitor.port, target)).status == status
    assert (await fetch(server.monitor.port, "/varz")).json["http_req_stats"]["/metrics"] == 2


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\nhuge",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nslow",
        b"GET /metrics?streams=%00&consumers=%ff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metrics?" + b"streams=1&" * 1000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: "
        + b"application/openmetrics-text," * 1000
        + b"\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20,
    ],
)
async def test_odd_requests_are_answered_and_harm_nobody(
    request_: bytes, start: Starter, connect: Connecter, tmp_path: Path
) -> None:
    server, _ = await populated(start, connect, tmp_path)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    writer.write(request_)
    statuses, rest = [], bytearray()
    for _ in range(request_.count(b"GET")):
        statuses.append((await read_response(reader, rest=rest)).status)
    assert set(statuses) <= {200, 400}
    writer.close()
    assert (await fetch(server.monitor.port, "/metrics")).status == 200
    server.logger.flush()
    assert "Internal error" not in (tmp_path / "server.logger").read_text()


async def test_a_scraper_that_leaves_in_the_middle_ends_the_page(
    start: Starter, connect: Connecter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()

    def endless(*_: object) -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
        finally:
            ended.set()

    server, _ = await populated(start, connect, tmp_path)
    monkeypatch.setattr(page, "write_page", endless)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.monitor.port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readexactly(100_000)
    writer.transport.abort()
    async with asyncio.timeout(30):
        await ended.wait()
    monkeypatch.undo()
    assert (await fetch(server.monitor.port, "/metrics")).status == 200


async def test_the_base_path_is_before_it(start: Starter) -> None:
    server = await start(http_base_path="/mill")
    assert (await fetch(server.monitor.port, "/mill/metrics")).status == 200
    assert (await fetch(server.monitor.port, "/metrics")).status == 404


@pytest.mark.parametrize(
    "query", ["streams=x", "streams=-1", "consumers=1e9", "streams=18446744073709551616"]
)
async def test_limits_that_are_not_numbers_are_refused(query: str, start: Starter) -> None:
    server = await start()
    response = await fetch(server.monitor.port, f"/metrics?{query}")
    assert response.status == 400
    assert "Error decoding uint64" in response.text


async def test_the_oldest_streams_and_consumers_stay_and_the_page_says_what_it_left_out(
    start: Starter, connect: Connecter, tmp_path: Path
) -> None:
    server = await start(jetstream=True, store_dir=str(tmp_path))
    client = await connect(server.broker.port)
    for name in "ZYX":  # by age, not by name
        await create_stream(client, name, subjects=[name], storage="memory")
        for number in range(2):
            await create_consumer(client, name, f"c{number}")
    await create_stream(client, "A", mirror={"name": "Z"}, storage="memory")

    async def shown(limits: str) -> tuple[list[str], list[str], list[float]]:
        found = await values(server.monitor.port, f"/metrics?{limits}")
        streams = [dict(key[1])["stream"] for key in found if key[0] == "headrace_stream_messages"]
        consumers = [
            "".join(dict(key[1])[label] for label in ("stream", "consumer"))
            for key in found
            if key[0] == "headrace_consumer_pending_messages"
        ]
        kinds = ("streams", "consumers", "origins")
        return streams, consumers, [found[series("headrace_metrics_cut", kind=kind)] for kind in kinds]

    everything = ["Zc0", "Zc1", "Yc0", "Yc1", "Xc0", "Xc1"]
    assert await shown("") == (["Z", "Y", "X", "A"], everything, [0, 0, 0])
    assert await shown("streams=2") == (["Z", "Y"], everything[:4], [2, 2, 0])
    assert await shown("streams=3&consumers=1") == (["Z", "Y", "X"], ["Zc0"], [1, 5, 0])
    assert await shown("streams=0") == ([], [], [4, 6, 0])
    assert await shown("consumers=0") == (["Z", "Y", "X", "A"], [], [0, 6, 0])
    assert await shown("streams=18446744073709551615") == (["Z", "Y", "X", "A"], everything, [0, 0, 0])
    await create_consumer(client, "Z", "a")  # the newest gives way to none of those before it
    assert await shown("consumers=6") == (["Z", "Y", "X", "A"], everything, [0, 1, 0])


async def test_what_comes_and_goes_during_a_scrape_leaves_a_valid_page(
    start: Starter, connect: Connecter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two pieces something is deleted, re-created or published."""
    monkeypatch.setattr(page, "READ_AT_ONCE", 2)
    monkeypatch.setattr(page, "LINES_AT_ONCE", 3)
    server = await start(jetstream=True, store_dir=str(tmp_path))
    client = await connect(server.broker.port)
    seeded = random.Random(14)
    names = [f"S{number}" for number in range(8)]

    async def change() -> None:
        name = seeded.choice(names)
        if name in server.jetstream.accounts["$G"].streams:
            verbs = [f"STREAM.DELETE.{name}", f"STREAM.PURGE.{name}", f"CONSUMER.DELETE.{name}.c"]
            verb = seeded.choice(verbs)
            if verb.endswith(".c") and not server.jetstream.accounts["$G"].streams[name].consumers:
                await create_consumer(client, name, "c")
            else:
                await ask(client, verb)
        else:
            earlier = seeded.choice(names[: names.index(name)] or ["none"])  # so that there is no cycle
            mirror = {"mirror": {"name": earlier}}
            await create_stream(
                client, name, **seeded.choice([mirror, {"subjects": [name]}]), storage="memory"
            )

    for _ in range(20):
        await change()
    for exposition in [PLAIN, OPEN] * 4:
        pieces = []
        for piece in page.write_page(server.monitor.context, exposition, Limits(streams=6, consumers=4)):
            pieces.append(piece)
            await change()
        families = parse(b"".join(pieces).decode(), openmetrics=exposition is OPEN)
        found = values_of(families)
        per_stream: dict[str, set[str]] = {}
        for name, labels in found:
            if name in ("headrace_stream_messages", "headrace_stream_bytes", "headrace_stream_last_sequence"):
                per_stream.setdefault(name, set()).add(dict(labels)["stream"])
        assert len({frozenset(streams) for streams in per_stream.values()}) <= 1


async def test_counters_never_go_backwards(start: Starter, connect: Connecter, tmp_path: Path) -> None:
    server, client = await populated(start, connect, tmp_path)
    before: dict[object, float] = {}
    for number in range(10):
        await client.publish("orders.1", b"x" * number)
        await (await connect(server.broker.port)).close()
        if number == 5:
            await ask(client, "STREAM.DELETE.ORDERS")
        await flush(client)
        families = await scrape(server.monitor.port)
        now = values_of([family for family in families if family.type in ("counter", "histogram")])
        assert not {key: (before[key], value) for key, value in now.items() if value < before.get(key, 0)}
        assert set(before) - set(now) <= {key for key in before if "headrace_landing" in str(key)}
        before = dict(now)
    assert before[series("headrace_connections_accepted_total")] == 11


LABELS: Table[tuple[str, str]] = Table(
    ("account", "stream"),
    lambda thing: thing,
    (gauge("headrace_x", "An x.", lambda thing: len(thing[0])),),
)
Texts = st.text(st.characters(codec="utf-8"), max_size=20)


@pytest.mark.parametrize("exposition", [PLAIN, OPEN])
@given(things=st.lists(st.tuples(Texts, Texts), unique=True, max_size=5))
def test_whatever_names_are_they_are_read_as_they_were(
    exposition: Exposition, things: list[tuple[str, str]]
) -> None:
    written = b"".join(page.write_table(exposition, LABELS, things)) + exposition.end
    (family,) = parse(written.decode(), openmetrics=exposition is OPEN)
    read = [((sample.labels["account"], sample.labels["stream"]), sample.value) for sample in family.samples]
    assert read == [(thing, float(len(thing[0]))) for thing in things]


def test_names_that_are_not_unicode_do_not_break_the_page() -> None:
    written = b"".join(page.write_table(PLAIN, LABELS, [("\udcff", "s")]))
    (family,) = parse(written.decode())
    assert family.samples[0].labels == {"account": "?", "stream": "s"}


@given(values=st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 1e9]), max_size=30))
def test_a_histogram_counts_each_value_up_to_the_bounds_above_it(values: list[float]) -> None:
    histogram = Histogram((1.0, 2.0))
    for value in values:
        histogram.observe(value)
    family = Family("headrace_x_seconds", "An x.", "histogram")
    written = OPEN.histogram(family, histogram.bounds, histogram.counts, histogram.total) + OPEN.end
    (parsed,) = parse(written.decode(), openmetrics=True)
    found = values_of([parsed])
    for bound in (1.0, 2.0, float("inf")):
        text = "+Inf" if bound == float("inf") else str(bound)
        assert found[series("headrace_x_seconds_bucket", le=text)] == sum(value <= bound for value in values)
    assert found[series("headrace_x_seconds_count")] == len(values)
    assert found[series("headrace_x_seconds_sum")] == sum(values)


async def test_a_stall_of_the_loop_is_seen() -> None:
    stalls = LoopStalls()
    stalls.start()
    time.sleep(0.3)  # the timer is due after 0.1 s
    while not sum(stalls.seconds.counts):
        await asyncio.sleep(0)
    stalls.stop()
    assert stalls.seconds.total >= 0.19
    assert sum(stalls.seconds.counts[:6]) == 0  # up to 0.05 s
    seen = sum(stalls.seconds.counts)
    await asyncio.sleep(0.15)
    assert sum(stalls.seconds.counts) == seen  # it has stopped
