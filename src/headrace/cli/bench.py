"""`headrace bench`: the group of what measures and what reports."""

from __future__ import annotations

import click

from headrace.cli.bench_report import report


@click.group()
def bench() -> None:
    """Measure any NATS server, and report on what was measured."""


bench.add_command(report)
