"""Shared by the commands that run Spark: a session that Ctrl-C ends cleanly, errors in one line, metrics."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import click

from headrace.cli.output import say
from headrace.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.cli.target import Target
    from headrace.client import Client
    from headrace.spark.metrics import Metrics

Command = TypeVar("Command", bound=Callable[..., Any])

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
SHORT_SETTINGS = {JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Of commands that end by themselves, often before Java's second compiler could pay off."""


def check_not_connect(master: str | None, conf: Mapping[str, str] | None = None) -> None:
    """Raises UsageError if Spark was to be used through Spark Connect.

    A table is committed by this process, with files that its own Spark has written, and a command restarts
    queries by what they failed with: both need a Spark in this process.
    """
    remotes = {
        "--master": master if (master or "").startswith("sc://") else "",
        "spark.remote": (conf or {}).get("spark.remote", ""),
        "the variable SPARK_REMOTE": os.environ.get("SPARK_REMOTE", ""),
    }
    for name, remote in remotes.items():
        if remote:
            raise UsageError(
                f"this command does not work through Spark Connect ({name} is {remote})",
                hint="give the cluster's master with --master, for example spark://HOST:7077; "
                'through Connect use format("nats") in a program',
            )


class MetricsAddress(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions
    """`PORT` on loopback, or `HOST:PORT`."""

    name = "address"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        host, _, port = str(value).rpartition(":")
        if not (port.isascii() and port.isdecimal() and int(port) <= 65_535):
            self.fail(f"{value!r} is neither a port nor HOST:PORT", param, ctx)
        return host.strip("[]") or "127.0.0.1", int(port)


def metrics_option(command: Command) -> Command:
    """Adds --metrics-port."""
    return click.option(
        "--metrics-port",
        "metrics_at",
        type=MetricsAddress(),
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus at this port; 0: a free one. [default: none, host 127.0.0.1]",
    )(command)


@contextmanager
def metrics_for_command(address: tuple[str, int] | None) -> Iterator[Metrics | None]:
    """Where the command's figures are shown, if anybody wants them. Raises UsageError for a port in use."""
    if address is None:
        yield None
        return
    from headrace.spark.metrics import serve_metrics

    with serve_metrics(*address) as (metrics, url):
        say(f"metrics are at {url}")
        yield metrics


@contextmanager
def spark_for_command(
    name: str,
    master: str | None,
    settings: Mapping[str, str] | None = None,
    *,
    kind: Literal["sql", "stream"] = "sql",
) -> Iterator[SparkSession]:
    """A Spark session. Errors of Spark become a SparkError of one line.

    `kind` is that of the classes which Java will load: see `spark/class_archive.py`.

    Ctrl-C raises KeyboardInterrupt here; later errors are its consequences. PySpark's own handler would ask
    Java to cancel its jobs, in the middle of another call, and print the errors of both.
    """
    from headrace.errors import HeadraceError
    from headrace.spark.class_archive import archive_options
    from headrace.spark.failure import SparkError, reason_of
    from headrace.spark.session import default_master, is_local, spark_session

    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    check_not_connect(master, settings)
    say("starting Spark, which takes a few seconds")
    logging.disable()
    # Spark makes a directory for tables of its own, by default where the command was started.
    warehouse = tempfile.TemporaryDirectory(prefix="headrace-warehouse-", ignore_cleanup_errors=True)
    places = {"spark.sql.warehouse.dir": warehouse.name}
    given = dict(settings or {})
    java = given.get(JAVA_OPTIONS, "")
    local = is_local(master or default_master())
    archive = archive_options(kind, local=local, make=java == SHORT_SETTINGS[JAVA_OPTIONS])
    if archive:
        given[JAVA_OPTIONS] = f"{archive} {java}".strip()
    spark = spark_session(name, master=master, settings=places | given)
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield spark
    except BaseException as error:
        if interrupted:
            raise KeyboardInterrupt from None
        if isinstance(error, HeadraceError) or not _is_from_spark(error):
            raise
        raise SparkError(reason_of(error)) from None
    finally:
        if not interrupted:
            spark.stop()
        warehouse.cleanup()


def _is_from_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark.", "py4j."))


@contextmanager
def connected(target: Target) -> Iterator[Client]:
    """A connection to ask the server about its streams before Spark is started."""
    from headrace.client import Client

    with Client.connect(
        list(target.servers), **vars(target.credentials), tls=target.tls, name="headrace"
    ) as client:
        yield client
