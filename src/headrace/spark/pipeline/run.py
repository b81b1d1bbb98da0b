"""Runs a pipeline: one streaming query per sink, all in one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import reason_of
from headrace.spark.pipeline.plan import Views, read_source
from headrace.spark.pipeline.specification import ONCE, Pipeline, SinkSpec
from headrace.spark.pipeline.tables import TableSink
from headrace.spark.progress import Tally
from headrace.spark.reading.early import early_option
from headrace.spark.start import start_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headrace.spark.landing_report import LandingReporter

_PLACE = "_headrace_place"

Show = Callable[[str, "DataFrame"], None]
"""Prints the rows of a batch of a sink."""


class Queries:
    """The queries of a pipeline, to be started. With `once`, they process only what is there now.

    `reporter` sends the progress of tables to the server.
    """

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        views: Views,
        options: Mapping[str, str],
        show: Show,
        *,
        once: bool = False,
        reporter: LandingReporter | None = None,
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._views = views
        self._options = options
        self._show = show
        self._once = once
        self._reporter = reporter
        self._sinks = {sink.name: sink for sink in pipeline.sinks}
        self.tallies = {sink.name: Tally() for sink in pipeline.sinks if sink.table}
        """What the tables themselves count."""

    def start_all(self) -> dict[str, StreamingQuery]:
        """One query for each sink. If one cannot start, the others are stopped."""
        queries: dict[str, StreamingQuery] = {}
        try:
            for name in self._sinks:
                queries[name] = self.start(name)
        except BaseException:
            for query in queries.values():
                query.stop()
            raise
        return queries

    def start(self, name: str) -> StreamingQuery:
        """Start the query of one sink, or restart it: it resumes from its checkpoint."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        sink = self._sinks[name]
        try:
            query = start_query(self._writer(sink).trigger(**_trigger(ONCE if self._once else sink.trigger)))
        except (PySparkException, Py4JJavaError) as error:
            sink.node.fail(" ".join(reason_of(error).split()))
        if self._reporter:
            self._reporter.runs(name, query)
        return query

    def _writer(self, sink: SinkSpec) -> DataStreamWriter:
        rows, batches = self.rows_of(sink), None
        checkpoint = f"{self._pipeline.checkpoint}/{sink.name}"
        if sink.table:
            table = TableSink(self._spark, self._pipeline, sink, self._options)
            once = self._once or sink.trigger == ONCE
            rows, batches = table.query(rows, checkpoint, self.tallies[sink.name], self._reporter, once=once)
        writer = rows.writeStream.queryName(sink.name).outputMode(sink.mode)
        writer = writer.option("checkpointLocation", checkpoint)
        if batches:
            return writer.foreachBatch(batches.write_batch)
        if sink.console:
            whole = self._pipeline.source_of(sink) is None
            return writer.foreachBatch(
                lambda batch, number: self._show(sink.name, _whole(batch) if whole else batch)
            )
        given = {"subject": sink.subject, "stream": sink.stream}
        writer = writer.format("nats").options(**self._options)
        return writer.options(**{name: value for name, value in given.items() if value})

    def rows_of(self, sink: SinkSpec) -> DataFrame:
        """Its view; for a source whose payloads can be decoded while they are read, one that does that."""
        source = self._pipeline.source_of(sink)
        early = early_option(sink.decoding)
        if source is None or not early:
            return self._views[sink.view]
        return read_source(self._spark, source, {**self._options, **early})


def _whole(batch: DataFrame) -> DataFrame:
    """Makes Spark compute all rows, even if only the first ones are used.

    Computing them also writes the state of windows and counts; the next batch would not find what is missing.
    The rows keep their order, which a query may have chosen.
    """
    from pyspark.sql import functions as F  # noqa: N812

    numbered = batch.withColumn(_PLACE, F.monotonically_increasing_id())
    return numbered.repartition(1).sortWithinPartitions(_PLACE).drop(_PLACE)


def _trigger(trigger: str) -> dict[str, Any]:
    if trigger == ONCE:
        return {"availableNow": True}
    return {"processingTime": f"{trigger or 0} seconds"}
