"""Spark imports every top-level module named `pyspark_…` and takes its `DefaultSource` as a data source.

So `spark.read.format("nats")` needs no registration. A module that fails to import would keep Spark from
finding any data source at all, so where something is missing, this one has nothing to offer instead.
"""

from contextlib import suppress

with suppress(ImportError):
    from headrace.spark.source import NatsDataSource as DefaultSource

__all__ = ["DefaultSource"]
