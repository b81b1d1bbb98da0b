"""Typed columns: what fits lands, what does not is a dead letter, and can be landed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import UsageError
from headrace.spark.failure import reason_of
from headrace.spark.land import Landing, start_landing
from headrace.spark.payload.schema import read_schema
from headrace.spark.progress import Meter, Progress, Tally
from headrace.spark.table import dead_letter_retry as retry_module
from headrace.spark.table import typed_rows
from headrace.spark.table.dead_letter_retry import Retried, Retry
from headrace.spark.table.interface import Settings
from headrace.spark.table.opening import open_table
from tests.spark.conftest import ONE_SERVER, Nats

pytestmark = [pytest.mark.timeout(300), ONE_SERVER]

FORMATS = ["delta", "iceberg", "parquet"]
OTHERS = [pytest.param(form, marks=pytest.mark.slow) for form in FORMATS[1:]]
DDL = "id BIGINT, amount DOUBLE"
Land = Callable[..., Tally]


def order(number: int, amount: object = 1.5) -> str:
    return json.dumps({"id": number, "amount": amount})


@pytest.fixture
def progress() -> list[Progress]:
    """Of each landing, as it is shown."""
    return []


@pytest.fixture
def land(on: Nats, progress: list[Progress]) -> Land:
    """Lands what is in a stream now; returns what was counted."""

    def run(stream: str, schema: str = "", form: str = "", **settings: Any) -> Tally:
        tally = Tally()
        more = {name: settings.pop(name) for name in ("subject", "metadata", "key") if name in settings}
        landing = Landing(
            stream,
            str(on.directory / "table"),
            {"servers": on.broker.url},
            settings=Settings(form),
            decoding=replace(read_schema(schema), **more).checked() if schema else None,
            **settings,
        )
        query = start_landing(on.spark, landing, once=True, tally=tally)
        query.awaitTermination()
        progress.append(Meter(query, tally).read())
        return tally

    return run


def rows(on: Nats, *columns: str, where: str = "table") -> list[tuple[Any, ...]]:
    table = open_table(on.spark, str(on.directory / where), Settings())
    return sorted(tuple(row) for row in table.read(on.spark).select(*columns).collect())


LETTERS = "table/_headrace/dead-letters"


@pytest.mark.parametrize("form", ["delta", *OTHERS])
def test_bad_rows_become_dead_letters_and_land_when_the_schema_is_corrected(
    on: Nats, land: Land, form: str, progress: list[Progress]
) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.de", [order(1), order(2, "much"), "{", order(3)])
    tally = land(stream, DDL, form, subject=f"{stream}.{{country}}")
    assert (tally.rows, tally.dead_letters) == (2, 2)
    shown = progress[-1]
    assert (shown.rows, shown.rows_read, shown.dead_letters) == (2, 4, 2)  # Spark has scanned them twice
    assert shown.rows_per_second == pytest.approx(4 / shown.batch_seconds)
    assert rows(on, "id", "amount", "country", "seq") == [(1, 1.5, "de", 1), (3, 1.5, "de", 4)]
    letters = rows(on, "seq", "subject", "reason", "batch", where=LETTERS)
    assert [(seq, subject, batch) for seq, subject, _, batch in letters] == [
        (2, f"{stream}.de", 0),
        (3, f"{stream}.de", 0),
    ]
    assert "amount" in letters[0][2]
    latest = open_table(on.spark, str(on.directory / "table"), Settings()).latest()
    assert latest is not None
    assert (latest.rows, latest.dead_letters) == (2, 2)

    on.broker.publish(f"{stream}.at", [order(4, 2)])
    assert land(stream).rows == 1  # the table knows its schema
    directory = str(on.directory / "table")
    assert Retry(on.spark, directory, Settings()).run() == Retried(0, 2)
    land(stream, "id BIGINT, amount DOUBLE, note STRING", form, subject=f"{stream}.{{country}}")
    assert Retry(on.spark, directory, Settings()).run() == Retried(0, 2)


def test_few_dead_letters_and_many_are_the_same(on: Nats, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are explained by the driver, many by Spark's Python processes."""
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.b", ["{", "", order(2, "much"), "\xff"], headers={"Kind": "bad"})
    on.broker.publish(f"{stream}.a", [order(1), "[]"])
    found = []
    for few in (typed_rows.FEW_LETTERS, 4):
        monkeypatch.setattr(typed_rows, "FEW_LETTERS", few)
        table = on.directory / f"table-{few}"
        landing = Landing(stream, str(table), {"servers": on.broker.url}, decoding=read_schema(DDL))
        start_landing(on.spark, landing, once=True).awaitTermination()
        letters = open_table(on.spark, f"{table}/_headrace/dead-letters", Settings()).read(on.spark)
        found.append((letters.schema, letters.orderBy("seq").toArrow().to_pylist()))
    assert len(found[0][1]) == 5
    assert len(found[0][1][0]["headers"]) == 1
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("form", "step"),
    [
        ("delta", "rows"),
        *(pytest.param(form, "rows", marks=pytest.mark.slow) for form in FORMATS[1:]),
        *(
            pytest.param(form, step, marks=pytest.mark.long)
            for form in FORMATS
            for step in ("journal", "letters", "none")
        ),
    ],
)
def test_a_retry_that_is_interrupted_lands_every_letter_once(
    on: Nats, land: Land, form: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies after writing the journal, after landing the rows, or after replacing the letters."""
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", [order(1), order(2), order(300), "{"])
    land(stream, "id TINYINT, amount DOUBLE", form, partition_by="none")
    assert [seq for (seq,) in rows(on, "seq", where=LETTERS)] == [3, 4]
    land(stream, DDL, form, partition_by="none")
    directory = str(on.directory / "table")

    class Killed(BaseException):
        pass

    retry = Retry(on.spark, directory, Settings())
    original: Any
    if step == "journal":
        target: Any = retry.table
        name, before = "commit", True
    else:
        target, name, before = (retry.letters, "replace", step == "rows")
    original = getattr(target, name)

    def dying(*arguments: Any) -> None:
        if not before:
            original(*arguments)
        raise Killed

    if step != "none":
        monkeypatch.setattr(target, name, dying)
        with pytest.raises(Killed):
            retry.run()
    result = Retry(on.spark, directory, Settings()).run()
    assert result.left == 1
    assert rows(on, "id") == [(1,), (2,), (300,)]
    assert [seq for (seq,) in rows(on, "seq", where=LETTERS)] == [4]
    assert Retry(on.spark, directory, Settings()).run() == Retried(0, 1)
    assert not (on.directory / "table" / retry_module.RETRY_JOURNAL).exists()


def test_a_bad_row_can_end_the_query(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", [order(1), order(2, "much")])
    with pytest.raises(Exception, match="does not fit") as raised:
        land(stream, DDL, on_bad_row="fail")
    reason = reason_of(raised.value)
    assert f"message 2 of the stream {stream} does not fit: " in reason
    assert "--on-bad-row dead-letter" in reason
    assert rows(on, "id") == []
    assert land(stream, DDL).dead_letters == 1
    assert rows(on, "id") == [(1,)]


def test_bad_rows_can_go_to_a_stream(on: Nats, land: Land) -> None:
    stream, dead = on.broker.make_stream(), on.broker.make_stream()
    on.broker.publish(f"{stream}.a", [order(1), "{"], {"Kind": "order"})
    assert land(stream, DDL, on_bad_row=f"stream:{dead}").dead_letters == 1
    (message,) = on.broker.messages(dead)
    assert (message.subject, message.data) == (f"{dead}.{stream}.a", b"{")
    assert (message.headers["Kind"], message.headers["Headrace-Sequence"]) == ("order", "2")
    assert message.headers["Headrace-Reason"]


def test_a_key_keeps_the_latest_row_and_deletes(on: Nats, land: Land, progress: list[Progress]) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", [order(1), order(1, 2)])
    on.broker.publish(f"{stream}.b", [order(2)])
    options = {"subject": f"{stream}.{{name}}", "key": ("name",), "partition_by": "none"}
    land(stream, DDL, **options)
    assert rows(on, "name", "id", "amount") == [("a", 1, 2.0), ("b", 2, 1.5)]
    assert progress[-1].summary("landed") == "2 rows landed of 3 read, 0 behind"
    on.broker.publish(f"{stream}.b", [""])
    on.broker.publish(f"{stream}.c", [order(3), ""])
    on.broker.publish(f"{stream}.a", [order(1, 9)])
    on.broker.publish(f"{stream}.d", ["{"])
    land(stream, rows_per_batch=1)
    assert rows(on, "name", "id", "amount") == [("a", 1, 9.0)]
    told = "2 rows landed, 2 deletions, 1 dead letter, 0 behind"
    assert progress[-1].summary("landed") == told
    versions = open_table(on.spark, str(on.directory / "table"), Settings()).versions()
    commits = [info.commit for info in reversed(versions) if info.commit]
    assert [(commit.rows, commit.deletions) for commit in commits] == [
        (2, 0), (0, 1), (1, 0), (0, 1), (1, 0), (0, 0),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="has key name, not none"):
        land(stream, DDL, subject=f"{stream}.{{name}}", partition_by="none")


def test_columns_by_choice_and_partitions_by_a_column(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.de", [order(1)])
    land(stream, DDL, subject=f"{stream}.{{country}}", metadata=("seq",), partition_by="country")
    table = open_table(on.spark, str(on.directory / "table"), Settings())
    assert sorted(table.schema().names) == ["amount", "country", "id", "seq"]
    assert [file.partition for file in table.files()] == [{"country": "de"}]
    assert rows(on, "seq", "id", "country") == [(1, 1, "de")]
    assert land(stream).rows == 0


def test_numbers_widen_and_a_changed_type_is_refused_before_anything_is_written(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", [order(1)])
    land(stream, "id INT, amount FLOAT", partition_by="none")
    on.broker.publish(f"{stream}.a", [order(2**40)])
    land(stream, DDL, partition_by="none")
    on.broker.publish(f"{stream}.a", [order(3)])
    land(stream, "id INT, amount FLOAT", partition_by="none")  # narrower rows fit into the table
    assert rows(on, "id", "amount") == [(1, 1.5), (3, 1.5), (2**40, 1.5)]
    before = open_table(on.spark, str(on.directory / "table"), Settings()).version()
    with pytest.raises(UsageError, match="id cannot change from BIGINT to STRING"):
        land(stream, "id STRING, amount DOUBLE", partition_by="none")
    assert open_table(on.spark, str(on.directory / "table"), Settings()).version() == before


def test_a_name_that_is_there_twice_is_refused(on: Nats, land: Land) -> None:
    stream = on.broker.make_stream()
    with pytest.raises(UsageError, match="would have the column date twice"):
        land(stream, "id BIGINT, date DATE")
    assert not list(Path(on.directory / "table").rglob("*.json"))
