"""`headrace kv` against headrace and nats-server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from nats import connect

from tests.cli.commands import SECONDS, assert_one_error_line, started
from tests.cli.conftest import KINDS
from tests.cli.more.conftest import Broker, started_broker
from tests.cli.more.in_process import run_here
from tests.servers import ServerKind, reserved_port, running_server

BINARY = bytes(range(256))


def test_values_and_revisions(broker: Broker) -> None:
    assert broker.json("kv", "add", "values", "--history", "3")["history"] == 3
    assert broker.ok("kv", "put", "values", "a.b", "one") == "values > a.b stored, revision 1\n"
    assert broker.json("kv", "put", "values", "a.b", "two") == {
        "bucket": "values",
        "key": "a.b",
        "revision": 2,
    }
    assert broker.ok("kv", "get", "values", "a.b", "--raw") == "two"
    assert broker.ok("kv", "get", "values", "a.b", "--raw", "--revision", "1") == "one"
    shown = broker.json("kv", "get", "values", "a.b")
    assert shown.pop("created").startswith("20")
    assert shown == {
        "bucket": "values",
        "key": "a.b",
        "revision": 2,
        "operation": "PUT",
        "length": 3,
        "value": "two",
    }
    assert "values > a.b revision: 2 created @ 20" in broker.ok("kv", "get", "values", "a.b")

    assert broker.ok("kv", "update", "values", "a.b", "three", "2").endswith("revision 3\n")
    stale = broker.run("kv", "update", "values", "a.b", "four", "2")
    assert_one_error_line(stale, "does not have revision 2 any more")
    taken = broker.run("kv", "create", "values", "a.b", "five")
    assert_one_error_line(taken, "exists (revision 3)", "kv update")
    broker.ok("kv", "create", "values", "new", "x")
    assert broker.ok("kv", "ls", "values") == "a.b\nnew\n"
    assert broker.ok("kv", "ls", "values", "a.>") == "a.b\n"


def test_removals(broker: Broker) -> None:
    broker.ok("kv", "add", "removals", "--history", "5")
    for value in ("one", "two"):
        broker.ok("kv", "put", "removals", "k", value)
    assert broker.ok("kv", "del", "removals", "k", "-f") == "removals > k deleted\n"
    assert_one_error_line(broker.run("kv", "get", "removals", "k"), "key k of bucket removals was deleted")
    assert broker.ok("kv", "ls", "removals") == "No keys found in bucket\n"
    history = broker.json("kv", "history", "removals", "k")
    assert [(entry["revision"], entry["operation"], entry.get("value")) for entry in history] == [
        (1, "PUT", "one"),
        (2, "PUT", "two"),
        (3, "DELETE", None),
    ]
    broker.ok("kv", "revert", "removals", "k", "1", "-f")
    assert broker.ok("kv", "get", "removals", "k", "--raw") == "one"
    broker.ok("kv", "purge", "removals", "k", "--force")
    assert_one_error_line(broker.run("kv", "get", "removals", "k"), "was purged")
    assert [entry["operation"] for entry in broker.json("kv", "history", "removals", "k")] == ["PURGE"]
    assert broker.ok("kv", "compact", "removals", "-f") == "1 deleted key compacted\n"
    assert broker.ok("kv", "create", "removals", "k", "again").endswith("revision 6\n")
    assert broker.ok("kv", "rm", "removals", "-f") == "Bucket removals deleted\n"
    assert_one_error_line(broker.run("kv", "ls", "removals"), "there is no bucket removals", "kv add")


def test_any_bytes(broker: Broker) -> None:
    broker.ok("kv", "add", "bytes")
    for number, data in enumerate((BINARY, b"", b"\r\n+OK\r\n\x1b[2J", bytes(1024 * 1024))):
        broker.ok("kv", "put", "bytes", f"k{number}", stdin=data)
        assert broker.run("kv", "get", "bytes", f"k{number}", "--raw").output == data
    assert "\x1b" not in broker.ok("kv", "get", "bytes", "k2")
    assert "value_base64" in broker.json("kv", "get", "bytes", "k0")
    too_large = broker.run("kv", "put", "bytes", "k", stdin=bytes(1024 * 1024 + 1))
    assert_one_error_line(too_large, "accepts at most")


def test_many_keys(broker: Broker) -> None:
    """More than one request of a read returns."""
    broker.ok("kv", "add", "many")

    async def fill() -> None:
        client = await connect(broker.url)
        jetstream = client.jetstream(timeout=30)
        for number in range(2500):
            await jetstream.publish_async(f"$KV.many.k{number:04}", b"x")
        await jetstream.publish_async_completed()
        await client.close()

    asyncio.run(fill())
    assert broker.ok("kv", "ls", "many").split() == [f"k{number:04}" for number in range(2500)]


def test_what_nats_py_stored_is_read_and_the_other_way_round(broker: Broker) -> None:
    broker.ok("kv", "add", "both", "--history", "2")

    async def check() -> None:
        client = await connect(broker.url)
        bucket = await client.jetstream(timeout=30).key_value("both")
        await bucket.put("theirs", b"from nats-py")
        assert (await bucket.get("ours")).value == b"from headrace"
        assert (await bucket.status()).history == 2
        await client.close()

    broker.ok("kv", "put", "both", "ours", "from headrace")
    asyncio.run(check())
    assert broker.ok("kv", "get", "both", "theirs", "--raw") == "from nats-py"


def test_the_options_of_a_bucket(broker: Broker) -> None:
    shown = broker.json(
        *("kv", "add", "options", "--description", "sümmary", "--history", "64", "--storage", "m"),
        *("--ttl", "1h30m", "--marker-ttl", "10s", "--max-value-size", "1KB", "--max-bucket-size", "1MiB"),
        *("--compress", "--metadata", "team=shop", "--republish-destination", "changes.>"),
    )
    expected = {
        "description": "sümmary",
        "history": 64,
        "storage": "memory",
        "ttl": 5400 * 10**9,
        "marker_ttl": 10 * 10**9,
        "max_value_size": 1024,
        "max_bucket_size": 1024 * 1024,
        "compressed": True,
        "replicas": 1,
        "stream": "KV_options",
    }
    assert {name: shown[name] for name in expected} == expected
    text = broker.ok("kv", "info", "options")
    assert all(part in text for part in ("sümmary", "1h30m", "team=shop", "to changes.>", "1 KiB"))
    broker.ok("kv", "create", "options", "short", "lived", "--ttl", "1h")
    assert_one_error_line(broker.run("kv", "put", "options", "k", stdin=bytes(2000)), "maximum")

    broker.ok("kv", "add", "copy", "--mirror", "options")
    broker.ok("kv", "add", "collected", "--source", "options")
    for name in ("copy", "collected"):
        while not broker.json("kv", "ls", name):
            pass
    assert broker.ok("kv", "get", "copy", "short", "--raw") == "lived"
    assert broker.ok("kv", "get", "collected", "short", "--raw") == "lived"
    names = broker.ok("kv", "ls", "--names").split()
    assert {"options", "copy", "collected"} <= set(names)
    assert names == sorted(names)


def test_watching(broker: Broker) -> None:
    broker.ok("kv", "add", "watched", "--history", "5")
    for value in ("one", "two"):
        broker.ok("kv", "put", "watched", "a.b", value)
    broker.ok("kv", "put", "watched", "other", "x")
    with (
        started("kv", "watch", "watched", "a.*", "-s", broker.url, ready="two") as last,
        started("kv", "watch", "watched", "--json", "--history", "-s", broker.url, ready="other") as history,
    ):
        broker.ok("kv", "del", "watched", "a.b", "-f")
        broker.ok("kv", "put", "watched", "a.b", "t\x1bhree")
        last.wait_for("hree")
        history.wait_for("hree")
        assert (last.end(), history.end()) == (0, 0)
        lines = [line.partition("] ")[2] for line in last.text.splitlines()]
        assert lines == [
            "PUT watched > a.b: two",
            "DELETE watched > a.b",
            "PUT watched > a.b: t\\x1bhree",
        ]
        seen = [json.loads(line) for line in history.text.splitlines()]
        assert [(entry["revision"], entry["key"], entry["operation"]) for entry in seen] == [
            (1, "a.b", "PUT"),
            (2, "a.b", "PUT"),
            (3, "other", "PUT"),
            (4, "a.b", "DELETE"),
            (5, "a.b", "PUT"),
        ]
        assert "Traceback" not in last.errors + history.errors


@pytest.mark.parametrize("kind", KINDS)
def test_a_watch_goes_on_when_the_server_is_back(kind: ServerKind, tmp_path: Path) -> None:
    with reserved_port() as port, started_broker(kind, tmp_path, "-p", str(port)) as first:
        first.ok("kv", "add", "config")
        first.ok("kv", "put", "config", "a", "before")
        with started("kv", "watch", "config", "-s", first.url, ready="before") as watch:
            first.server.process.terminate()
            first.server.process.wait()
            watch.wait_for("lost the connection")
            with started_broker(kind, tmp_path, "-p", str(port)) as second:
                watch.wait_for("reconnected")
                second.ok("kv", "put", "config", "a", "after")
                watch.wait_for("after")
                assert watch.end() == 0
            assert [line.rpartition(" ")[2] for line in watch.text.splitlines()] == ["before", "after"]


def test_a_watch_ends_when_its_bucket_is_removed(broker: Broker) -> None:
    broker.ok("kv", "add", "gone")
    with started("kv", "watch", "gone", "-s", broker.url, ready="watching") as watch:
        broker.ok("kv", "put", "gone", "a", "x")
        watch.wait_for("gone > a: x")
        broker.ok("kv", "del", "gone", "-f")
        assert watch.process.wait(SECONDS) == 1
        assert watch.errors.splitlines()[-1].startswith("headrace: ")
        assert "stream not found" in watch.errors


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_without_jetstream(kind: ServerKind) -> None:
    with running_server(kind) as server:
        for command in (("ls",), ("add", "b"), ("get", "b", "k"), ("watch", "b")):
            result = run_here("kv", *command, NATS_URL=f"nats://{server.host}:{server.port}")
            assert_one_error_line(result, "has no JetStream", "-js")


@pytest.mark.parametrize(
    "arguments",
    [
        ("get", "a b", "k"),
        ("get", "a.b", "k"),
        ("get", "b", ""),
        ("get", "b", ".k"),
        ("get", "b", "k."),
        ("get", "b", "k..l"),
        ("get", "b", "k*"),
        ("get", "b", "k\r\nPUB x 0"),
        ("put", "b", "grün", "x"),
        ("watch", "b", ">.x"),
        ("watch", "b", "a*"),
        ("watch", "b", "--history", "--updates"),
        ("add", "b", "--history", "65"),
        ("add", "b", "--ttl", "soon"),
        ("add", "b", "--max-bucket-size", "much"),
        ("update", "b", "k", "v", "-1"),
        ("get", "b", "k", "--raw", "--json"),
    ],
)
def test_wrong_arguments(arguments: tuple[str, ...]) -> None:
    assert_one_error_line(run_here("kv", *arguments), "--help", code=2)


@pytest.mark.parametrize(
    "arguments",
    [("del", "b", "k"), ("del", "b"), ("purge", "b", "k"), ("compact", "b"), ("revert", "b", "k", "1")],
)
def test_nothing_is_removed_unasked(arguments: tuple[str, ...]) -> None:
    assert_one_error_line(run_here("kv", *arguments), "--force")


def test_no_server() -> None:
    result = run_here("kv", "ls", "-s", "nats://127.0.0.1:1")
    assert_one_error_line(result, "no server listens at 127.0.0.1:1")
