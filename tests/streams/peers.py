"""Two servers side by side: nats-server and ours get the same requests, and must give the same answers.

Only what differs between any two runs is made equal: times, ids, the name of the server, counters of the API.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from nats import connect
from nats.aio.client import Client

from tests.servers import Server, ServerKind, running_server

TIMES = {"created", "ts", "first_ts", "last_ts", "time", "timestamp"}
ZERO_TIME = "0001-01-01T00:00:00Z"
API = "$JS.API."
SECOND = 1_000_000_000

Body = dict[str, Any] | str


@contextmanager
def jetstream_server(
    kind: ServerKind, directory: Path, config: str = "", flags: tuple[str, ...] = ()
) -> Iterator[Server]:
    with running_server(kind, config, ["-js", "-sd", str(directory), *flags]) as server:
        yield server


@asynccontextmanager
async def client_of(server: Server) -> AsyncIterator[Client]:
    client = await connect(f"nats://{server.host}:{server.port}", allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


async def ask(client: Client, subject: str, body: Body = "", headers: dict[str, str] | None = None) -> Any:
    """The normalised answer to an API request."""
    payload = body if isinstance(body, str) else json.dumps(body)
    message = await client.request(API + subject, payload.encode(), timeout=30, headers=headers)
    return normalise(json.loads(message.data))


def normalise(value: Any) -> Any:
    if isinstance(value, list):
        return [normalise(item) for item in value]
    if not isinstance(value, dict):
        return value
    if (
        "lag" in value
    ):  # of a mirror or source: how soon it finds that there is no origin differs from run to run
        value = {key: item for key, item in value.items() if key != "error"}
    return {key: _normalise_field(key, item) for key, item in value.items()}


def _normalise_field(key: str, value: Any) -> Any:
    if key in TIMES and isinstance(value, str) and value != ZERO_TIME:
        return "TIME"
    if key == "leader":
        return "SERVER"
    if key == "api":
        return "COUNTERS"
    return normalise(value)


def normalise_headers(headers: dict[str, str] | None) -> dict[str, str]:
    found = dict(headers or {})
    if "Nats-Time-Stamp" in found:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", found["Nats-Time-Stamp"])
        found["Nats-Time-Stamp"] = "TIME"
    return found


def _forget_progress(answer: dict[str, Any]) -> None:
    """Of a mirror or sources that were just created: they are at work while the answer is written."""
    del answer["state"]
    for origin in [answer.get("mirror"), *(answer.get("sources") or [])]:
        if origin:
            del origin["active"], origin["lag"]


class Peers:
    """Clients of both servers."""

    def __init__(self, real: Client, ours: Client) -> None:
        self.real = real
        self.ours = ours

    async def ask(self, subject: str, body: Body = "", headers: dict[str, str] | None = None) -> Any:
        """Ask both; they must agree. Their answer."""
        real = await ask(self.real, subject, body, headers)
        ours = await ask(self.ours, subject, body, headers)
        for answer in (real, ours):
            if answer.get("did_create") and ("mirror" in answer or "sources" in answer):
                _forget_progress(answer)
            if isinstance(answer.get("sources"), list):  # nats-server tells them in any order
                answer["sources"].sort(key=lambda source: str(source["name"]))
        assert ours == real, f"{subject} {body}"
        return real

    async def publish(self, subject: str, body: str, headers: dict[str, str] | None = None) -> Any:
        """Publish into a stream on both; their acknowledgement."""
        real = await self.real.request(subject, body.encode(), timeout=30, headers=headers)
        ours = await self.ours.request(subject, body.encode(), timeout=30, headers=headers)
        assert json.loads(ours.data) == json.loads(real.data)
        return json.loads(real.data)

    async def collect(self, subject: str, body: Body) -> list[tuple[dict[str, str], bytes]]:
        """Ask both for several messages, up to the one that ends them."""
        real = await collect(self.real, subject, body)
        ours = await collect(self.ours, subject, body)
        assert ours == real, f"{subject} {body}"
        return real


async def collect(client: Client, subject: str, body: Body) -> list[tuple[dict[str, str], bytes]]:
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    payload = body if isinstance(body, str) else json.dumps(body)
    await client.publish(API + subject, payload.encode(), reply=inbox)
    found: list[tuple[dict[str, str], bytes]] = []
    while not found or "Status" not in found[-1][0]:
        message = await subscription.next_msg(timeout=30)
        found.append((normalise_headers(message.headers), message.data))
    await subscription.unsubscribe()
    return found
