"""What tests of several rooms share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of this process: starting it takes longer than all that the tests do with it."""
    from headrace.spark.session import spark_session

    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    session = spark_session("headrace tests", master="local[2]", settings=settings)
    yield session
    session.stop()
