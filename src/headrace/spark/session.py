"""The Spark session: one way to start Spark, for the report, the data source's examples and the pipelines.

It takes care of everything that is easily forgotten: Java (see `java`); the workers' Python, which would
otherwise be any `python3` on the path; settings that our data source needs; UTC; and the output of Java and
Spark while they start, which is hidden. If Spark does not start, the line of it that says why becomes the
error. A Spark that somebody else has started is shared, but its sessions are left as they are.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from headrace.spark.failure import WORKER_DAEMON, SparkError
from headrace.spark.home import home_for
from headrace.spark.java import find_java
from headrace.spark.notice import show_notices, warn
from headrace.spark.reading.partitions import PARALLELISM_VARIABLE

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*]"

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # Below the highest limit Spark measures a batch after every row, which makes our sink quadratic.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647b",
    # With this off, a Python source that can push filters down fails every read.
    "spark.sql.python.filterPushdown.enabled": "true",
    # An idle stream asks for new offsets this often; the default is 87 questions a second to the server.
    "spark.sql.streaming.pollingDelay": "100ms",
}

QUIET_SETTINGS = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}

LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    # The default starts a program for every file of a checkpoint, which doubles the time of a small batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A laptop's host name often resolves to an address that it no longer has.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Our Python, which has the module: `_variables` sees to that.
    "spark.python.daemon.module": WORKER_DAEMON,
}


def spark_session(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    quiet: bool = True,
) -> SparkSession:
    """A Spark session with everything that our Spark code needs.

    `master` is any master that Spark accepts; by default that of spark-submit, or all cores of this machine.
    `settings` override ours. With `quiet`, the output of Java and Spark is dropped, except for our own
    warnings. Where Spark is running already, as in a notebook, this is a new session of it, with temporary
    views and settings of its own; a setting that can no longer be changed is reported on stderr. Raises
    SparkError if PySpark or Java is missing or Spark does not start. The caller that starts Spark stops it.
    """
    require_pyspark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:
        chosen = _all_settings(name, master or default_master(), settings or {}, quiet)
        return with_our_python(_start(chosen, quiet))
    beside = _beside(SparkSession.builder.getOrCreate(), {**SETTINGS, **(settings or {})})
    return with_our_python(beside)


def default_master() -> str:
    """The master of spark-submit, if it has started this process."""
    submitted = os.environ.get("MASTER") if "PYSPARK_GATEWAY_PORT" in os.environ else None
    return submitted or LOCAL_MASTER


def with_our_python(spark: SparkSession) -> SparkSession:
    """Let Spark plan our source with the Python of this session, whoever has started its Java.

    Java takes the Python for the processes in which it plans data sources from its environment. It ignores
    `spark.pyspark.python`, which spark-submit may have been given, and `python3` on the path may not have
    headrace. A source that is registered is planned with the Python of its session.
    """
    variables = spark.sparkContext._gateway.jvm.System.getenv()  # type: ignore[union-attr]
    planner = variables.get("PYSPARK_DRIVER_PYTHON") or variables.get("PYSPARK_PYTHON") or "python3"
    if planner != spark.sparkContext.pythonExec:
        from headrace.spark.source import NatsDataSource

        spark.dataSource.register(NatsDataSource)
    return spark


def _beside(running: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session with these settings, next to one that keeps its own."""
    session = running.newSession()
    for name, value in settings.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
        elif running.sparkContext.getConf().get(name) != value:
            warn(f"{name} cannot be set to {value}: Spark is already running")
    return session


def require_pyspark() -> None:
    """Raises SparkError if the extra is not installed. Commands check this first."""
    if importlib.util.find_spec("pyspark") is None:
        raise SparkError("PySpark is not installed", hint="`pip install 'headrace[spark]'` installs it")


def _all_settings(name: str, master: str, settings: Mapping[str, str], quiet: bool) -> dict[str, str]:
    return {
        "spark.app.name": name,
        "spark.master": master,
        **SETTINGS,
        **(QUIET_SETTINGS if quiet else {}),
        **(LOCAL_SETTINGS if is_local(master) else {}),
        **settings,
    }


