"""The source and the sink through Spark Connect: a client of its own, and our session as the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.conftest import ONE_SERVER, Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLIENT = Path(__file__).with_name("connect_client.py")
SECONDS = 240


def remote_of(spark: SparkSession) -> str:
    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return f"sc://127.0.0.1:{getattr(service, 'MODULE$').localPort()}"


@pytest.mark.timeout(SECONDS + 60)
@ONE_SERVER
def test_streams_are_read_and_written_through_connect(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    for name in "FROM", "TO":
        broker.make_stream(name=name)
    broker.publish("FROM.a", ["1", "2"])
    # The server and its workers need the source, the client does not: nothing of ours is on its path.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", str(CLIENT), remote_of(spark), broker.url, str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["session"].startswith("pyspark.sql.connect")
    assert found["batch"] == found["stream"] == ["1", "2", "written"]
    assert found["table"] == found["sql"] == 3
    first = found["error"].splitlines()[0]
    assert "stream NOWHERE: there is no such stream; check its name" in first
    assert [message.data for message in broker.messages("TO")] == [b"1", b"2", b"written"]
