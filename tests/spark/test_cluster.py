"""On executors in other processes: read, copy and land, with executors killed in the middle."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.cli.commands import COMMAND, environment
from tests.spark.clusters import (
    SETTINGS,
    bare_environment,
    packed_environment,
    spark_home,
    standalone_cluster,
)
from tests.spark.conftest import ONE_SERVER, Broker

JOB = Path(__file__).with_name("cluster_job.py")
SECONDS = 900  # on a machine that does thirty other things
MESSAGES = 400

pytestmark = [
    pytest.mark.timeout(SECONDS + 60),
    ONE_SERVER,
]


def prepare(broker: Broker, directory: Path) -> str:
    """A stream to work on, one for the copy, and a directory for the job."""
    stream = broker.make_stream()
    broker.make_stream([f"{stream}_COPY.>"], name=f"{stream}_COPY", duplicate_window=3600)
    broker.publish(f"{stream}.a", [str(number) for number in range(1, MESSAGES + 1)])
    directory.mkdir()
    return stream


def check(broker: Broker, stream: str, directory: Path) -> None:
    """Everything was read, and is in the copy and in the table once; executors were killed on the way."""
    found = json.loads((directory / "found.json").read_text())
    assert found["read"] == MESSAGES
    assert found["killed"] == ["killed-for-copy", "killed-for-table"]
    for told in found["progress"].values():
        assert told.startswith(f"{MESSAGES} rows written, "), told
    expected = [str(number).encode() for number in range(1, MESSAGES + 1)]
    copied = Counter(message.data for message in broker.messages(f"{stream}_COPY"))
    assert copied == Counter(expected)
    landed = DeltaTable(directory / "table").to_pyarrow_table(columns=["seq", "data"]).to_pylist()
    assert sorted((row["seq"], row["data"]) for row in landed) == list(enumerate(expected, 1))


@pytest.mark.slow
def test_read_copy_and_land_on_a_local_cluster(broker: Broker, tmp_path: Path) -> None:
    """Submitted where the `python3` on the path has nothing of ours, with a setting that names another."""
    directory = tmp_path / "job"
    stream = prepare(broker, directory)
    home = spark_home(tmp_path)
    settings = {**SETTINGS, "spark.pyspark.python": sys.executable}
    given = [f"--conf={name}={value}" for name, value in settings.items()]
    job = [str(JOB), broker.url, stream, str(directory)]
    done = subprocess.run(
        [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]", *given, *job],
        cwd=tmp_path,
        env=bare_environment(home),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    check(broker, stream, directory)


def recipe() -> tuple[str, str]:
    """How docs/spark.md packs an environment, and submits a job with it."""
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    (block,) = [block for block in re.split(r"^```", text, flags=re.MULTILINE)[1::2] if "-m venv" in block]
    make, _, submit = block.strip().partition("\n\n")
    made, installed, packed = make.splitlines()
    assert made.endswith("-m venv environment")
    assert installed == "environment/bin/pip install 'headrace[worker]'"
    return packed, submit


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_read_copy_and_land_on_a_standalone_cluster_whose_workers_have_only_python(
    broker: Broker, tmp_path: Path
) -> None:
    directory = tmp_path / "job"
    stream = prepare(broker, directory)
    pack, submit = recipe()
    packed_environment(tmp_path)
    subprocess.run(pack, shell=True, cwd=tmp_path, check=True)
    given = " ".join(f"--conf {name}={shlex.quote(value)}" for name, value in SETTINGS.items())
    job = f"{given} {JOB} {broker.url} {stream} {directory}"
    with standalone_cluster(tmp_path, workers=2) as master:
        home = tmp_path / "spark"
        command = submit.replace("spark://10.0.0.5:7077", master).replace("job.py", job)
        done = subprocess.run(
            command.replace("spark-submit", str(home / "bin" / "spark-submit")),
            shell=True,
            cwd=tmp_path,
            env=bare_environment(home),
            capture_output=True,
            text=True,
            timeout=1500,
        )
        options = ["--to", str(tmp_path / "table"), "-s", broker.url, "--once", "--master", master]
        landed = subprocess.run(
            [*COMMAND, "land", stream, *options],
            cwd=tmp_path,
            env=environment(
                SPARK_HOME=str(home),
                SPARK_LOCAL_IP="127.0.0.1",
                PYSPARK_PYTHON="./environment/bin/python",
                PYSPARK_SUBMIT_ARGS="--archives environment.tar.gz#environment pyspark-shell",
            ),
            capture_output=True,
            text=True,
            timeout=600,
        )
        logs = [path.read_text() for path in tmp_path.glob("work-*/*/*/stderr")]
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *logs])
    assert len(logs) > 2, "executors were killed and replaced"
    check(broker, stream, directory)
    assert landed.returncode == 0, landed.stderr
    assert f"{MESSAGES} rows landed" in landed.stderr
