"""A server that is stopped for a while, and one that is to read a broken configuration (FAULTS 15, 45)."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

import pytest

from tests.adversity.recorder import Connection, Record, check, create_stream, stored_messages
from tests.adversity.watch import Bystander
from tests.servers import Server, running_server

BROKEN = (
    "max_payload: {",
    "server_name: other\n",
    "no_such_option: 1\n",
    "jetstream: false\n",
    "ping_max: x\n",
    "include nowhere.conf\n",
)


def publish_during(server: Server, record: Record, fault: object) -> None:
    """Publish on one connection from before the fault to after it."""
    assert callable(fault)
    publishing = threading.Thread(target=record.publish, args=(server.port,), kwargs={"count": 30_000})
    publishing.start()
    while not record.acknowledged:
        time.sleep(0.001)
    fault()
    publishing.join()


def stand_still(tmp_path: Path, seconds: float) -> None:
    record = Record()
    # Pings far more often than the server is stopped: nobody may be stale when it wakes up.
    with running_server("headrace", "ping_interval: 1s\n", ["-js", "-sd", str(tmp_path)]) as server:
        create_stream(server.port)

        def stop_and_continue() -> None:
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(seconds)
            server.process.send_signal(signal.SIGCONT)

        with Bystander(server.port):  # it answers the server's pings
            publish_during(server, record, stop_and_continue)
        assert len(record.acknowledged) == 30_000
        assert "Stale Connection" not in server.log()
        check(record, stored_messages(server.port))
        server.process.kill()
    with running_server("headrace", flags=["-js", "-sd", str(tmp_path)]) as server:
        check(record, stored_messages(server.port))
    print(f"stopped for {seconds:g} s: {len(record.acknowledged)} acknowledged, 0 lost, 0 connections lost")


def test_a_server_that_stood_still_resumes(tmp_path: Path) -> None:
    stand_still(tmp_path, 3.0)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_server_that_stood_still_for_a_minute_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.adversity.recorder.PATIENCE_SECONDS", 120.0)
    stand_still(tmp_path, 60.0)


def test_a_broken_configuration_changes_nothing(tmp_path: Path) -> None:
    config, record = tmp_path / "server.conf", Record()
    good = f"max_payload: 2000\njetstream {{ store_dir: '{tmp_path}/store' }}\n"
    config.write_text(good)
    with running_server("headrace", flags=["-c", str(config)]) as server:
        create_stream(server.port)

        def reload_all() -> None:
            for number, text in enumerate(BROKEN, 1):
                config.write_text(text if text.endswith("{") else good + text, encoding="latin-1")
                server.process.send_signal(signal.SIGHUP)
                server.wait_for_log("Failed to reload server configuration", number)

        with Connection(server.port) as bystander:
            publish_during(server, record, reload_all)
            bystander.ping()
            info = bystander.request("$JS.API.STREAM.INFO.CRASH")
        assert info["state"]["messages"] == len(record.acknowledged) == 30_000
        assert "Traceback" not in server.log()
    print(f"{len(BROKEN)} broken configurations: 0 drops, {len(record.acknowledged)} acknowledged meanwhile")
