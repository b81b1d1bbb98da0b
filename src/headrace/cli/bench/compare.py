"""`headrace bench compare`: the same workloads against several servers, in alternating rounds."""

from __future__ import annotations

import click

from headrace.errors import UsageError


@click.command(
    epilog="""\b
Examples:
  headrace bench compare nats-server headrace
  headrace bench compare nats-server headrace --suite full --markdown
  headrace bench compare headrace ./build/other-server --rows 1-10,10-10 --rounds 9
"""
)
@click.argument("servers", nargs=-1, required=True, metavar="SERVER...")
@click.option(
    "--suite",
    type=click.Choice(("quick", "full", "streams", "long")),
    default="quick",
    help="quick: a tenth of the messages and no large rows; long: takes minutes. [default: quick]",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Runs of every row against every server. [default: 3; full and streams: 5; long: 1]",
)
@click.option("--rows", metavar="KEY,...", help="Only these rows.")
@click.option("--json", "json_file", metavar="FILE", help="Also write every round to this file.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def compare(
    servers: tuple[str, ...],
    suite: str,
    rounds: int | None,
    rows: str | None,
    json_file: str | None,
    markdown: bool,
) -> int:
    """Compare servers, as ratios to the first.

    Each SERVER is headrace, nats-server, a path or a URL.
    """
    from headrace.bench.comparison import show_comparison
    from headrace.bench.servers import find_server
    from headrace.bench.suites import ROUNDS, choose_rows

    try:
        found = [find_server(server) for server in servers]
        chosen = choose_rows(suite, rows)
    except UsageError as error:
        raise click.UsageError(str(error)) from None
    return show_comparison(chosen, found, rounds or ROUNDS[suite], markdown=markdown, json_file=json_file)
