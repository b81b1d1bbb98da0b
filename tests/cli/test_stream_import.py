"""`headrace stream import` and the stream's configuration: what it refuses is known before the import."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import assert_one_error_line
from tests.cli.jetstream import KINDS, document, done, invoke, jetstream_server, publish

FORMATS = ("ndjson", "parquet")


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with jetstream_server(request.param, tmp_path / "store") as server:
        yield server


def add(url: str, name: str, *options: str) -> None:
    done(url, "stream", "add", name, "--subjects", f"{name.lower()}.>", *options)


def write(path: Path, *lines: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def count(url: str, name: str) -> int:
    return int(document(url, "stream", "info", name)["state"]["messages"])


def total(url: str, subject: str) -> str:
    text = done(url, "stream", "get", "A", "--last-for", subject).text
    return text.partition('{"val":"')[2].partition('"')[0]


@pytest.mark.parametrize("form", FORMATS)
def test_counters_come_back_with_their_sums(url: str, form: str, tmp_path: Path) -> None:
    """Also one whose first messages are gone, and however often the file is imported."""
    add(url, "A", "--allow-counter")
    increments = [("a.x", "5"), ("a.y", "100"), ("a.x", "+2"), ("a.y", "-1"), ("a.x", "10")]
    publish(url, "A", [(subject, b"", [("Nats-Incr", value)]) for subject, value in increments])
    done(url, "stream", "purge", "A", "--seq", "3", "--force")
    path = str(tmp_path / f"a.{form}")
    done(url, "stream", "export", "A", path)
    done(url, "stream", "rm", "A", "--force")
    add(url, "A", "--allow-counter")
    assert "has 3 messages that A can store" in done(url, "stream", "import", path, "A", "--dry-run").errors
    done(url, "stream", "import", path, "A")
    assert (total(url, "a.x"), total(url, "a.y")) == ("17", "99")
    repeated = done(url, "stream", "import", path, "A")
    assert "imported 0 messages" in repeated.errors
    assert (total(url, "a.x"), total(url, "a.y"), count(url, "A")) == ("17", "99", 3)


@pytest.mark.parametrize(
    ("options", "line", "reason"),
    [
        ((), {"headers": {"Nats-TTL": "1h"}}, "--allow-msg-ttl"),
        ((), {"headers": {"Nats-Rollup": "sub"}}, "--allow-rollup"),
        ((), {"headers": {"Nats-Incr": "1"}}, "stores no counters"),
        (("--max-msg-size", "400"), {"data": "x" * 400}, "stores at most 400"),
        (("--allow-counter",), {"data": "text"}, "stores counters"),
    ],
)
def test_what_the_stream_does_not_allow_is_named_before_anything_is_imported(
    url: str, options: tuple[str, ...], line: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    add(url, "A", *options)
    good: dict[str, Any] = {"subject": "a.1"}
    if "--allow-counter" in options:
        good["headers"] = {"Nats-Incr": "1"}
    path = write(tmp_path / "a.ndjson", good, {"subject": "a.2", **line}, good)
    for more in (("--dry-run",), ()):
        result = invoke(url, "stream", "import", path, "A", *more)
        assert_one_error_line(result, f"{path}: line 2: ", reason)
    assert count(url, "A") == 0


def test_an_import_that_is_refused_in_the_middle_says_what_is_stored_and_how_to_continue(
    url: str, tmp_path: Path
) -> None:
    add(url, "A", "--max-msgs-per-subject", "1", "--discard", "new", "--discard-per-subject")
    lines = [{"subject": f"a.{name}", "data": str(seq)} for seq, name in enumerate("xxy", 1)]
    path = write(tmp_path / "a.ndjson", *lines)
    result = invoke(url, "stream", "import", path, "A")
    assert_one_error_line(
        result, f"{path}: line 2: ", "A has stored 2 messages since the import began", "repeat the import"
    )
    write(tmp_path / "a.ndjson", lines[0], {"subject": "a.z", "data": "2"}, lines[2])
    assert "imported 1 message into A" in done(url, "stream", "import", path, "A").errors
    assert count(url, "A") == 3


def test_messages_of_a_stream_with_sources_can_be_imported(url: str, tmp_path: Path) -> None:
    add(url, "A")
    publish(url, "A", [("a.1", b"x", [("K", "v")])])
    done(url, "stream", "add", "ALL", "--source", "A")
    path = str(tmp_path / "all.ndjson")
    while not count(url, "ALL"):
        time.sleep(0.02)
    done(url, "stream", "export", "ALL", path)
    done(url, "stream", "rm", "ALL", "--force")
    done(url, "stream", "purge", "A", "--force")
    assert "imported 1 message" in done(url, "stream", "import", path, "A").errors
