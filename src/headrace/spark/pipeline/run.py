"""Runs a pipeline: one streaming query per sink, all in one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import reason_of
from headrace.spark.pipeline.plan import Views
from headrace.spark.pipeline.specification import ONCE, Pipeline, SinkSpec
from headrace.spark.start import start_query
from headrace.spark.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Show = Callable[[str, "DataFrame"], None]
"""Shows the rows of a batch of a sink on the screen."""


def start_queries(
    spark: SparkSession,
    pipeline: Pipeline,
    views: Views,
    options: Mapping[str, str],
    show: Show,
    *,
    once: bool = False,
) -> dict[str, StreamingQuery]:
    """Start a query for each sink. If one cannot start, those that have are stopped.

    With `once`, all of them end when they have processed what is there now.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    queries: dict[str, StreamingQuery] = {}
    try:
        for sink in pipeline.sinks:
            try:
                writer = _writer(spark, pipeline, sink, views[sink.view], options, show)
                trigger = _trigger(ONCE if once else sink.trigger)
                queries[sink.name] = start_query(writer.trigger(**trigger))
            except (PySparkException, Py4JJavaError) as error:
                sink.node.fail(" ".join(reason_of(error).split()))
    except BaseException:
        for query in queries.values():
            query.stop()
        raise
    return queries


def _writer(
    spark: SparkSession,
    pipeline: Pipeline,
    sink: SinkSpec,
    rows: DataFrame,
    options: Mapping[str, str],
    show: Show,
) -> DataStreamWriter:
    writer = rows.writeStream.queryName(sink.name).outputMode(sink.mode)
    writer = writer.option("checkpointLocation", f"{pipeline.checkpoint}/{sink.name}")
    if sink.table:
        table = Table(
            spark,
            sink.table,
            origin=f"the sink {sink.name} of the pipeline {pipeline.name}",
            partition_by=sink.partition_by,
            compact_after=sink.compact_after,
        )
        return writer.foreachBatch(table.write_batch)
    if sink.console:
        return writer.foreachBatch(lambda batch, number: show(sink.name, batch))
    given = {"subject": sink.subject, "stream": sink.stream}
    writer = writer.format("nats").options(**options)
    return writer.options(**{name: value for name, value in given.items() if value})


def _trigger(trigger: str) -> dict[str, Any]:
    if trigger == ONCE:
        return {"availableNow": True}
    return {"processingTime": f"{trigger or 0} seconds"}
