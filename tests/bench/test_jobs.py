"""Flags to jobs, URLs to addresses, presets and published figures."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

import headrace.bench
from headrace import __version__
from headrace.bench.comparison import with_distinct_names
from headrace.bench.jobs import DEFAULTS, WORKLOADS, make_job
from headrace.bench.seeds import PRESETS, all_seeds, seeds_of
from headrace.bench.servers import Server, find_server, is_url
from headrace.bench.suites import FULL, QUICK, choose_rows
from headrace.bench.workloads import (
    FixedRate,
    IdleConnections,
    ManySubjects,
    PublishSubscribe,
    RequestReply,
    StreamConsume,
    StreamPublish,
    Workload,
)
from headrace.cli import bench as command
from headrace.client.addresses import Address, parse_servers, parse_url
from headrace.errors import UsageError

SEEDS = Path(headrace.bench.__file__).with_name("seeds.csv")


@pytest.mark.parametrize(
    ("name", "given", "workload"),
    [
        ("pubsub", {}, PublishSubscribe(1, 0, 128, 100_000)),
        (
            "pubsub",
            {"num_pubs": 2, "num_subs": 3, "num_msgs": 5, "msg_size": 0, "subject": "a", "processes": 4},
            PublishSubscribe(2, 3, 0, 5, subject="a", processes=4),
        ),
        ("request", {"in_flight": 7, "num_pubs": 2}, RequestReply(7, 128, 10_000, requesters=2)),
        ("latency", {"rate": 10.0, "duration": 2.0}, FixedRate(10.0, 2.0, 128)),
        (
            "subjects",
            {"queue": "q", "wildcard": "*", "num_subjects": 5},
            ManySubjects(5, 128, messages=100_000, queue="q", wildcard="*"),
        ),
        ("connections", {"num_conns": 9}, IdleConnections(9)),
        ("stream-publish", {}, StreamPublish(256, 128, 100_000)),
        (
            "stream-publish",
            {
                "in_flight": 7,
                "num_pubs": 2,
                "storage": "memory",
                "msg_ids": True,
                "stream": "S",
                "keep": True,
            },
            StreamPublish(7, 128, 100_000, 2, "memory", True, "S", True),
        ),
        (
            "stream-consume",
            {"batch": 7, "num_subs": 2, "acks": "none", "shared": True, "msg_size": 0},
            StreamConsume(7, 0, 100_000, 2, "none", True),
        ),
    ],
)
def test_flags_make_a_workload(name: str, given: dict[str, Any], workload: Workload) -> None:
    assert make_job(name, given).workload == workload


@pytest.mark.parametrize(
    ("name", "given", "preset", "part"),
    [
        ("pubsub", {"rate": 1.0}, "", "--rate is for latency, not for pubsub"),
        ("connections", {"num_msgs": 1}, "", "--num-msgs is for pubsub and request and subjects"),
        ("request", {"num_subs": 0}, "", "nobody to answer"),
        ("latency", {"num_subs": 0}, "", "nobody to receive"),
        ("subjects", {"num_subs": 0}, "", "nobody to receive"),
        ("latency", {}, "rnats-1x10", "a preset is a pubsub run"),
        ("stream-consume", {"num_subs": 0}, "", "nobody to consume"),
        ("stream-consume", {"msg_ids": True}, "", "--msg-ids is for stream-publish, not for stream-consume"),
        ("stream-publish", {"num_subs": 1}, "", "--num-subs is for .*, not for stream-publish"),
    ],
)
def test_what_does_not_go_together_is_refused(
    name: str, given: dict[str, Any], preset: str, part: str
) -> None:
    with pytest.raises(UsageError, match=part):
        make_job(name, given, preset)


@pytest.mark.parametrize(
    ("name", "given", "variant"),
    [
        ("pubsub", {}, ""),
        ("request", {"in_flight": 64}, "64 in flight"),
        ("subjects", {}, "10,000 subjects, wildcard >"),
        (
            "subjects",
            {"num_subjects": 5, "wildcard": "none", "queue": "q"},
            "5 subjects, a subscription each, queue group",
        ),
        ("stream-publish", {"msg_ids": True}, "file storage, 256 in flight, message ids"),
        (
            "stream-consume",
            {"acks": "none", "shared": True},
            "file storage, batches of 1,000, no acks, one consumer",
        ),
    ],
)
def test_what_tells_runs_of_a_workload_apart(name: str, given: dict[str, Any], variant: str) -> None:
    job = make_job(name, given)
    assert job.variant == variant
    assert job.describe().endswith(variant)


def test_the_command_line_names_what_there_is() -> None:
    """It has its own lists, because it is imported before anything of the benchmark is."""
    assert command.WORKLOADS == WORKLOADS
    assert tuple(PRESETS) == command.PRESETS
    known = {parameter.name for parameter in command.run.params}
    assert {name for defaults in DEFAULTS.values() for name in defaults} <= known


def test_every_published_figure_is_there() -> None:
    rows = list(csv.DictReader(SEEDS.read_text().splitlines()))
    assert len(rows) == len(all_seeds()) == 13
    assert sum(seed.total_msgs_per_s for seed in all_seeds()) == 10_727_631
    assert {seed.rss_kb for seed in all_seeds()} == {None, 21552, 17620}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_published_run(name: str) -> None:
    preset = PRESETS[name]
    job = make_job("pubsub", {}, name)
    assert preset.messages in {seed.msgs for seed in seeds_of(preset)}
    assert (job.num_pubs, job.num_subs, job.msg_size, job.num_msgs) == (
        preset.publishers,
        preset.subscribers,
        preset.size,
        preset.messages,
    )


def test_a_preset_can_be_made_shorter() -> None:
    assert make_job("pubsub", {"num_msgs": 10}, "beaver-1000").num_msgs == 10


@pytest.mark.parametrize("flag", ["num_pubs", "num_subs", "msg_size"])
def test_a_preset_keeps_its_clients_and_size(flag: str) -> None:
    with pytest.raises(UsageError, match=f"--{flag.replace('_', '-')} cannot be combined"):
        make_job("pubsub", {flag: 5}, "rnats-1x10")


def test_a_row_of_another_suite_names_that_suite() -> None:
    with pytest.raises(UsageError, match=r"no such row: idle .*; --suite full has it"):
        choose_rows("quick", "idle")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", Address("127.0.0.1", 4222)),
        ("nats://host:1", Address("host", 1)),
        ("nats://anna:s%40cret@host", Address("host", 4222, "anna", "s@cret")),
        ("anna:@host:5", Address("host", 5, "anna", "")),
        ("nats://secret@host", Address("host", 4222, token="secret")),
        ("nats://[::1]:7", Address("::1", 7)),
    ],
)
def test_urls(text: str, address: Address) -> None:
    assert parse_url(text) == address


@pytest.mark.parametrize("text", ["ws://host", "http://h", "nats://host:x", "nats://:1", "nats://[::1", ""])
def test_wrong_urls_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as failure:
        parse_servers(text)
    assert "s3cret" not in str(failure.value)


def test_an_address_shows_no_secret() -> None:
    address = parse_url("nats://anna:s3cret@host:1")
    assert str(address) == "host:1"
    assert "s3cret" not in repr(address)
    assert str(Address("::1", 7)) == "[::1]:7"


def test_servers_are_found_by_name_path_and_url(nats_server: Server) -> None:
    assert find_server("nats-server").command == nats_server.command
    assert find_server(nats_server.command[0]).name == "nats-server"
    assert find_server("127.0.0.1:1").address == Address("127.0.0.1", 1)
    assert find_server("headrace").version() == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", nats_server.version())  # without its name, which is next to it
    with pytest.raises(UsageError, match="unknown server 'no-such-server'"):
        find_server("no-such-server")


def test_urls_and_paths_are_told_apart() -> None:
    assert [is_url(text) for text in ("nats://a", "a:1", "headrace", "/a:b/c", "./a")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_the_same_server_twice_gets_two_names() -> None:
    servers = [Server("a"), Server("b"), Server("a"), Server("a")]
    assert [server.name for server in with_distinct_names(servers)] == ["a", "b", "a (2)", "a (3)"]


def test_rows_are_chosen_by_key() -> None:
    assert [row.key for row in choose_rows("full", "idle,1-1")] == ["1-1", "idle"]
    assert choose_rows("quick") == list(QUICK)
    assert {row.key for row in QUICK} <= {row.key for row in FULL}
    for wrong in ("nothing", "1-1,nothing", ","):
        with pytest.raises(UsageError, match="there are 1-0, 1-1"):
            choose_rows("full", wrong)
