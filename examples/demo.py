"""`make demo`: starts a server on a free port, runs a short load through it, checks that all adds up.

    python examples/demo.py                  headrace-server
    python examples/demo.py nats-server      any other server with the same flags, for comparison

The load is made by nats-py in this one process, which is much slower than the server: the rates that it shows
are those of the client. `make bench` measures the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

PUBLISHERS = 3
SUBSCRIBERS = 4
LOAD_SECONDS = 4.0
BATCH = 250
PAYLOAD = b"x" * 128
JOBS = 6_000
WORKERS = 3
REQUESTS = 2_000
START_SECONDS = 15.0
SETTLE_SECONDS = 10.0


class Failure(Exception):
    """Something does not add up."""


@contextlib.contextmanager
def running_server(command: list[str]) -> Iterator[tuple[str, str]]:
    """The URLs for clients and for monitoring of a server that runs until the end of the block."""
    with tempfile.TemporaryDirectory() as directory:
        log_path = Path(directory, "server.log")
        flags = ["-a", "127.0.0.1", "-p", "-1", "-m", "-1", "--ports_file_dir", directory]
        with log_path.open("wb") as log:
            process = subprocess.Popen([*command, *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_SECONDS
            while "Server is ready" not in log_path.read_text():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Failure(f"the server did not start:\n{log_path.read_text()}")
                time.sleep(0.02)
            ports = read_ports(directory, deadline)
            yield ports["nats"][0], ports["monitoring"][0]
        finally:
            process.terminate()
            process.wait(10)


def read_ports(directory: str, deadline: float) -> dict[str, list[str]]:
    """What the server has written into its ports file."""
    while time.monotonic() < deadline:
        for path in Path(directory).glob("*.ports"):
            with contextlib.suppress(ValueError):  # it is still being written
                ports: dict[str, list[str]] = json.loads(path.read_text())
                return ports
        time.sleep(0.02)
    raise Failure("the server did not say which ports it uses")


async def settle(what: str, count: Counter[str], expected: int) -> None:
    """Wait until everything has arrived, and a moment longer, so that one too many is seen as well."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while count.total() < expected and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    if count.total() != expected:
        raise Failure(f"{what}: {count.total():,} arrived, {expected:,} were expected")


async def publish_and_subscribe(clients: list[Client]) -> dict[str, str]:
    """Every subscriber gets every message of every publisher, in its order."""
    delivered: Counter[str] = Counter()
    published: Counter[str] = Counter()
    out_of_order = 0

    async def subscribe(client: Client, name: str) -> None:
        last: dict[str, int] = {}

        async def on_message(message: Msg) -> None:
            nonlocal out_of_order
            number = int(message.data[:12])
            out_of_order += number != last.get(message.subject, -1) + 1
            last[message.subject] = number
            delivered[name] += 1

        await client.subscribe("demo.events.>", cb=on_message, pending_msgs_limit=0, pending_bytes_limit=0)
        await client.flush()

    async def publish(client: Client, name: str, until: float) -> None:
        while time.monotonic() < until:
            for _ in range(BATCH):
                await client.publish(f"demo.events.{name}", b"%012d" % published[name] + PAYLOAD[12:])
                published[name] += 1
            await client.flush()

    for number, client in enumerate(clients[:SUBSCRIBERS]):
        await subscribe(client, f"subscriber-{number}")
    start = time.monotonic()
    load = [publish(clients[-1 - k], f"publisher-{k}", start + LOAD_SECONDS) for k in range(PUBLISHERS)]
    progress = asyncio.create_task(show_progress(published, delivered))
    await asyncio.gather(*load)
    progress.cancel()
    expected = published.total() * SUBSCRIBERS
    await settle("publish and subscribe", delivered, expected)
    seconds = time.monotonic() - start
    if out_of_order:
        raise Failure(f"publish and subscribe: {out_of_order:,} messages out of order")
    rate = published.total() / seconds
    return {
        "messages published": f"{published.total():,} by {PUBLISHERS} publishers ({rate:,.0f}/s)",
        "messages delivered": f"{expected:,} to {SUBSCRIBERS} subscribers ({expected / seconds:,.0f}/s)",
        "messages lost": f"{expected - delivered.total():,}",
    }


async def show_progress(published: Counter[str], delivered: Counter[str]) -> None:
    start = time.monotonic()
    while True:
        await asyncio.sleep(1)
        elapsed = time.monotonic() - start
        print(
            f"  {elapsed:3.0f} s  {published.total():>9,} published  {delivered.total():>9,} delivered",
            flush=True,
        )


