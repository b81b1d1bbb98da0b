"""Servers with JetStream and a monitor port: every test that takes `broker` runs against both kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import KINDS
from tests.cli.more.in_process import Result, run_here
from tests.servers import Server, ServerKind, keep_streams_directory, running_server

HAS_SYSTEM_ACCOUNT_SERVICES = find_spec("headrace.monitor.system") is not None
SYSTEM_KINDS: tuple[ServerKind, ...] = (
    ("headrace", "nats-server") if HAS_SYSTEM_ACCOUNT_SERVICES else ("nats-server",)
)
"""Servers that send events and answer requests in the system account."""
_MONITOR = re.compile(r"Starting http monitor on [^\s]*:(\d+)")


@dataclass(frozen=True)
class Broker:
    server: Server

    @property
    def url(self) -> str:
        return f"nats://{self.server.host}:{self.server.port}"

    @property
    def monitor(self) -> str:
        found = _MONITOR.search(self.server.wait_for_log("Starting http monitor on"))
        assert found
        return f"http://127.0.0.1:{found[1]}"

    def run(self, *arguments: str, stdin: bytes | None = None) -> Result:
        return run_here(*arguments, stdin=stdin, NATS_URL=self.url)

    def ok(self, *arguments: str, stdin: bytes | None = None) -> str:
        """What a command prints that succeeds and complains about nothing."""
        result = self.run(*arguments, stdin=stdin)
        assert (result.code, result.errors) == (0, ""), result
        return result.text

    def json(self, *arguments: str, stdin: bytes | None = None) -> Any:
        return self.run(*arguments, "--json", stdin=stdin).json


@contextmanager
def started_broker(kind: ServerKind, store: Path, *flags: str, config: str = "") -> Iterator[Broker]:
    arguments = ["-js", "-sd", str(store), "-m", "-1", *flags]
    with running_server(kind, config=config, flags=arguments) as server:
        if kind == "nats-server":
            keep_streams_directory(store)
        yield Broker(server)


@pytest.fixture(scope="module", params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with started_broker(request.param, tmp_path_factory.mktemp("store")) as started:
        yield started
