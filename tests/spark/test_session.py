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
    with session._variables({"spark.master": "local[2]"}):
        assert os.environ["PYSPARK_PYTHON"] == sys.executable
        assert os.path.exists(os.path.join(os.environ["JAVA_HOME"], "bin", "java"))
    assert dict(os.environ) == before


def test_on_a_cluster_the_workers_python_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python/bin/python3")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "jupyter")  # Spark would plan data sources with it
    with session._variables({"spark.master": "yarn"}):
        assert (
            os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == "/opt/python/bin/python3"
        )
    with session._variables({"spark.master": "local[2]"}):
        assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == "jupyter"


def test_a_session_that_is_running_keeps_its_settings(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    before = dict(spark.conf.getAll)
    try:
        settings = {"spark.sql.shuffle.partitions": "3", "spark.driver.memory": "7g"}
        beside = spark_session("another name", settings=settings)
        assert dict(spark.conf.getAll) == before
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert beside.sparkContext is spark.sparkContext
    assert beside.conf.get("spark.sql.session.timeZone") == "UTC"
    assert beside.conf.get("spark.sql.shuffle.partitions") == "3"
    # Warnings of queries that ran before may arrive now.
    told = [line for line in capsys.readouterr().err.splitlines() if "spark." in line]
    assert told == ["headrace: warning: spark.driver.memory cannot be set to 7g: Spark is already running"]


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


@pytest.mark.slow
def test_a_quiet_session_shows_our_warnings() -> None:
    """They are printed in Spark's Python processes, and reach stderr through Java."""
    done = run_alone(
        """
        import io, sys, time
        from headrace.spark.notice import warn
        from headrace.spark.session import spark_session
        settings = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
        spark = spark_session("quiet", master="local[1]", settings=settings)
        shown = sys.stderr = io.StringIO()
        def work(number):
            print("something else", file=sys.__stderr__, flush=True)
            warn("look out")
        spark.sparkContext.parallelize([0], 1).foreach(work)
        while not shown.getvalue():
            time.sleep(0.05)
        print(shown.getvalue(), end="")
        spark.stop()
        """
    )
    assert done.stdout == "headrace: warning: look out\n", done.stderr


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
    ("settings", "tasks"),
    [
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[3]"}, 3),
        ({"spark.master": "local[3,4]"}, 3),
        ({"spark.master": "local[*]"}, os.cpu_count()),
        ({"spark.master": "local-cluster[2,3,1024]"}, 6),
        ({"spark.master": "yarn"}, None),
        ({"spark.master": "yarn", "spark.default.parallelism": "48"}, 48),
        ({"spark.master": "yarn", "spark.executor.instances": "4", "spark.executor.cores": "8"}, 32),
        ({"spark.master": "spark://host:7077", "spark.cores.max": "12"}, 12),
        ({"spark.master": "spark://host:7077", "spark.executor.cores": "12"}, None),
    ],
)
def test_the_number_of_tasks_that_run_at_once_is_known_from_the_settings(
    settings: dict[str, str], tasks: int | None
) -> None:
    assert session.known_parallelism(settings) == tasks


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


def test_workers_are_forks_of_a_process_without_threads() -> None:
    """A fork has none of them, and maybe the locks that they held."""
    code = "import headrace.spark.worker_daemon, os; print(len(os.listdir('/proc/self/task')))"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.split() == ["1"]
