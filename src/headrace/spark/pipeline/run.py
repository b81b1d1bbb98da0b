"""Runs a pipeline: one streaming query per sink, all in one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import reason_of
from headrace.spark.pipeline.plan import Views
from headrace.spark.pipeline.specification import ONCE, Pipeline, SinkSpec
from headrace.spark.pipeline.tables import TableSink
from headrace.spark.progress import Tally
from headrace.spark.start import start_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headrace.spark.landing_report import LandingReporter

Show = Callable[[str, "DataFrame"], None]
"""Prints the rows of a batch of a sink."""


class Queries:
    """The queries of a pipeline, to be started. With `once`, they process what is there now.

    The server is told how far tables are by `reporter`.
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
        """What the tables count themselves."""

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
        writer = self._views[sink.view].writeStream.queryName(sink.name).outputMode(sink.mode)
        checkpoint = f"{self._pipeline.checkpoint}/{sink.name}"
        writer = writer.option("checkpointLocation", checkpoint)
        if sink.table:
            table = TableSink(self._spark, self._pipeline, sink, self._options)
            tally = self.tallies[sink.name]
            batches = table.writer(self._views[sink.view], checkpoint, tally, self._reporter)
            return writer.foreachBatch(batches.write_batch)
        if sink.console:
            return writer.foreachBatch(lambda batch, number: self._show(sink.name, batch))
        given = {"subject": sink.subject, "stream": sink.stream}
        writer = writer.format("nats").options(**self._options)
        return writer.options(**{name: value for name, value in given.items() if value})


def _trigger(trigger: str) -> dict[str, Any]:
    if trigger == ONCE:
        return {"availableNow": True}
    return {"processingTime": f"{trigger or 0} seconds"}
