"""`headrace land` with wrong options: one line that says what to do, before Spark starts; nothing is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import assert_one_error_line, run
from tests.spark.conftest import ONE_SERVER, Broker

pytestmark = [pytest.mark.timeout(180), ONE_SERVER]

COLUMNS = ["--schema", "id BIGINT"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--schema", "id BIGNT"], ["BIGNT is not a type", "did you mean BIGINT?"]),
        (["--schema", "nowhere.avsc"], ["there is no file nowhere.avsc"]),
        (["--schema", " "], ["--schema is empty", "leave it out"]),
        (["--payload", "avro"], ["avro payloads need a schema", "--schema"]),
        ([*COLUMNS, "--key", "name"], ["the key name is not a column", "id"]),
        ([*COLUMNS, "--columns", "seq,size"], ["a message has no column size"]),
        (["--key", "id"], ["a key needs columns", "give a schema"]),
        ([*COLUMNS, "--on-bad-row", "shred"], ["'shred'", "dead-letter, fail or stream:NAME"]),
        ([*COLUMNS, "--on-bad-row", "stream:NOWHERE"], ["NOWHERE", "there is no such stream"]),
        (["--format", "orc"], ["'orc' is not one of 'delta', 'iceberg', 'parquet'"]),
        (["--storage-option", "region"], ["'region' has no value", "NAME=VALUE"]),
        ([*COLUMNS, "--text"], ["--payload text"]),
    ],
)
def test_a_wrong_option_is_reported_in_one_line(
    broker: Broker, tmp_path: Path, options: list[str], expected: list[str]
) -> None:
    stream = broker.make_stream()
    done = run("land", stream, "--to", str(tmp_path / "table"), "-s", broker.url, *options)
    assert_one_error_line(done, *expected, code=done.code)
    assert done.code in (1, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_schema_is_proposed_and_nothing_is_landed(broker: Broker) -> None:
    stream = broker.make_stream(["retry.>"], name="retry")  # as the subcommand is called
    broker.publish("retry.a", ['{"id": 1, "tags": ["a"]}', '{"id": 2}', "{"])
    done = run("land", stream, "--infer", "-s", broker.url)
    broker.delete_stream(stream)
    assert done.code == 0, done.errors
    assert done.text.splitlines()[0] == "id BIGINT NOT NULL, tags ARRAY<STRING>"
    assert "1 of 3 payloads are not JSON objects" in done.text
