"""`headrace land` when the server is away for longer than its queries wait."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.cli import commands
from tests.cli.commands import started
from tests.servers import reserved_port, running_server
from tests.spark.conftest import Broker

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def test_landing_continues_when_the_server_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "SECONDS", 600.0)  # Spark on a busy machine, and half a minute of patience
    kind, store = "headrace", tmp_path / "streams"
    with ExitStack() as stack:
        flags = ["-js", "-sd", str(store), "-p", str(stack.enter_context(reserved_port()))]
        with running_server(kind, flags=flags) as server:
            broker = Broker(server)
            stream = broker.make_stream(name="ORDERS")
            broker.publish(f"{stream}.a", list("abc"))
            table = tmp_path / "table"
            command = ["land", stream, "--to", str(table), "-s", broker.url, "--every", "0.2"]
            command += ["--format", "delta", "--master", "local[1]"]
            landing = stack.enter_context(started(*command, ready="3 rows written"))
        landing.wait_for("restart 1 of 10 in 1 s")
        assert "no server listens" in landing.errors
        with running_server(kind, flags=flags) as again:
            Broker(again).publish(f"{stream}.a", list("de"))
            landing.wait_for("5 rows written")
            assert landing.end(signal.SIGINT) == 0, landing.errors
            assert "5 rows landed" in landing.errors
    landed = DeltaTable(table).to_pyarrow_table(columns=["seq"]).column("seq").to_pylist()
    assert sorted(landed) == [1, 2, 3, 4, 5]
