"""Shared by the tests of several rooms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import sanitizers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling


os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))

SPARK = ("tests/spark/", "tests/bench/test_report.py")
"""What uses the one Spark session of its process."""

# A busy machine is not a failure: no example may be refused for the time that it takes.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")

# However busy the machine is, and however slow the sanitizers make the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests come first: otherwise one of two processes has nothing to do at the end."""
    items.sort(key=lambda item: not item.nodeid.startswith((*SPARK, "tests/demo/")))
    for item in items:
        timeout = item.get_closest_marker("timeout")
        if timeout is not None and sanitizers.PATIENCE > 1:
            item.add_marker(pytest.mark.timeout(timeout.args[0] * sanitizers.PATIENCE), append=False)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """With `--dist loadfile`, all that needs Spark counts as one file: a second Java would be work."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith(SPARK) else super()._split_scope(nodeid)

    return OneSpark(config, log)


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

    chosen = {
        "spark.sql.shuffle.partitions": "1",
        # It is a server of Spark Connect as well, on a port of its own: see tests/spark/test_connect.py.
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    session = spark_session("headrace tests", master="local[2]", settings=chosen)
    yield session
    session.stop()
