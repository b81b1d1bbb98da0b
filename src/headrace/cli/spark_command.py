"""Shared by the commands that run Spark: a session that Ctrl-C ends cleanly, errors of Spark in one line."""

from __future__ import annotations

import logging
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from headrace.cli.output import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.cli.arguments import Target
    from headrace.client import Client

# Commands often end before Java's second compiler could pay off, except those that run for days.
SHORT_SETTINGS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@contextmanager
def spark_for_command(
    name: str, master: str | None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A Spark session. Errors of Spark become a SparkError of one line.

    Ctrl-C raises KeyboardInterrupt here; later errors are its consequences. PySpark's own handler would ask
    Java to cancel its jobs, in the middle of another call, and print the errors of both.
    """
    from headrace.errors import HeadraceError
    from headrace.spark.failure import SparkError, reason_of
    from headrace.spark.session import spark_session

    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    say("starting Spark, which takes a few seconds")
    logging.disable()
    # Spark makes a directory for tables of its own, by default where the command was started.
    warehouse = tempfile.TemporaryDirectory(prefix="headrace-warehouse-", ignore_cleanup_errors=True)
    places = {"spark.sql.warehouse.dir": warehouse.name}
    spark = spark_session(name, master=master, settings=places | dict(settings or {}))
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


def source_options(target: Target) -> dict[str, str]:
    """The data source's options for the server that a command was given."""
    options = {"servers": ",".join(target.servers)}
    given = {"nats.user": target.user, "nats.password": target.password, "nats.token": target.token}
    return options | {name: value for name, value in given.items() if value}


@contextmanager
def connected(target: Target) -> Iterator[Client]:
    """A connection to ask the server about its streams before Spark is started."""
    from headrace.client import Client

    with Client.connect(
        list(target.servers),
        user=target.user or "",
        password=target.password or "",
        token=target.token or "",
        name="headrace",
    ) as client:
        yield client
