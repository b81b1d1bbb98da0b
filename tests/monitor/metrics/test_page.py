"""/metrics: what it says about a server that is known, in both formats, by Prometheus's rules."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from headrace.monitor.metrics.exposition import OPENMETRICS as OPEN
from headrace.monitor.metrics.exposition import PLAIN, choose_exposition
from tests.monitor.conftest import Connecter, Starter
from tests.monitor.fetch import fetch
from tests.monitor.metrics.scrape import HOSTILE, OPENMETRICS, populated, scrape, series, values, values_of

# The rules of promtool check metrics (client_golang, promlint).
ABBREVIATIONS = {"s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"}
OTHER_UNITS = {
    "minutes", "hours", "days", "weeks", "milliseconds", "microseconds", "nanoseconds", "kilobytes",
    "megabytes", "kibibytes", "mebibytes", "gigabytes", "bits", "percent", "celsius", "fahrenheit",
}  # fmt: skip
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}


def lint(family: Metric) -> list[str]:
    """What promtool would say about it."""
    words = family.name.split("_")
    rules = {
        "name": re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", family.name) is None or "__" in family.name,
        "abbreviated unit": bool(ABBREVIATIONS & set(words)),
        "not a base unit": bool(OTHER_UNITS & set(words)),
        "no help": not family.documentation.strip().endswith("."),
        "no type": family.type not in TYPES,
        "type in the name": bool(TYPES & set(words)),
        "_total": any(
            sample.name.endswith("_total") != (family.type == "counter") for sample in family.samples
        ),
        "suffix of another type": family.type != "histogram"
        and family.name.endswith(("_count", "_sum", "_bucket")),
        "unit inside of the name": any(unit in words[:-1] for unit in ("seconds", "bytes")),
    }
    return [rule for rule, is_broken in rules.items() if is_broken]


async def test_pages_follow_the_rules_of_promtool(start: Starter, connect: Connecter, tmp_path: Path) -> None:
    server, _ = await populated(start, connect, tmp_path)
    families = await scrape(server.monitor.port)
    assert {family.name: broken for family in families if (broken := lint(family))} == {}
    assert all(family.name.startswith(("headrace_", "process_")) for family in families)


async def test_both_formats_have_the_same_values(start: Starter, connect: Connecter, tmp_path: Path) -> None:
    server, _ = await populated(start, connect, tmp_path)
    plain = await scrape(server.monitor.port)
    response = await fetch(server.monitor.port, "/metrics", accept=OPENMETRICS)
    assert response.text.endswith("\n# EOF\n")
    assert response.text.count("# EOF") == 1
    assert "# UNIT headrace_received_bytes bytes\n" in response.text
    assert "# TYPE headrace_received_bytes counter\n" in response.text
    assert "# TYPE headrace_build info\n" in response.text
    opened = await scrape(server.monitor.port, accept=OPENMETRICS)
    assert set(values_of(plain)) == set(values_of(opened))
    moving = re.compile("process_|headrace_event_loop|_age_seconds|headrace_subscriptions")
    for key, value in values_of(plain).items():
        if not moving.match(key[0]) and not moving.search(key[0]):
            assert values_of(opened)[key] == value, key
    units = {family.name.rpartition("_")[2] for family in opened if family.unit}
    assert units == {"bytes", "seconds"}


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/plain", PLAIN),
        ("application/openmetrics-text", OPEN),
        ("APPLICATION/OpenMetrics-Text;version=1.0.0", OPEN),
        # Prometheus 2 and 3
        ("application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPEN),
        ("text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.75", OPEN),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.5", PLAIN),
        ("application/openmetrics-text;q=0", PLAIN),
        ("application/openmetrics-text;q=x", PLAIN),
        ("application/openmetrics-text;version=nonsense", OPEN),
        (";;,=,;q", PLAIN),
    ],
)
def test_the_format_is_the_one_that_was_asked_for(accept: str, expected: object) -> None:
    assert choose_exposition(accept) is expected


async def test_figures_are_those_of_varz_and_jsz(start: Starter, connect: Connecter, tmp_path: Path) -> None:
    server, _ = await populated(start, connect, tmp_path)
    port = server.monitor.port
    found = await values(port)
    varz = (await fetch(port, "/varz")).json
    for name, field in {
        "headrace_connections": "connections",
        "headrace_connections_accepted_total": "total_connections",
        "headrace_received_messages_total": "in_msgs",
        "headrace_received_bytes_total": "in_bytes",
        "headrace_sent_messages_total": "out_msgs",
        "headrace_sent_bytes_total": "out_bytes",
        "headrace_subscriptions": "subscriptions",
        "headrace_slow_consumers_total": "slow_consumers",
        "headrace_stale_connections_total": "stale_connections",
        "headrace_publisher_stalls_total": "stalled_clients",
    }.items():
        assert found[series(name)] == varz[field], name
    jsz = (await fetch(port, "/jsz?consumers=1&config=1")).json
    for storage, used, limit in ("file", "storage", "max_storage"), ("memory", "memory", "max_memory"):
        assert found[series("headrace_jetstream_used_bytes", storage=storage)] == jsz[used]
        assert found[series("headrace_jetstream_reserved_bytes", storage=storage)] == jsz[f"reserved_{used}"]
        assert found[series("headrace_jetstream_limit_bytes", storage=storage)] == jsz["config"][limit]
    assert found[series("headrace_streams")] == jsz["streams"] == 4
    assert found[series("headrace_consumers")] == jsz["consumers"] == 3
    (account,) = jsz["account_details"]
    for stream in account["stream_detail"]:
        where = {"account": "$G", "stream": stream["name"]}
        for name, field in {
            "messages": "messages",
            "bytes": "bytes",
            "first_sequence": "first_seq",
            "last_sequence": "last_seq",
            "consumers": "consumer_count",
        }.items():
            assert found[series(f"headrace_stream_{name}", **where)] == stream["state"][field]
        for consumer in stream.get("consumer_detail", []):
            at = {**where, "consumer": consumer["name"]}
            for name, field in {
                "pending_messages": "num_pending",
                "ack_pending_messages": "num_ack_pending",
                "redelivered_messages": "num_redelivered",
            }.items():
                assert found[series(f"headrace_consumer_{name}", **at)] == consumer[field]
            waiting = found.get(series("headrace_consumer_waiting_pulls", **at))
            assert waiting == (None if consumer["config"].get("deliver_subject") else consumer["num_waiting"])


async def test_streams_consumers_origins_and_landings_have_their_figures(
    start: Starter, connect: Connecter, tmp_path: Path
) -> None:
    server, _ = await populated(start, connect, tmp_path)
    found = await values(server.monitor.port)
    orders = {"account": "$G", "stream": "ORDERS"}
    expected = {
        series("headrace_stream_messages", **orders): 10,
        series("headrace_stream_max_bytes", **orders): 100_000,
        series("headrace_stream_max_messages", **orders): 50,
        series("headrace_stream_subjects", **orders): 10,
        series("headrace_stream_write_failed", **orders): 0,
        series("headrace_stream_info", **orders, storage="file", retention="limits", discard="old"): 1,
        series("headrace_stream_messages", account="$G", stream=HOSTILE): 0,
        series("headrace_consumer_ack_pending_messages", **orders, consumer="pull"): 3,
        series("headrace_consumer_pending_messages", **orders, consumer="pull"): 6,
        series("headrace_consumer_waiting_pulls", account="$G", stream=HOSTILE, consumer="c\"'☃"): 1,
        series(
            "headrace_stream_origin_lag_messages",
            account="$G",
            stream="MIRROR",
            kind="mirror",
            origin="ORDERS",
        ): 0,
        series(
            "headrace_stream_origin_lag_messages",
            account="$G",
            stream="SOURCES",
            kind="source",
            origin="ORDERS",
        ): 0,
        series(
            "headrace_stream_origin_found", account="$G", stream="SOURCES", kind="source", origin="NOWHERE"
        ): 0,
        series("headrace_metrics_cut", kind="streams"): 0,
    }
    table = {**orders, "table": 'lake\\x "y"'}
    expected |= {
        series("headrace_landing_lag_messages", **table): 3,
        series("headrace_landing_rows_total", **table): 7,
        series("headrace_landing_rows_per_second", **table): 3.5,
        series("headrace_landing_deletions_total", **table): 2,
        series("headrace_landing_dead_letters_total", **table): 1,
        series("headrace_landing_state", **table, state="failed"): 1,
        series("headrace_landing_state", **table, state="running"): 0,
    }
    assert {key: found.get(key) for key in expected} == expected
    missing = series("headrace_stream_origin_lag_messages", account="$G", stream="SOURCES", kind="source")
    assert not [key for key in found if key[0] == missing[0] and ("origin", "NOWHERE") in key[1]]
    assert found[series("headrace_consumer_last_ack_age_seconds", **orders, consumer="pull")] >= 0
    assert series("headrace_consumer_last_ack_age_seconds", **orders, consumer="push") not in found
    assert found[series("headrace_commit_group_messages_sum")] == 22  # also those of mirror and sources
    assert 1 <= found[series("headrace_commit_sync_seconds_count")] <= 22
    assert found[series("process_resident_memory_bytes")] > 1_000_000
    assert found[series("process_open_fds")] > 3


async def test_a_server_without_jetstream_has_the_figures_of_a_server(start: Starter) -> None:
    server = await start()
    names = {key[0] for key in await values(server.monitor.port)}
    assert "headrace_connections" in names
    assert not [name for name in names if "stream" in name or "commit" in name or "landing" in name]


def test_a_server_starts_without_the_library() -> None:
    """It takes 50 ms to import; whoever has no Prometheus has no use for it."""
    program = (
        "import sys, headrace.runner, headrace.streams.jetstream; print('prometheus_client' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
