"""Streams as views: what `headrace sql` and pipelines let SQL see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def streams_in(query: str, streams: Iterable[str]) -> list[str]:
    """Those streams whose names occur in a query.

    Every view costs Spark a question to a Python process, and a server may have thousands of streams. A
    statement about the catalog, such as SHOW VIEWS, gets all.
    """
    if re.match(r"\s*show\b", query, re.IGNORECASE):
        return list(streams)
    words = set(re.findall(r"[\w-]+", query.lower()))
    return [stream for stream in streams if set(re.findall(r"[\w-]+", stream.lower())) <= words]


def make_views(spark: SparkSession, streams: Iterable[str], options: Mapping[str, str]) -> None:
    """A temporary view of each stream, by its name, as it is when a query runs."""
    for stream in streams:
        reader = spark.read.format("nats").options(**options).option("stream", stream)
        quoted = f"`{stream.replace('`', '``')}`"
        reader.option("filterPushdown", "true").load().createOrReplaceTempView(quoted)
