"""One way to start Spark: its settings, its output, and the error if it cannot start."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from headrace.spark import session
from headrace.spark.failure import SparkError
from headrace.spark.session import is_local, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine


def run_alone(script: str) -> subprocess.CompletedProcess[str]:
    """In a process that has no Spark session so far."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_settings_that_our_spark_work_needs_are_in_force(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in session.SETTINGS} == session.SETTINGS
    assert spark.sql("SELECT current_timezone()").collect()[0][0] == "UTC"


def test_a_local_session_has_no_web_interface_and_listens_on_this_machine_only(spark: SparkSession) -> None:
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"


def test_workers_run_the_python_of_the_session(spark: SparkSession) -> None:
    assert spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]


def test_the_environment_is_as_it_was(spark: SparkSession) -> None:
    """Whoever starts other programs afterwards must not hand them our choice of a Java."""
    before = dict(os.environ)
    with session._variables(local=True):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
        assert os.path.exists(os.path.join(os.environ["JAVA_HOME"], "bin", "java"))
    assert dict(os.environ) == before


def test_on_a_cluster_the_workers_python_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python/bin/python3")
    with session._variables(local=False):
        assert os.environ["PYSPARK_PYTHON"] == "/opt/python/bin/python3"
    with session._variables(local=True):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_running_session_is_used_and_given_settings(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    same = spark_session("another name", settings={"spark.sql.shuffle.partitions": "3"})
    try:
        assert same.sparkContext is spark.sparkContext
        assert same.conf.get("spark.sql.session.timeZone") == "UTC"
        assert same.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "1")


def test_nothing_is_printed_and_what_the_caller_sets_wins() -> None:
    done = run_alone(
        """
        from headrace.spark.session import spark_session
        settings = {
            "spark.sql.session.timeZone": "Asia/Tokyo",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }
        spark = spark_session("quiet", master="local[1]", settings=settings)
        print(spark.sparkContext.master, spark.conf.get("spark.sql.session.timeZone"))
        spark.stop()
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("local[1] Asia/Tokyo\n", "", 0)


def test_a_master_that_is_none_is_one_line() -> None:
    done = run_alone(
        """
        from headrace.spark.failure import SparkError
        from headrace.spark.session import spark_session
        try:
            spark_session("wrong", master="nonsense")
        except SparkError as error:
            print(error)
        """
    )
    assert done.stderr == ""
    assert done.stdout.startswith("Spark did not start with the master nonsense: ")
    assert done.stdout.count("\n") == 1
    assert "yarn" in done.stdout, "Spark's own reason"


def test_without_pyspark_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SparkError, match="PySpark is not installed") as raised:
        spark_session("none")
    assert "pip install 'headrace[spark]'" in raised.value.hint


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,4]", True),
        ("local-cluster[1,1,1024]", False),
        ("yarn", False),
    ],
)
def test_a_local_master_is_recognised(master: str, local: bool) -> None:
    assert is_local(master) is local
