"""`headrace bench report`: saved runs as a page and a table. Spark does the arithmetic."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from headrace.cli.output import plural, say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPILOG = """\b
Examples:
  headrace bench report runs
  headrace bench report runs --out public --compare-machines
  headrace bench report /shared/runs --master spark://10.0.0.5:7077
"""


SETTINGS = {
    # Saved runs are small: more tasks would only take longer.
    "spark.sql.shuffle.partitions": "1",
    # It ends before Java's second compiler could pay off: this halves the CPU time (56 s to 24 s).
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@click.command(epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to write report.html and report.md. [default: DIR]",
)
@click.option("--master", metavar="MASTER", help="Spark master. [default: local[*], this machine]")
@click.option("--compare-machines", is_flag=True, help="Show the runs of all machines, not only the latest.")
def report(directory: Path, out: Path | None, master: str | None, compare_machines: bool) -> None:
    """Write a page with charts and tables of saved runs.

    It reads what `headrace bench --save DIR` has saved. It compares runs of one machine only, the most recent
    one, and prints how many others were left out.
    """
    from headrace.bench.report.samples import find_runs

    saved = find_runs(directory)
    say(f"{plural(saved.count, 'saved run')} in {directory}; starting Spark, which takes a few seconds")
    with _session(master) as spark:
        from headrace.bench.report.tables import comparison
        from headrace.bench.report.write import compute_report, write_report

        say(f"Spark {spark.version} is computing")
        content = compute_report(spark, saved, compare_machines=compare_machines)
        for line in comparison(content):
            say(line)
        for path in write_report(content, out or directory):
            click.echo(path)


@contextmanager
def _session(master: str | None) -> Iterator[SparkSession]:
    """A Spark session. Ctrl-C ends everything at once: Java exits when this process does.

    PySpark's own handler would ask Java to cancel its jobs, in the middle of another call, and print the
    errors of both. Errors after Ctrl-C are its consequences, and not printed.
    """
    from headrace.spark.session import spark_session

    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    logging.disable()
    spark = spark_session("headrace bench report", master=master, settings=SETTINGS)
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield spark
        spark.stop()
    except BaseException:
        if interrupted:
            raise KeyboardInterrupt from None
        spark.stop()
        raise
