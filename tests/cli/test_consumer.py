"""`headrace consumer` against headrace and nats-server: the same commands give the same results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.consumer.settings import linear_backoff
from tests.cli.commands import assert_one_error_line
from tests.cli.jetstream import (
    KINDS,
    comparable,
    document,
    done,
    invoke,
    jetstream_server,
    publish,
    steady,
    wait_for_acknowledgements,
)

Urls = dict[str, str]

PULL = [
    *("--ack", "all", "--backoff", "linear", "--backoff-steps", "3", "--backoff-min", "1s"),
    *("--backoff-max", "10s", "--deliver", "2", "--description", "Everything", "--filter", "orders.eu"),
    *("--filter", "orders.us,orders.uk", "--headers-only", "--max-deliver", "9", "--max-pending", "50"),
    *("--max-waiting", "20", "--max-pull-batch", "10", "--max-pull-expire", "1m", "--max-pull-bytes", "1MB"),
    *("--pull", "--replay", "original", "--sample", "30", "--inactive-threshold", "1h"),
    *("--memory", "--replicas", "1", "--metadata", "team=shop", "--pause", "2999-01-01T00:00:00Z"),
    *("--pinned-groups", "jobs", "--pinned-ttl", "10s", "--defaults"),
]
PUSH = [
    *("--target", "out.orders", "--deliver-group", "workers", "--ack", "explicit", "--bps", "1000000"),
    *("--wait", "10s", "--deliver", "new"),
]
ORDERED = ["--target", "out.all", "--flow-control", "--heartbeat", "5s", "--deliver", "subject"]


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Urls]:
    """Servers with a stream of three messages."""
    with (
        jetstream_server("headrace", tmp_path_factory.mktemp("ours")) as ours,
        jetstream_server("nats-server", tmp_path_factory.mktemp("theirs")) as theirs,
    ):
        for url in (ours, theirs):
            done(url, "stream", "add", "ORDERS", "--subjects", "orders.*")
            publish(url, "ORDERS", [("orders.eu", b"one", []), ("orders.us", b"two", [("a", "b")])])
            publish(url, "ORDERS", [("orders.eu", b"three", [])])
        yield {"headrace": ours, "nats-server": theirs}


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, urls: Urls) -> Iterator[str]:
    """A server whose stream has no consumers."""
    server = urls[request.param]
    yield server
    for name in document(server, "consumer", "ls", "ORDERS", "--names"):
        done(server, "consumer", "rm", "ORDERS", name, "--force")


SESSION = [
    "consumer ls ORDERS",
    "consumer ls ORDRES",
    "consumer add ORDERS BILLING --filter orders.eu --max-deliver 5 --backoff linear",
    "consumer add ORDERS BILLING --filter orders.eu --max-deliver 50 --backoff linear",
    "consumer add ORDERS PUSH --target out.x --heartbeat 5s --flow-control",
    "consumer add ORDERS LAST --deliver last --ack none",
    "consumer add ORDERS LAST --deliver all",
    "consumer add NONE LAST",
    "consumer ls ORDERS",
    "consumer ls ORDERS --names",
    "consumer next ORDERS BILLING --nak",
    "consumer next ORDERS BILLING --count 2 --no-ack",
    "consumer next ORDERS BILLING --timeout 200ms",
    "consumer next ORDERS PUSH --timeout 200ms",
    "consumer next ORDERS BILING --timeout 200ms",
    "consumer info ORDERS BILLING",
    "consumer info ORDERS PUSH --state",
    "consumer info ORDERS BILING",
    "consumer edit ORDERS BILLING --max-pending 7 --description changed --filter orders.eu,orders.us --force",
    "consumer edit ORDERS BILLING --max-pending 7 --force",
    "consumer edit ORDERS BILLING --max-pending 8 --dry-run",
    "consumer edit ORDERS BILLING --max-pending 8",
    "consumer edit ORDERS BILLING --target out.y --force",
    "consumer pause ORDERS BILLING 2999-01-01T00:00:00Z",
    "consumer pause ORDERS BILLING 2020-01-01T00:00:00Z --force",
    "consumer resume ORDERS BILLING",
    "consumer rm ORDERS BILLING",
    "consumer rm ORDERS BILLING --force",
    "consumer rm ORDERS BILLING --force",
    "consumer rm ORDERS PUSH --force",
    "consumer rm ORDERS LAST --force",
]


def test_a_session_is_the_same_with_both_servers(urls: Urls) -> None:
    for line in SESSION:
        results = {kind: invoke(url, *line.split()) for kind, url in urls.items()}
        if line.startswith("consumer next ORDERS BILLING"):
            for url in urls.values():
                wait_for_acknowledgements(url, "ORDERS", "BILLING")
        ours, theirs = results["headrace"], results["nats-server"]
        assert (ours.code, comparable(ours.text), comparable(ours.errors)) == (
            theirs.code,
            comparable(theirs.text),
            comparable(theirs.errors),
        ), line
        assert "this is a bug" not in ours.errors


def test_every_option_reaches_the_configuration(urls: Urls, tmp_path: Path) -> None:
    saved = tmp_path / "all.json"
    made: dict[str, dict[str, object]] = {}
    for kind, url in urls.items():
        done(url, "consumer", "add", "ORDERS", "PULL", *PULL, "--output", str(saved))
        done(url, "consumer", "add", "ORDERS", "PULL", "--config", str(saved), "--validate")
        created = document(url, "consumer", "add", "ORDERS", "--config", str(saved))
        made[kind] = {"pull": steady(created["config"])}
        made[kind]["push"] = steady(document(url, "consumer", "add", "ORDERS", "PUSH", *PUSH)["config"])
        made[kind]["last"] = steady(document(url, "consumer", "add", "ORDERS", "L", *ORDERED)["config"])
        saved.write_text(json.dumps(document(url, "consumer", "info", "ORDERS", "PULL")))
        same = done(url, "consumer", "edit", "ORDERS", "PULL", "--config", str(saved))
        assert "no differences" in same.errors
        for name in ("PULL", "PUSH", "L"):
            done(url, "consumer", "rm", "ORDERS", name, "-f")
    assert made["headrace"] == made["nats-server"]
    assert made["headrace"]["pull"] == {
        "durable_name": "PULL",
        "name": "PULL",
        "description": "Everything",
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": 2,
        "ack_policy": "all",
        "ack_wait": 10**9,
        "max_deliver": 9,
        "backoff": [10**9, 4 * 10**9, 7 * 10**9],
        "filter_subjects": ["orders.eu", "orders.uk", "orders.us"],
        "replay_policy": "original",
        "sample_freq": "30",
        "max_waiting": 20,
        "max_ack_pending": 50,
        "headers_only": True,
        "max_batch": 10,
        "max_expires": 60 * 10**9,
        "max_bytes": 1 << 20,
        "inactive_threshold": 3600 * 10**9,
        "num_replicas": 1,
        "mem_storage": True,
        "metadata": {"team": "shop"},
        "priority_groups": ["jobs"],
        "priority_policy": "pinned_client",
        "priority_timeout": 10 * 10**9,
    }


def test_an_unknown_stream_is_named(url: str) -> None:
    for command in (("add", "NONE", "C"), ("ls", "NONE"), ("info", "NONE", "C"), ("next", "NONE", "C")):
        result = invoke(url, "consumer", *command)
        assert_one_error_line(result, "there is no stream NONE; there is ORDERS")


def test_starts(url: str) -> None:
    for start, policy in [("all", "all"), ("new", "new"), ("last", "last"), ("1h", "by_start_time")]:
        name = f"FROM_{start}"
        config = document(url, "consumer", "add", "ORDERS", name, "--deliver", start)["config"]
        assert config["deliver_policy"] == policy
    late = document(url, "consumer", "add", "ORDERS", "X", "--deliver", "2999-01-01T00:00:00Z")
    assert late["config"]["opt_start_time"] == "2999-01-01T00:00:00Z"


def test_an_ephemeral_consumer_gets_a_name(url: str) -> None:
    made = document(url, "consumer", "add", "ORDERS", "--ephemeral", "--inactive-threshold", "1h")
    assert "durable_name" not in made["config"]
    assert document(url, "consumer", "ls", "ORDERS", "--names") == [made["name"]]
    result = invoke(url, "consumer", "edit", "ORDERS", made["name"], "--max-pending", "3", "-f")
    assert_one_error_line(result, "ephemeral")


def test_messages_are_read_and_acknowledged(url: str) -> None:
    done(url, "consumer", "add", "ORDERS", "C")
    first = document(url, "consumer", "next", "ORDERS", "C")
    assert [(one["seq"], one["subject"], one["deliveries"], one["pending"]) for one in first] == [
        (1, "orders.eu", 1, 2)
    ]
    assert done(url, "consumer", "next", "ORDERS", "C", "--nak", "--raw").output == b"two\n"
    wait_for_acknowledgements(url, "ORDERS", "C")
    assert done(url, "consumer", "next", "ORDERS", "C", "--term", "--raw").output == b"two\n"
    last = done(url, "consumer", "next", "ORDERS", "C", "--wait", "1ms")
    assert comparable(last.text) == "[3] orders.eu TIME (AGO), delivery 1, 0 pending\n three\n\n"
    assert "1 message acknowledged" in last.errors
    wait_for_acknowledgements(url, "ORDERS", "C")
    state = document(url, "consumer", "info", "ORDERS", "C", "--state")
    assert (state["ack_floor"]["stream_seq"], state["num_ack_pending"], state["num_pending"]) == (3, 0, 0)
    assert_one_error_line(invoke(url, "consumer", "next", "ORDERS", "C", "--timeout", "100ms"), "no message")
    short = invoke(url, "consumer", "next", "ORDERS", "C", "--count", "2", "--timeout", "100ms", "--json")
    assert (short.code, json.loads(short.text)) == (1, [])


def test_a_consumer_without_acknowledgements_needs_none(url: str) -> None:
    done(url, "consumer", "add", "ORDERS", "C", "--ack", "none")
    assert (
        done(url, "consumer", "next", "ORDERS", "C", "--count", "3", "--raw").output == b"one\ntwo\nthree\n"
    )


def test_a_paused_consumer_delivers_nothing_until_it_is_resumed(url: str) -> None:
    done(url, "consumer", "add", "ORDERS", "C")
    assert document(url, "consumer", "pause", "ORDERS", "C", "1h", "-f")["paused"] is True
    assert "Paused for" in done(url, "consumer", "info", "ORDERS", "C").text
    assert "pull, paused" in done(url, "consumer", "ls", "ORDERS").text
    assert invoke(url, "consumer", "next", "ORDERS", "C", "--timeout", "100ms").code == 1
    assert "nobody to ask" in invoke(url, "consumer", "resume", "ORDERS", "C").errors
    assert "resumed" in done(url, "consumer", "resume", "ORDERS", "C", "-f").errors
    assert done(url, "consumer", "next", "ORDERS", "C", "--raw").output == b"one\n"


@pytest.mark.parametrize(
    "line",
    [
        "consumer add S",
        "consumer add S a.b",
        "consumer add a.b C",
        "consumer add S C --deliver yesterday",
        "consumer add S C --backoff-steps 3",
        "consumer add S C --heartbeat 5s",
        "consumer add S C --bps 5",
        "consumer add S C --pull --target x",
        "consumer add S C --pinned-groups a --overflow-groups b",
        "consumer add S C --sample 101",
        "consumer next S C --nak --term",
        "consumer next S C --raw --json",
        "consumer next S C --count 0",
        "consumer pause S C",
        "consumer pause S C soon",
    ],
)
def test_wrong_command_lines(line: str) -> None:
    assert_one_error_line(invoke("nats://127.0.0.1:1", *line.split()), "--help", code=2)


def test_a_linear_backoff_has_equal_steps() -> None:
    assert linear_backoff(4, 1000, 10**9) == [0, 250 * 10**6, 500 * 10**6, 750 * 10**6]
    assert linear_backoff(1, 60 * 10**9, 60 * 10**9) == [60 * 10**9]
