"""Shared by the tests of several rooms."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import clients, sanitizers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling


os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "spark" / "conf"))

SPARK = ("tests/spark/", "tests/bench/report/test_figures.py", "tests/bench/report/test_page.py")
"""What uses the one Spark session of its process."""
TABLES = (
    "tests/spark/table/",
    "tests/spark/payload/",
    "tests/spark/test_compaction.py",
    "tests/spark/test_live.py",
    "tests/spark/test_table",
)
"""The half of it that runs in another process than the rest."""
OWN_SPARK = (
    "tests/demo/test_demo.py",
    "tests/spark/test_exactly_once.py",
    "tests/spark/test_commands.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_submit.py",
    "tests/spark/test_command_checks.py",
    "tests/spark/test_class_archive.py",
    "tests/bench/report/test_command.py",
)
"""What starts processes with a Spark of their own, and needs none of ours."""
LONGEST = (
    "tests/demo/test_demo.py",
    "tests/interop/test_sessions.py",
    "tests/spark/test_exactly_once.py",
    "tests/soak/",
    "tests/cli/test_bench.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_commands.py",
    "tests/test_packaging.py",
    "tests/bench/report/test_command.py",
    "tests/cli/test_errors.py",
    "tests/fuzz/",
)
"""The files that take more than 20 seconds: those that keep a core busy between those that wait."""

# However busy the machine is, and however slow the sanitizers make the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
clients.be_patient()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first: otherwise one process has to wait for another at the end."""
    items.sort(key=lambda item: _turn(item.nodeid))
    for item in items:
        timeout = item.get_closest_marker("timeout")
        if timeout is not None and sanitizers.PATIENCE > 1:
            item.add_marker(pytest.mark.timeout(timeout.args[0] * sanitizers.PATIENCE), append=False)


def _turn(nodeid: str) -> int:
    if _uses_our_spark(nodeid):
        return 0
    places = [place for place, start in enumerate(LONGEST, 1) if nodeid.startswith(start)]
    return places[0] if places else len(LONGEST) + 1


def _uses_our_spark(nodeid: str) -> bool:
    return nodeid.startswith(SPARK) and not nodeid.startswith(OWN_SPARK)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """With `--dist loadfile`, all that needs Spark counts as two files: a Java for each would be work."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class FewSparks(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if not _uses_our_spark(nodeid):
                return super()._split_scope(nodeid)
            return "tables" if nodeid.startswith(TABLES) else "spark"

    return FewSparks(config, log)


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


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A directory where a sync costs nothing, for tests that do thousands of them."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)
