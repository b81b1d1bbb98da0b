"""Makes DataFrames of a pipeline: a view for each source and step. Nothing runs yet, and no server is needed.

Spark checks SQL here, with names and types of columns; errors get the line of the step.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headrace.spark.failure import reason_of
from headrace.spark.pipeline.document import Node
from headrace.spark.pipeline.modules import line_in_step, send_modules
from headrace.spark.pipeline.specification import Pipeline, SourceSpec, StepSpec, Watermark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Views = dict[str, "DataFrame"]


def import_functions(pipeline: Pipeline) -> dict[str, Callable[..., Any]]:
    """The Python functions of the steps, by step. Modules next to the file are found, too."""
    if str(pipeline.directory) not in sys.path:
        sys.path.insert(0, str(pipeline.directory))
    return {step.name: _import(step) for step in pipeline.steps if step.python}


def _import(step: StepSpec) -> Callable[..., Any]:
    module_name, _, name = step.python.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # importing the module may raise anything
        step.node.fail(f"cannot import {module_name}: {type(error).__name__}: {error}")
    function = getattr(module, name, None)
    if not callable(function):
        step.node.fail(f"{module_name} has no function {name}")
    result: Callable[..., Any] = function
    return result


def build_views(spark: SparkSession, pipeline: Pipeline, options: Mapping[str, str]) -> Views:
    """All sources and steps as DataFrames, and as views under their names."""
    functions = import_functions(pipeline)
    send_modules(spark, pipeline)
    views: Views = {}
    for source in pipeline.sources:
        with _placing_errors(source.node):
            views[source.name] = _view(source.name, read_source(spark, source, options), source.watermark)
    for step in pipeline.steps:
        with _placing_errors(step.node):
            if step.sql:
                rows = spark.sql(step.sql)
            else:
                rows = _call(functions[step.name], [views[name] for name in step.inputs], step)
            views[step.name] = _view(step.name, rows, step.watermark)
    return views


@contextmanager
def _placing_errors(node: Node) -> Iterator[None]:
    """Errors of Spark about a part of the file get its line."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        node.fail(" ".join(reason_of(error).split()))


def _view(name: str, rows: DataFrame, watermark: Watermark | None) -> DataFrame:
    if watermark is not None:
        rows = rows.withWatermark(watermark.column, watermark.delay)
    rows.createOrReplaceTempView(name)
    return rows


def read_source(spark: SparkSession, source: SourceSpec, options: Mapping[str, str]) -> DataFrame:
    """Its messages, as a table that grows."""
    return spark.readStream.format("nats").options(**options).options(**source.options).load()


def _call(function: Callable[..., Any], inputs: list[DataFrame], step: StepSpec) -> DataFrame:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    try:
        rows = function(*inputs)
    except PySparkException:
        raise
    except Exception as error:  # the user's function may raise anything
        step.node.fail(f"{step.python} failed: {type(error).__name__}: {error}{line_in_step(error, step)}")
    if not isinstance(rows, DataFrame):
        step.node.fail(f"{step.python} returned {type(rows).__name__}, not a DataFrame")
    return rows