def is_local(master: str) -> bool:
    """Whether this master runs everything in one process on this machine."""
    return master == "local" or master.startswith("local[")


def known_parallelism(settings: Mapping[str, str]) -> int | None:
    """How many tasks can run at once, as far as the settings of a session say it."""

    def number(name: str) -> int | None:
        text = settings.get(name, "")
        return int(text) if text.isdecimal() and int(text) else None

    if wanted := number("spark.default.parallelism"):
        return wanted
    master = settings["spark.master"]
    if match := re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master):
        return (os.cpu_count() or 1) if match[1] == "*" else int(match[1] or 1)
    if match := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]", master):
        return int(match[1]) * int(match[2])
    executors, cores = number("spark.executor.instances"), number("spark.executor.cores")
    return executors * cores if executors and cores else number("spark.cores.max")


def _start(settings: Mapping[str, str], quiet: bool) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf().setAll(list(settings.items()))
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(tempfile.TemporaryFile()) if quiet else None
        stack.enter_context(_variables(settings))
        try:
            gateway = SparkContext._gateway or _launch(conf, output)
            SparkContext(conf=conf, gateway=gateway)
            return SparkSession.builder.getOrCreate()
        except Exception as error:  # py4j and PySpark raise many kinds, all of which mean the same here
            reason = _reason(error, output)
            if SparkContext._active_spark_context is not None:
                SparkContext._active_spark_context.stop()
            master = settings["spark.master"]
            raise SparkError(f"Spark did not start with the master {master}: {reason}") from error


def _launch(conf: SparkConf, output: IO[bytes] | None) -> JavaGateway:
    """Start Java as PySpark would, but with its output in `output`."""
    from pyspark.java_gateway import launch_gateway

    streams: dict[str, Any] = {"stdout": output, "stderr": output} if output else {}
    with _interrupt_later():
        gateway: JavaGateway = launch_gateway(conf, popen_kwargs=streams)  # type: ignore[no-untyped-call]
    if output:
        show_notices(output.fileno())
    return gateway


@contextlib.contextmanager
def _interrupt_later() -> Iterator[None]:
    """Defer Ctrl-C until this is over.

    Java exits when we do, but only once it has sent its port to PySpark. If PySpark is interrupted before, it
    removes the file for the port, and Java keeps running forever.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python interrupts the main thread only
        return
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if interrupts:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _variables(settings: Mapping[str, str]) -> Iterator[None]:
    """The environment in which Spark starts; Java keeps a copy, ours is restored.

    On a cluster the workers' Python may be elsewhere, so there an existing PYSPARK_PYTHON is kept.
    PYSPARK_DRIVER_PYTHON, which may be jupyter, would be the Python of data sources.
    SPARK_HOME is given because the script that would find it cannot handle a Python whose path has a space,
    and because Python starts faster with ours (see `home`).
    """
    chosen = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    cores = known_parallelism(settings)
    chosen[PARALLELISM_VARIABLE] = str(cores or "")
    local = is_local(settings["spark.master"])
    if not local and os.environ.get("PYSPARK_PYTHON"):
        chosen["PYSPARK_PYTHON"] = os.environ["PYSPARK_PYTHON"]
    chosen["PYSPARK_DRIVER_PYTHON"] = chosen["PYSPARK_PYTHON"]
    if home := home_for(local=local):
        chosen["SPARK_HOME"] = str(home)
    before = {variable: os.environ.get(variable) for variable in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for variable, value in before.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value


def _reason(error: Exception, output: IO[bytes] | None) -> str:
    """The line that says why: of Java's exception if there is one, otherwise of the output."""
    exception = getattr(error, "java_exception", None)
    text = str(exception.getMessage() if exception is not None else error)
    if "stopped SparkContext" in text:
        return "it did not accept the application, or cannot be reached"
    if exception is None and output is not None:
        output.seek(0)
        printed = output.read().decode(errors="replace")
        text = next(iter(re.findall(r"(?:exception|error)\S*: (.+)", printed, re.IGNORECASE)), text)
    return next(iter(text.strip().splitlines()), type(error).__name__)
