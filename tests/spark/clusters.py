"""Spark with executors in processes of their own: what a job on them needs, and a standalone cluster."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import distribution
from pathlib import Path

import pyspark
from packaging.requirements import Requirement

from headrace.spark.java import find_java
from tests.servers import stop

START_SECONDS = 120.0

# Executors live for seconds: the second compiler would cost more than it gives.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
}


def spark_home(directory: Path) -> Path:
    """PySpark's files under another directory: Spark's workers write below it."""
    home = directory / "spark"
    home.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        if path.name != "work":
            (home / path.name).symlink_to(path)
    return home


def bare_environment(home: Path, **variables: str) -> dict[str, str]:
    """Of a machine that has Java and a Python, but nothing of ours on its path."""
    return {
        "PATH": os.defpath,
        "HOME": str(home.parent),
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    } | variables


@contextmanager
def standalone_cluster(directory: Path, *, workers: int) -> Iterator[str]:
    """The URL of a master on loopback, with workers of one core each, which know nothing of headrace."""
    home = spark_home(directory)
    with ExitStack() as stack:
        master = _started(stack, home, directory / "master.log", "master.Master", ["--port", "0"])
        url = _wait_for(master, directory / "master.log", r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            log = directory / f"worker-{number}.log"
            place = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"work-{number}")]
            worker = _started(stack, home, log, "worker.Worker", [*place, url])
            _wait_for(worker, log, r"Successfully registered with (master)")
        yield url


def _started(
    stack: ExitStack, home: Path, log: Path, name: str, arguments: list[str]
) -> subprocess.Popen[bytes]:
    """Stopped with the stack."""
    flags = ["--host", "127.0.0.1", "--webui-port", "0"]
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *flags, *arguments]
    environment = bare_environment(home, SPARK_DAEMON_JAVA_OPTS=SHORT_LIVED, SPARK_DAEMON_MEMORY="256m")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=log.parent
        )
    stack.callback(stop, process)
    return process


def _wait_for(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    deadline = time.monotonic() + START_SECONDS
    while not (found := re.search(pattern, log.read_text(errors="replace"))):
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.05)
    return found[1]


def packed_environment(directory: Path) -> None:
    """`environment`, as pip makes it of the extra `worker`; without an index, of what is installed here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "environment"], cwd=directory, check=True)
    (packages,) = directory.glob("environment/lib/python*/site-packages")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    for name in _needed([*project["dependencies"], *project["optional-dependencies"]["worker"]]):
        found = distribution(name)
        for file in found.files or []:
            source = Path(str(found.locate_file(file))).resolve()
            if source.is_file() and ".." not in file.parts and "__pycache__" not in file.parts:
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
    for package in "headrace", "pyspark_nats":
        (module,) = importlib.import_module(package).__path__
        shutil.copytree(module, packages / package)


def _needed(requirements: list[str]) -> set[str]:
    """The names of these distributions, and of all that they need here."""
    names: set[str] = set()
    left = requirements
    while left:
        wanted = Requirement(left.pop())
        if wanted.name not in names and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            names.add(wanted.name)
            left += distribution(wanted.name).requires or []
    return names
