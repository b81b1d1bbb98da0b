"""spark-submit where the `python3` on the path has nothing of ours, as on most machines of a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.clusters import SETTINGS, bare_environment, spark_home
from tests.spark.conftest import ONE_SERVER, Broker

SECONDS = 300

pytestmark = [
    pytest.mark.long,  # test_cluster.py submits a job, too
    pytest.mark.timeout(SECONDS + 60),
    ONE_SERVER,
]

OF_OUR_SESSION = (
    "from headrace.spark.session import spark_session\nspark = spark_session('job', quiet=False)\n"
)
OF_SPARK = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
JOB = """\
rows = spark.read.format("nats").option("servers", "URL").option("stream", "STREAM").load()
with open("count", "w") as file:
    file.write(f"{rows.count()} with {spark.sparkContext.master}")
"""


def submit(broker: Broker, directory: Path, session: str, settings: dict[str, str], **variables: str) -> str:
    """What the job has counted."""
    stream = broker.make_stream()
    broker.publish(f"{stream}.a", ["a", "b", "c"])
    job = directory / "job.py"
    job.write_text(session + JOB.replace("URL", broker.url).replace("STREAM", stream))
    home = spark_home(directory)
    given = [f"--conf={name}={value}" for name, value in (SETTINGS | settings).items()]
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", *given, str(job)]
    done = subprocess.run(
        command,
        cwd=directory,
        env=bare_environment(home, **variables),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return (directory / "count").read_text()


def test_a_session_of_ours_plans_with_the_python_of_the_job(broker: Broker, tmp_path: Path) -> None:
    """`spark.pyspark.python` reaches the driver and the executors, but not the processes that plan."""
    assert (
        submit(broker, tmp_path, OF_OUR_SESSION, {"spark.pyspark.python": sys.executable})
        == "3 with local[1]"
    )


def test_a_variable_of_the_environment_reaches_all_processes(broker: Broker, tmp_path: Path) -> None:
    assert submit(broker, tmp_path, OF_SPARK, {}, PYSPARK_PYTHON=sys.executable) == "3 with local[1]"
