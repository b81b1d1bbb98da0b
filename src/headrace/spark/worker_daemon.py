"""The process that Spark's Python workers are forked from: it has already imported what they need.

Spark starts it (`spark.python.daemon.module`). With Spark's own, every worker would import PySpark's modules
and ours for itself, a sixth of a second of CPU each, and a pipeline with three sinks has a dozen workers.

Only modules that start no threads are imported here, since a fork has no threads but maybe their locks: not
pandas, numpy and pyarrow, which Spark leaves to the workers for the same reason.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import headrace.spark.reading.batch_reader
import headrace.spark.reading.stream_reader
import headrace.spark.source
import headrace.spark.writing.sink  # noqa: F401

if __name__ == "__main__":
    manager()
