"""The tables of a pipeline: what a `table:` sink writes, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.spark.pipeline.specification import Pipeline, SinkSpec, SourceSpec
from headrace.spark.progress import Tally
from headrace.spark.reading.early import early_option
from headrace.spark.table.dead_letters import bad_rows, deletions_of
from headrace.spark.table.description import Description
from headrace.spark.table.files import Files
from headrace.spark.table.layout import PARTITIONS
from headrace.spark.table.opening import opened_beside
from headrace.spark.table.preparing import prepare
from headrace.spark.table.query_progress import QueryProgress
from headrace.spark.table.small_batches import small_batches
from headrace.spark.table.typed_rows import TypedRows
from headrace.spark.table.writer import TableWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.spark.landing_report import LandingReporter


class TableSink:
    """One table. It is created or, if it exists, checked when `query` is called."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, sink: SinkSpec, options: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._sink = sink
        self._options = options
        self._settings = sink.settings
        self._source = pipeline.source_of(sink)
        """A table of a source holds messages; any other view is the result of a query."""

    def query(
        self,
        rows: DataFrame,
        checkpoint: str,
        tally: Tally,
        reporter: LandingReporter | None = None,
        *,
        once: bool = False,
    ) -> tuple[DataFrame, TableWriter]:
        """What the query reads, and what writes its batches."""
        sink = self._sink
        about = self._description()
        typed = self._typed_rows(about)
        rows = typed.decoded(rows) if typed else rows
        schema = typed.schema_of(rows) if typed else rows.schema
        for name in (*sink.key, "seq") if sink.key else ():
            if name not in schema.names:
                sink.node.fail(f"a table with a key needs the column {name}, which {sink.view} does not have")
        table = prepare(self._spark, sink.table, about, schema, self._settings)
        progress = QueryProgress(self._spark, checkpoint)
        report = (
            None
            if reporter is None
            else reporter.landing(
                sink.name,
                table=sink.table,
                format=sink.settings.format,
                streams=about.streams,
                tally=tally,
                progress=progress,
            )
        )
        return rows, TableWriter(
            table,
            progress,
            typed=typed,
            small=small_batches(self._spark, typed, self._source_options(), table, about.partition_by),
            key=() if typed else sink.key,
            may_have_state=self._source is None,
            compact_after=sink.compact_after,
            beside=None if once else opened_beside(self._spark, table, about, self._settings),
            tally=tally,
            report=report,
        )

    def _source_options(self) -> dict[str, str]:
        """The view as the query reads it; see `Queries.rows_of`."""
        if self._source is None:
            return {}
        return {**self._options, **early_option(self._sink.decoding), **self._source.options}

    def _description(self) -> Description:
        sink, sources = self._sink, self._pipeline.sources
        return Description(
            format=sink.settings.format,
            origin=f"the sink {sink.name} of the pipeline {self._pipeline.name}",
            partition_by=sink.partition_by,
            streams=_streams_of(*([self._source] if self._source else sources)),
            subject=self._source.options.get("subject", "") if self._source else "",
            lands_messages=self._source is not None,
            key=sink.key,
            decoding=sink.decoding.to_json() if sink.decoding else {},
            catalog=sink.settings.catalog,
            table=sink.settings.table,
        )

    def _typed_rows(self, about: Description) -> TypedRows | None:
        sink, decoding = self._sink, self._sink.decoding
        if decoding is None:
            return None
        if self._source is None:
            sink.node.fail(
                f"{sink.view} is not a source, and only sources have messages that a schema can describe",
                "leave the schema out, or write `from` a source",
            )
        files = Files(self._spark, sink.table)
        handler = bad_rows(self._spark, sink.on_bad_row, files, about, self._settings, self._options)
        others = set(sink.partition_by) - set(decoding.columns.names)
        made = {name: how for name, how in PARTITIONS.items() if name in others}
        deletions = deletions_of(self._spark, files, about, self._settings) if about.key else None
        return TypedRows(decoding, handler, made, deletions)


def _streams_of(*sources: SourceSpec) -> tuple[str, ...]:
    return tuple(stream for source in sources for stream in source.options["stream"].split(","))
