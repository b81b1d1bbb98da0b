"""`headrace stream backup` and `restore`: from either server to either, in the directory of the nats tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import assert_one_error_line
from tests.cli.jetstream import (
    KINDS,
    document,
    done,
    invoke,
    jetstream_server,
    publish,
    steady,
    wait_for_acknowledgements,
)

Urls = dict[str, str]

MESSAGES = [(f"orders.{number % 7}", b"%d" % number * 50, [("N", str(number))]) for number in range(5000)]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Urls]:
    """Servers with a stream that has gaps, and a consumer that has read some of it."""
    with (
        jetstream_server("headrace", tmp_path_factory.mktemp("ours")) as ours,
        jetstream_server("nats-server", tmp_path_factory.mktemp("theirs")) as theirs,
    ):
        for url in (ours, theirs):
            done(url, "stream", "add", "ORDERS", "--subjects", "orders.*", "--metadata", "team=shop")
            publish(url, "ORDERS", MESSAGES)
            done(url, "stream", "purge", "ORDERS", "--subject", "orders.3", "-f")
            done(url, "consumer", "add", "ORDERS", "BILLING", "--filter", "orders.1")
            done(url, "consumer", "next", "ORDERS", "BILLING", "--count", "5", "--raw")
            wait_for_acknowledgements(url, "ORDERS", "BILLING")
        yield {"headrace": ours, "nats-server": theirs}


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_a_stream_moves_from_any_server_to_any(
    sources: Urls, source: str, target: str, tmp_path: Path
) -> None:
    directory = str(tmp_path / "backup")
    saved = done(sources[source], "stream", "backup", "ORDERS", directory, "--chunk-size", "16KB")
    assert "backed up the stream ORDERS with 4,286 messages" in saved.errors
    assert sorted(path.name for path in Path(directory).iterdir()) == ["backup.json", "stream.tar.s2"]
    before = {
        "messages": document(sources[source], "stream", "view", "ORDERS", "--last", "50"),
        "stream": steady(document(sources[source], "stream", "info", "ORDERS")),
        "consumer": steady(document(sources[source], "consumer", "info", "ORDERS", "BILLING")),
    }
    with jetstream_server(target, tmp_path / "store") as url:  # type: ignore[arg-type]
        restored = document(url, "stream", "restore", directory)
        assert restored["state"]["messages"] == 4286
        assert {
            "messages": document(url, "stream", "view", "ORDERS", "--last", "50"),
            "stream": steady(document(url, "stream", "info", "ORDERS")),
            "consumer": steady(document(url, "consumer", "info", "ORDERS", "BILLING")),
        } == before
        refused = invoke(url, "stream", "restore", directory)
        assert_one_error_line(refused, "there is a stream ORDERS already", "headrace stream rm ORDERS")
        next_one = document(url, "consumer", "next", "ORDERS", "BILLING")
        assert next_one[0]["consumer_seq"] == 6


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_backup_and_a_restore_can_leave_out_or_change(
    sources: Urls, kind: str, tmp_path: Path
) -> None:
    directory = tmp_path / "backup"
    done(sources[kind], "stream", "backup", "ORDERS", str(directory), "--no-consumers", "--check")
    other = tmp_path / "other.json"
    config = json.loads((directory / "backup.json").read_text())["config"]
    other.write_text(json.dumps({**config, "subjects": ["others.*"]}))
    renamed = tmp_path / "renamed.json"
    renamed.write_text(json.dumps({**config, "name": "OTHER"}))
    with jetstream_server(kind, tmp_path / "store") as url:  # type: ignore[arg-type]
        refused = invoke(url, "stream", "restore", str(directory), "--config", str(renamed))
        assert_one_error_line(refused, "keeps its name")
        info = document(url, "stream", "restore", str(directory), "--config", str(other), "--replicas", "1")
        assert info["config"]["subjects"] == ["others.*"]
        assert document(url, "consumer", "ls", "ORDERS") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_that_fails_leaves_the_one_before(sources: Urls, kind: str, tmp_path: Path) -> None:
    url, directory = sources[kind], tmp_path / "backup"
    assert_one_error_line(invoke(url, "stream", "backup", "ORDRES", str(directory)), "did you mean ORDERS")
    assert not directory.exists()
    directory.mkdir()
    (directory / "stream.tar.s2").write_bytes(b"before")
    assert_one_error_line(invoke(url, "stream", "backup", "ORDRES", str(directory)), "no stream ORDRES")
    assert [path.name for path in directory.iterdir()] == ["stream.tar.s2"]
    (tmp_path / "file").write_bytes(b"")
    result = invoke(url, "stream", "backup", "ORDERS", str(tmp_path / "file"))
    assert_one_error_line(result, "cannot write the backup")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_backup_is_not_restored(sources: Urls, kind: str, tmp_path: Path) -> None:
    url, directory = sources[kind], tmp_path / "backup"
    directory.mkdir()
    restore = ("stream", "restore", str(directory))
    assert_one_error_line(invoke(url, *restore), "has no backup.json")
    for text, part in [
        ("{}", "has no stream.tar.s2"),
        ("[", "is not JSON"),
        ("[1]", "needs a config and a state"),
        ('{"config": {"name": "a.b"}, "state": {}}', "no valid name"),
        ('{"config": {"name": ["x"]}, "state": {}}', "no valid name"),
        ('{"config": {"name": "BROKEN"}, "state": {}}', ""),
    ]:
        (directory / "backup.json").write_text(text)
        assert_one_error_line(invoke(url, *restore), part)
        if text == "{}":
            (directory / "stream.tar.s2").write_bytes(b"no archive")
    assert document(url, "stream", "ls", "--names") == ["ORDERS"]
