"""Spark imports every top-level module named `pyspark_…` and takes its `DefaultSource` as a data source.

So `spark.read.format("nats")` needs no registration. A module that fails to import would keep Spark from
finding any data source at all. So this one never does: if headrace cannot be imported, its source says why as
soon as it is used. Without a source, Spark would say that it has never heard of `nats`.
"""

from contextlib import suppress

try:
    from headrace.spark.source import NatsDataSource as DefaultSource
except Exception as error:  # whatever is wrong with the installation
    with suppress(ImportError):  # there is no PySpark, or one without data sources in Python
        from pyspark_nats.unavailable import unavailable

        DefaultSource = unavailable(error)  # type: ignore[misc]

__all__ = ["DefaultSource"]
