"""`headrace pipeline`: run the pipeline in a YAML file, or only check it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.arguments import Target, split_servers
from headrace.cli.output import plural, say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    """Report the errors in a pipeline file, without running it and without a server."""
    from headrace.cli.spark_command import SHORT_SETTINGS, spark_for_command
    from headrace.spark.pipeline.plan import build_views, import_functions
    from headrace.spark.pipeline.reading import read_pipeline
    from headrace.spark.session import require_pyspark

    require_pyspark()
    found = read_pipeline(file)
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
def run(file: Path, once: bool, master: str | None, server: tuple[str, ...]) -> None:
    """Run a pipeline until Ctrl-C or, with --once, until everything is processed."""
    from headrace.cli.follow import follow
    from headrace.cli.spark_command import connected, source_options, spark_for_command
    from headrace.spark.land import SETTINGS
    from headrace.spark.pipeline.plan import build_views, import_functions
    from headrace.spark.pipeline.reading import read_pipeline
    from headrace.spark.pipeline.run import Queries
    from headrace.spark.pipeline.streams import check_names, check_sinks, make_streams
    from headrace.spark.session import require_pyspark

    require_pyspark()
    found = read_pipeline(file)
    import_functions(found)
    with _server(found, server) as target:
        with connected(target) as client:
            check_names(client, found)
        settings = SETTINGS | dict(found.conf)
        options = source_options(target)
        with spark_for_command(f"headrace pipeline {found.name}", master or found.master, settings) as spark:
            views = build_views(spark, found, options)
            with connected(target) as client:  # not before the whole file was checked
                for name in make_streams(client, found):
                    say(f"created the stream {name}")
                for warning in check_sinks(client, found):
                    say(f"warning: {warning}")
            queries = Queries(spark, found, views, options, _show, once=once)
            started = queries.start_all()
            say(f"running {', '.join(started)}" + ("" if once else "; Ctrl-C stops"))
            for name, progress in follow(started, queries.start).items():
                say(f"{name}: {plural(progress.rows, 'row')} read, {progress.lag:,} behind")


@contextmanager
def _server(found: Pipeline, given: tuple[str, ...]) -> Iterator[Target]:
    """The URLs of the servers: given, from the file, or of a server that is started and stopped here."""
    from headrace.cli.embedded import embedded_server

    spec = found.server
    if given or not spec.embedded:
        yield Target(
            servers=given or spec.urls,
            user=spec.user or None,
            password=spec.password or None,
            token=spec.token or None,
        )
        return
    with embedded_server(spec.store, spec.port) as url:
        say(f"the embedded server listens on {url} and stores its streams in {spec.store}")
        yield Target(servers=(url,))


def _show(name: str, rows: DataFrame) -> None:
    from headrace.cli.sql import lines_of_table

    shown = rows.limit(CONSOLE_ROWS)
    lines = list(lines_of_table(shown))
    if len(lines) > 2:  # there is always a header and a rule
        click.echo("\n".join([f"{name}:", *lines, ""]))
