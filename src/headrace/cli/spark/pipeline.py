"""`headrace pipeline`: run the pipeline in a YAML file, or only check it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.arguments import split_servers
from headrace.cli.output import plural, say
from headrace.cli.spark.spark_command import (
    SHORT_SETTINGS,
    connected,
    metrics_for_command,
    metrics_option,
    spark_for_command,
)
from headrace.cli.target import Target, identity_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.client.credentials import Credentials
    from headrace.client.tls import Tls
    from headrace.spark.metrics import Metrics
    from headrace.spark.pipeline.specification import Pipeline

CONSOLE_ROWS = 20


def server_override(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """The URLs; if there are none, those in the file are used."""
    return () if value is None else split_servers(ctx, param, value)


EPILOG = """\b
Examples:
  headrace pipeline check shop.yml
  headrace pipeline run shop.yml
  headrace pipeline run shop.yml --once
  headrace pipeline run shop.yml --server nats://10.0.0.7:4222

When restarted, it resumes where it stopped. docs/spark.md describes the file format.
"""


@click.group(short_help="Run pipelines of streams and tables.", epilog=EPILOG)
def pipeline() -> None:
    """Run streams through SQL and Python into tables and streams, as described in a YAML file."""


@pipeline.command(epilog=EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="Skip the checks that need Spark: SQL and column names.")
def check(file: Path, quick: bool) -> None:
    """Report the errors in a pipeline file.

    Nothing runs, and no server is needed.
    """
    from headrace.spark.pipeline.plan import build_views, import_functions
    from headrace.spark.pipeline.reading import read_pipeline
    from headrace.spark.pipeline.server import check_reachable
    from headrace.spark.session import require_pyspark

    require_pyspark()
    found = read_pipeline(file)
    check_reachable(found.server, found.master)
    import_functions(found)
    if not quick:
        with spark_for_command(f"headrace pipeline {found.name}", "local[1]", SHORT_SETTINGS) as spark:
            build_views(spark, found, {})
    counts = [(found.sources, "source"), (found.steps, "step"), (found.sinks, "sink")]
    click.echo(f"{file}: OK: " + ", ".join(plural(len(specs), noun) for specs, noun in counts))


@pipeline.command(epilog=EPILOG)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Process what is in the streams now, then exit.")
@click.option("--master", metavar="MASTER", help="Spark master; overrides the file.")
@click.option(
    "--server",
    "-s",
    metavar="URL",
    callback=server_override,
    help="Server, or a comma-separated list; overrides the file.",
)
@metrics_option
@partial(identity_options, environment=False)  # which must not replace what the file says
def run(
    file: Path,
    once: bool,
    master: str | None,
    server: tuple[str, ...],
    metrics_at: tuple[str, int] | None,
    identity: Credentials,
    tls: Tls | None,
) -> None:
    """Run a pipeline until Ctrl-C.

    With --once, until everything is processed.
    """
    from headrace.cli.spark.spark_command import check_not_connect
    from headrace.spark.pipeline.plan import import_functions
    from headrace.spark.pipeline.reading import read_pipeline
    from headrace.spark.pipeline.server import check_reachable
    from headrace.spark.pipeline.streams import check_names
    from headrace.spark.session import require_pyspark

    require_pyspark()
    found = read_pipeline(file)
    check_not_connect(master or found.master, found.conf)
    if not server:
        check_reachable(found.server, master or found.master)
    import_functions(found)
    with metrics_for_command(metrics_at) as metrics, _server(found, server, identity, tls) as target:
        with connected(target) as client:
            check_names(client, found)
        _run(found, target, master or found.master, metrics, once=once)


def _run(found: Pipeline, target: Target, master: str, metrics: Metrics | None, *, once: bool) -> None:
    """With Spark."""
    from headrace.cli.spark.follow import follow
    from headrace.cli.spark.source_options import source_options
    from headrace.spark.land import SETTINGS
    from headrace.spark.landing_report import LandingReporter
    from headrace.spark.pipeline.modules import fail_in_step
    from headrace.spark.pipeline.plan import build_views
    from headrace.spark.pipeline.run import Queries
    from headrace.spark.pipeline.streams import check_sinks, make_streams

    options = source_options(target)
    settings = SETTINGS | (SHORT_SETTINGS if once else {}) | dict(found.conf)
    name = f"headrace pipeline {found.name}"
    with spark_for_command(name, master, settings, kind="stream") as spark:
        views = build_views(spark, found, options)
        with connected(target) as client:  # not before the whole file was checked
            for name in make_streams(client, found):
                say(f"created the stream {name}")
            for warning in check_sinks(client, found):
                say(f"warning: {warning}")
        with LandingReporter(options) as reporter:
            queries = Queries(spark, found, views, options, _show, once=once, reporter=reporter)
            started = queries.start_all()
            say(f"running {', '.join(started)}" + ("" if once else "; Ctrl-C stops"))
            try:
                progress = follow(started, queries.start, tallies=queries.tallies, metrics=metrics)
            except Exception as error:  # Spark's, which may be that of a step
                fail_in_step(error, found)
                raise
        for name, reached in progress.items():
            say(f"{name}: {reached.summary('written')}")


@contextmanager
def _server(
    found: Pipeline, given: tuple[str, ...], identity: Credentials, tls: Tls | None
) -> Iterator[Target]:
    """The URLs of the servers: given, from the file, or of a server that is started and stopped here."""
    from headrace.cli.embedded import embedded_server
    from headrace.client.credentials import Credentials

    spec = found.server
    if given or not spec.embedded:
        yield Target(
            servers=given or spec.urls,
            credentials=spec.credentials if identity == Credentials() else identity,
            tls=tls or spec.tls,
        )
        return
    with embedded_server(spec.store, spec.port) as url:
        say(f"the embedded server listens on {url} and stores its streams in {spec.store}")
        yield Target(servers=(url,), credentials=Credentials())


def _show(name: str, rows: DataFrame) -> None:
    from headrace.cli.spark.sql import lines_of_table

    shown = rows.limit(CONSOLE_ROWS)
    lines = list(lines_of_table(shown))
    if len(lines) > 2:  # there is always a header and a rule
        click.echo("\n".join([f"{name}:", *lines, ""]))