async def queue_group_with_headers(clients: list[Client]) -> dict[str, str]:
    """Each job goes to exactly one worker, with its header."""
    done_by: Counter[str] = Counter()
    jobs_seen: set[str] = set()

    async def start_worker(client: Client, name: str) -> None:
        async def on_job(message: Msg) -> None:
            done_by[name] += 1
            jobs_seen.add((message.headers or {})["Job-Id"])

        await client.subscribe("demo.jobs.*", queue="workers", cb=on_job)
        await client.flush()

    for number in range(WORKERS):
        await start_worker(clients[number], f"worker-{number}")
    for number in range(JOBS):
        await clients[-1].publish(f"demo.jobs.{number % 10}", PAYLOAD, headers={"Job-Id": str(number)})
    await clients[-1].flush()
    await settle("queue group", done_by, JOBS)
    if len(jobs_seen) != JOBS or len(done_by) != WORKERS:
        raise Failure(f"queue group: {len(jobs_seen):,} different jobs, {len(done_by)} workers took part")
    shares = " + ".join(f"{count:,}" for _, count in sorted(done_by.items()))
    return {"queue group with headers": f"{JOBS:,} jobs = {shares}"}


async def request_and_reply(clients: list[Client]) -> dict[str, str]:
    """One request at a time; the time until its answer is here."""

    async def on_request(message: Msg) -> None:
        await message.respond(message.data[::-1])

    await clients[0].subscribe("demo.reverse", cb=on_request)
    await clients[0].flush()
    latencies = []
    for number in range(REQUESTS):
        data = b"%d" % number
        start = time.perf_counter()
        answer = await clients[-1].request("demo.reverse", data, timeout=5)
        latencies.append(time.perf_counter() - start)
        if answer.data != data[::-1]:
            raise Failure(f"request {data!r} was answered with {answer.data!r}")
    latencies.sort()
    shown = ", ".join(
        f"p{p:g} {latencies[int(len(latencies) * p / 100)] * 1000:.2f} ms" for p in (50, 90, 99, 99.9)
    )
    return {"requests answered": f"{REQUESTS:,} of {REQUESTS:,}", "request round trip": shown}


def ask_monitor(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{url}/varz", timeout=10) as response:
            varz: dict[str, Any] = json.load(response)
    except (OSError, ValueError) as error:
        raise Failure(f"{url}/varz does not answer: {error}") from None
    return varz


async def run(url: str, monitor_url: str) -> dict[str, str]:
    clients = [await nats.connect(url, name=f"demo-{k}") for k in range(SUBSCRIBERS + PUBLISHERS)]
    rows: dict[str, str] = {}
    print(f"Publish and subscribe for {LOAD_SECONDS:.0f} seconds ...", flush=True)
    rows |= await publish_and_subscribe(clients)
    print(f"{JOBS:,} jobs with headers for a queue group of {WORKERS} ...", flush=True)
    rows |= await queue_group_with_headers(clients)
    print(f"{REQUESTS:,} requests, one at a time ...", flush=True)
    rows |= await request_and_reply(clients)
    varz = await asyncio.to_thread(ask_monitor, monitor_url)
    sent = sum(client.stats["out_msgs"] for client in clients)
    received = sum(client.stats["in_msgs"] for client in clients)
    for client in clients:
        await client.close()
    if (varz["in_msgs"], varz["out_msgs"]) != (sent, received):
        raise Failure(
            f"/varz counts {varz['in_msgs']:,} in, {varz['out_msgs']:,} out; clients {sent:,}, {received:,}"
        )
    counts = f"{varz['in_msgs']:,} in, {varz['out_msgs']:,} out, as the clients counted"
    memory = f"{varz['mem'] / 2**20:,.0f} MiB"
    health = f"{varz['connections']} connections, {varz['slow_consumers']} slow consumers, {memory}"
    return rows | {"the server's /varz": counts, "": health}


def main() -> int:
    command = sys.argv[1:] or [sys.executable, "-m", "headrace.cli.nats_server"]
    try:
        with running_server(command) as (url, monitor_url):
            print(f"Server: {url}, monitoring: {monitor_url}", flush=True)
            rows = asyncio.run(run(url, monitor_url))
    except Failure as failure:
        print(f"\nFAILED: {failure}", file=sys.stderr)
        return 1
    width = max(map(len, rows))
    print("\n" + "\n".join(f"  {name:<{width}}  {value}" for name, value in rows.items()))
    print(
        "\nEverything adds up. Next: `headrace serve` in one terminal, `headrace sub 'greet.*'` in another."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
