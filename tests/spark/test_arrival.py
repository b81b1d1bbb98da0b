"""Readers and writers that arrive where headrace is missing or another version: one line says so."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from headrace import __version__
from headrace.spark import travel
from headrace.spark.options import Use, read_options, write_options
from headrace.spark.reading.batch_reader import BatchReader
from headrace.spark.reading.pushdown import PushdownReader
from headrace.spark.reading.stream_reader import StreamReader
from headrace.spark.source import NatsDataSource
from headrace.spark.writing.sink import StreamWriter
from tests.servers import running_server
from tests.spark.conftest import Broker

pytestmark = pytest.mark.timeout(180)

WITHOUT_HEADRACE = "import sys; sys.modules['headrace'] = None\n"


def travellers() -> list[object]:
    read, write = {"stream": "ORDERS", "nats.user": "anna"}, {"subject": "a"}
    schema = StructType().add("data", "string")
    return [
        BatchReader(read_options(read, Use.BATCH)),
        PushdownReader(read_options(read, Use.BATCH)),
        StreamReader(read_options(read, Use.STREAM)),
        StreamWriter(write_options(write), schema),
        NatsDataSource(read),
    ]


def run(script: str, *arguments: str, path: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=170, env=environment)


def arrive(traveller: object, directory: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """In another process, as at a worker."""
    (directory / "package").write_bytes(cloudpickle.dumps(traveller))
    script = before + (
        "import pickle, sys\n"
        "made = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "print(type(made).__name__, getattr(made, 'options', None))\n"
    )
    return run(script, str(directory / "package"))


@pytest.mark.parametrize("traveller", travellers(), ids=lambda made: type(made).__name__)
def test_a_worker_with_the_same_version_gets_what_was_sent(traveller: object, tmp_path: Path) -> None:
    done = arrive(traveller, tmp_path)
    assert done.stdout == f"{type(traveller).__name__} {getattr(traveller, 'options', None)}\n", done.stderr


@pytest.mark.parametrize("traveller", travellers(), ids=lambda made: type(made).__name__)
def test_a_worker_without_headrace_says_so(traveller: object, tmp_path: Path) -> None:
    told = arrive(traveller, tmp_path, WITHOUT_HEADRACE).stderr.splitlines()[-1]
    assert told.startswith(
        f"headrace.spark.failure.DataSourceError: the Python of the workers ({sys.executable}"
    )
    assert "has no headrace" in told
    assert f"install headrace[spark]=={__version__} there, or send it along with --archives" in told


def test_a_worker_with_another_version_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(travel, "__version__", "9.8.7")
    told = arrive(travellers()[0], tmp_path).stderr.splitlines()[-1]
    assert "the driver has headrace 9.8.7, but the Python of the workers" in told
    assert f"has {__version__}; install the same version everywhere" in told


def test_a_broken_installation_is_reported_when_the_source_is_used() -> None:
    script = (
        WITHOUT_HEADRACE
        + """
import pyspark_nats
print(pyspark_nats.DefaultSource.name())
pyspark_nats.DefaultSource(options={})
"""
    )
    done = run(script)
    assert done.stdout == "nats\n"
    told = done.stderr.splitlines()[-1]
    assert told.startswith(
        f'RuntimeError: format("nats") cannot be used: {sys.executable} cannot import headrace'
    )
    assert told.endswith("install headrace[spark] there")


def test_without_data_sources_in_python_nothing_is_offered() -> None:
    script = WITHOUT_HEADRACE + "sys.modules['pyspark.sql.datasource'] = None\nimport pyspark_nats\n"
    assert run(script + "print(hasattr(pyspark_nats, 'DefaultSource'))").stdout == "False\n"


def test_what_spark_plans_with_needs_no_arrays() -> None:
    """Spark starts a process for each of these, for every batch; pandas and pyarrow cost each a second."""
    script = """
        import sys
        from pyspark.sql.types import StructType
        from headrace.spark.source import NatsDataSource
        schema = StructType().add("data", "string").add("stream", "string").add("seq", "long")
        read, write = NatsDataSource({"stream": "S"}), NatsDataSource({"subject": "a"})
        assert read.schema().startswith("subject string")
        import headrace.spark.reading.stream_reader, headrace.spark.reading.pushdown
        write.streamWriter(schema, False).commit([], 0)
        print(sorted({"numpy", "pandas", "pyarrow"} & set(sys.modules)))
    """
    done = run(script)
    assert done.stdout == "[]\n", done.stderr


IN_SPARK = """
    import os, sys
    from headrace.spark.failure import reason_of
    from headrace.spark.java import find_java
    os.environ["JAVA_HOME"] = str(find_java().home)
    from pyspark.sql import SparkSession
    os.environ["PYSPARK_PYTHON"], server = sys.argv[1:]
    spark = SparkSession.builder.master("local[1]").getOrCreate()
    try:
        spark.read.format("nats").option("servers", server).load("ORDERS").collect()
    except Exception as error:
        print(reason_of(error))
        print(str(error).count("Traceback"))
    spark.stop()
"""


@pytest.mark.long
@pytest.mark.parametrize("who", ["pyspark.sql.worker.lookup", "pyspark.worker"])
def test_spark_reports_a_python_without_headrace_in_one_line(who: str, tmp_path: Path) -> None:
    """All that Spark plans with, or all that its tasks run in, cannot import headrace."""
    (tmp_path / "headrace.py").write_text("raise ImportError('no engine here')")
    broken = tmp_path / "python"
    broken.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *{who}*) export PYTHONPATH={tmp_path}:"$PYTHONPATH";; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    broken.chmod(0o755)
    with running_server("nats-server", flags=["-js", "-sd", str(tmp_path / "store")]) as server:
        broker = Broker(server)
        broker.make_stream(["orders.>"], name="ORDERS")
        broker.publish("orders.a", ["x"])
        done = run(IN_SPARK, str(broken), broker.url)
    told, tracebacks = done.stdout.splitlines()
    assert tracebacks == "0"
    if "lookup" in who:
        assert 'format("nats") cannot be used' in told
    else:
        assert told.startswith("the Python of the workers")
    assert "no engine here" in told
