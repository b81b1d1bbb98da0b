"""The process that Spark's Python workers are forks of: one that has imported what they need.

Spark starts it (`spark.python.daemon.module`). Its own would let every worker import PySpark's modules and
ours for itself, a sixth of a second of CPU each, and a pipeline with three sinks has a dozen of them.

Only what starts no thread is imported here, since a fork has none of them, and maybe their locks: not pandas,
numpy and pyarrow, which Spark leaves to the workers for the same reason.
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
