"""A query that fails at each step of a batch, and is started again: rows and dead letters are there once.

As `test_kills`, but in one process: what is in the checkpoint and in the tables is the same as after a kill.
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.spark import land
from headrace.spark.land import Landing, start_landing
from headrace.spark.payload.schema import read_schema
from headrace.spark.table.bad_rows import ToTable
from headrace.spark.table.interface import Settings
from headrace.spark.table.opening import open_table
from headrace.spark.table.writer import TableWriter
from tests.spark.conftest import ONE_SERVER, Nats

pytestmark = [pytest.mark.timeout(300), ONE_SERVER]

STEPS = {
    "nothing is written": ("write", False),
    "the files are written, and the dead letters committed": ("commit", False),
    "all is committed": ("commit", True),
    "files are merged": ("compact", True),
}


class Failing(TableWriter):
    """Fails before or after a call of its table."""

    call, after = "", False

    def __init__(self, table: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(table, *arguments, **options)
        method = getattr(table, self.call)

        def fail(*given: Any) -> None:
            if self.after:
                method(*given)
            raise RuntimeError("killed here")

        setattr(table, self.call, fail)


def seqs(on: Nats, where: str) -> list[int]:
    table = open_table(on.spark, str(on.directory / where), Settings())
    return sorted(row.seq for row in table.read(on.spark).select("seq").collect())


@pytest.mark.parametrize(
    "form", ["delta", *(pytest.param(form, marks=pytest.mark.slow) for form in ("iceberg", "parquet"))]
)
def test_a_query_that_fails_at_any_step_lands_every_message_once(
    on: Nats, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = on.broker.make_stream()
    landing = Landing(
        stream,
        str(on.directory / "table"),
        {"servers": on.broker.url},
        "none",
        compact_after=1,
        settings=Settings(form),
        decoding=read_schema("id BIGINT"),
    )
    good, bad, last = [], [], 0
    for call, after in STEPS.values():
        on.broker.publish(f"{stream}.a", ['{"id": 1}', "bad", '{"id": 2}'])
        good, bad, last = [*good, last + 1, last + 3], [*bad, last + 2], last + 3
        Failing.call, Failing.after = call, after
        monkeypatch.setattr(land, "TableWriter", Failing)
        with pytest.raises(Exception, match="killed here"):
            start_landing(on.spark, landing, once=True).awaitTermination()
        monkeypatch.setattr(land, "TableWriter", TableWriter)
        start_landing(on.spark, landing, once=True).awaitTermination()
        assert seqs(on, "table") == good
    assert seqs(on, "table/_headrace/dead-letters") == bad


def test_dead_letters_that_cannot_be_written_hold_the_batch_back(
    on: Nats, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.a", ["bad", "worse"])
    landing = Landing(
        stream, str(on.directory / "table"), {"servers": on.broker.url}, decoding=read_schema("id BIGINT")
    )

    def fail(*given: Any) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr(ToTable, "take", fail)
        with pytest.raises(Exception, match="killed here"):
            start_landing(on.spark, landing, once=True).awaitTermination()
    assert open_table(on.spark, landing.directory, Settings()).latest() is None
    start_landing(on.spark, landing, once=True).awaitTermination()
    latest = open_table(on.spark, landing.directory, Settings()).latest()
    assert latest is not None
    assert (latest.rows, latest.dead_letters, seqs(on, "table/_headrace/dead-letters")) == (0, 2, [1, 2])
