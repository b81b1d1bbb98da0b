"""What `make bench` measures of streams beyond single runs: restarts, memory, a configured reference."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import LONG_KEYS, PEAK_RSS_LIMITS_MB, ROWS, TARGETS, VALUE_LIMITS
from headrace.bench.compare import Measurement, Result, Row, compare, measure
from headrace.bench.failure import BenchError
from headrace.bench.jetstream import open_api
from headrace.bench.servers import Running, Server, find_server
from headrace.bench.suites import LONG, STREAMS, choose_rows
from headrace.bench.tables import notes
from headrace.bench.workloads import (
    Experiment,
    PublishSubscribe,
    Sample,
    StreamMemory,
    StreamPublish,
    StreamRecovery,
)
from headrace.bench.workloads.stream_recovery import await_stream
from headrace.client.addresses import Address

DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("Listening for client connections on 127.0.0.1:1", flush=True)
time.sleep(60)
"""
ELSEWHERE = Server("elsewhere", address=Address("127.0.0.1", 1))


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_is_timed_until_the_stream_answers(nats_server: Server, kill: bool) -> None:
    for _ in range(2):
        found = measure(StreamRecovery(16, 2_000, kill), nats_server)
        assert 0 < found.sample.value < 60
        assert found.server_cpu_seconds is not None
        assert (found.server_peak_rss_bytes or 0) > 1_000_000
        assert set(found.sample.extra) == ({"acknowledged messages missing"} if kill else set())


def test_messages_that_are_missing_after_a_clean_stop_are_told(nats_server: Server) -> None:
    plan = StreamRecovery(17, 50)
    plan.conduct(nats_server)
    folder = plan._folder(nats_server)
    started = Running(nats_server, folder, streams=True)
    try:
        process, facts = await_stream(started, "recovery")
        assert facts.messages == 50
        with open_api(process.address) as api:
            api.request("STREAM.PURGE.recovery", {"keep": 40})
    finally:
        started.stop()
    with pytest.raises(BenchError, match="nats-server: 10 of 50 messages are missing"):
        plan.conduct(nats_server)


def test_the_memory_of_stored_messages(nats_server: Server) -> None:
    found = measure(StreamMemory(16, 20_000, settle_seconds=0.1), nats_server)
    assert found.sample.value > 0
    assert set(found.sample.extra) == {
        "messages stored per second",
        "milliseconds to start again",
        "bytes per message after that",
    }
    in_memory = measure(StreamMemory(16, 20_000, "memory", 0.1), nats_server).sample
    assert in_memory.value > 16
    assert set(in_memory.extra) == {"messages stored per second"}


@pytest.mark.parametrize("experiment", [StreamRecovery(1, 1), StreamMemory(1, 1)])
def test_a_server_that_was_not_started_here_cannot_be_restarted(experiment: Experiment) -> None:
    with pytest.raises(BenchError, match="elsewhere cannot be restarted"):
        measure(experiment, ELSEWHERE)


def test_a_server_that_does_not_start_is_named() -> None:
    broken = Server("broken", ("/bin/false",))
    for experiment in (StreamRecovery(1, 1), StreamMemory(1, 1)):
        with pytest.raises(BenchError, match="broken exited with 1: it did not start"):
            measure(experiment, broken)


def test_only_the_reference_gets_the_configuration_and_the_smaller_share(nats_server: Server) -> None:
    servers = [Server("a", nats_server.command), Server("b", nats_server.command)]
    row = Row(
        "row",
        "the work",
        StreamPublish(10, 100, 200),
        reference_config="max_payload: 50\n",
        reference_share=0.5,
    )
    (refused,) = compare([row], servers, 1, lambda *_: None)
    assert "a:" in refused.error
    assert "Maximum Payload" in refused.error
    (result,) = compare(
        [Row("row", "the work", StreamPublish(10, 16, 200), reference_share=0.5)], servers, 1, lambda *_: None
    )
    assert not result.error
    counts = {name: found[0].sample.clients[0].messages for name, found in result.measurements.items()}
    assert counts == {"a": 100, "b": 200}
    (result,) = compare([row], [ELSEWHERE, servers[1]], 1, lambda *_: None)
    assert "elsewhere cannot be configured" in result.error


def test_all_servers_get_the_configuration_of_a_row(nats_server: Server) -> None:
    (row,) = choose_rows("full", "10-10-permissions")
    assert row.config.count('"') // 2 == 100
    row = replace(row, workload=PublishSubscribe(1, 1, 16, 100))
    (result,) = compare([row], [nats_server, find_server("headrace")], 1, lambda *_: None)
    assert not result.error
    refused = replace(row, config=row.config.replace('"bench",', ""))
    (result,) = compare([refused], [find_server("headrace")], 1, lambda *_: None)
    assert "Permissions Violation" in result.error


@pytest.mark.parametrize(("value", "verdict"), [(31.9, "reached"), (32.1, "NOT reached")])
def test_a_limit_on_the_value_is_judged(value: float, verdict: str) -> None:
    row = Row("row", "the work", StreamMemory(1, 1), value_limit=32)
    found = {
        name: [Measurement(Sample(value, 1.0, 0.1), None, None, None)] for name in ("nats-server", "headrace")
    }
    assert notes([Result(row, found)], ["nats-server", "headrace"]) == [
        f"the work: headrace {value:,.1f} B/message, at most 32 is aimed at: {verdict}"
    ]


def test_every_aim_belongs_to_a_row() -> None:
    keys = [row.key for row in ROWS]
    assert len(keys) == len(set(keys))
    assert {*TARGETS, *PEAK_RSS_LIMITS_MB, *VALUE_LIMITS} <= set(keys)
    assert {row.key for row in LONG} == LONG_KEYS
    assert choose_rows("streams", "stream-pull")[0].workload == STREAMS[-4].workload


def test_a_stop_that_is_none_is_reported(nats_server: Server, tmp_path: Path) -> None:
    started = Running(nats_server, str(tmp_path))
    started.await_ready()
    started.stop_cleanly(30.0)
    started.stop_cleanly(30.0)  # it has stopped already
    deaf = Server("deaf", (sys.executable, "-c", DEAF))
    started = Running(deaf, str(tmp_path))
    try:
        started.await_listening()
        with pytest.raises(BenchError, match="did not stop cleanly, but with -9"):
            started.stop_cleanly(0.1)
    finally:
        started.stop()
