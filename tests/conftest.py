"""What tests of several rooms share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import sanitizers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# However busy the machine is, and however slow the sanitizers make the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first: else one of two processes has nothing to do at the end."""
    items.sort(key=lambda item: not {"spark", "demo"} & set(item.path.parts))
    for item in items:
        timeout = item.get_closest_marker("timeout")
        if timeout is not None and sanitizers.PATIENCE > 1:
            item.add_marker(pytest.mark.timeout(timeout.args[0] * sanitizers.PATIENCE), append=False)


@pytest.fixture(autouse=sanitizers.ARE_AT_WORK)
def unseen_reports() -> Iterator[None]:
    """Under `make test-sanitized`: no process may be reported while a test runs."""
    before = sanitizers.reports()
    yield
    for name in sanitizers.reports().keys() - before.keys():
        pytest.fail(sanitizers.reports()[name], pytrace=False)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of this process: starting it takes longer than all that the tests do with it."""
    from headrace.spark.session import spark_session

    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # It is a server of Spark Connect as well, on a port of its own: see tests/spark/test_connect.py.
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    session = spark_session("headrace tests", master="local[2]", settings=settings)
    yield session
    session.stop()
