"""`headrace bench`: measure a NATS server, ours or another.

    headrace bench [WORKLOAD] [OPTIONS]     one run (this file)
    headrace bench compare A B ...          several servers in alternating rounds

The group passes everything that does not start with the name of a command to `run`, which has no name. click
accepts an option such as `-np`, a single dash and two letters, as in nats-bench.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.arguments import name_of_stream, queue_group, subject_to_publish
from headrace.cli.bench.compare import compare
from headrace.cli.bench.report import report
from headrace.cli.default_group import DefaultGroup, NamelessCommand
from headrace.cli.target import identity_options
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.client.credentials import Credentials
    from headrace.client.tls import Tls

WORKLOADS = ("pubsub", "request", "latency", "subjects", "connections", "stream-publish", "stream-consume")
PRESETS = ("rnats-1x10", "rnats-10x10", "beaver-100", "beaver-1000")
DEFAULT_URL = "nats://127.0.0.1:4222"
MESSAGE_BYTES_MAX = 64 * 1024 * 1024


class Number(click.IntRange):
    """Also accepts `-n=5`, as nats-bench does; click then passes `=5`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            value = value.removeprefix("=")
        return super().convert(value, param, ctx)


@click.group(cls=DefaultGroup, short_help="Measure any NATS server.")
def bench() -> None:
    """Measure any NATS server."""


bench.add_command(compare)
bench.add_command(report)


@bench.command(
    cls=NamelessCommand,
    hidden=True,
    epilog="""\b
Workloads:
  pubsub          messages per second, at full speed (default)
  request         round trips per second, and their latency
  latency         latency at a fixed rate, stalls included
  subjects        many subjects, wildcards, queue groups
  connections     memory per idle connection
  stream-publish  how many messages per second a stream acknowledges
  stream-consume  how many messages per second consumers pull from a stream

\b
Examples:
  headrace bench --start headrace -np 1 -ns 10 -n 1000000
  headrace bench latency --start nats-server --rate 50000 --duration 10
  headrace bench --preset rnats-10x10 --start headrace
  headrace bench stream-publish --start headrace --in-flight 4096

`headrace bench compare` measures several servers, `headrace bench report` makes a page of saved runs.
""",
)
@click.argument("workload", type=click.Choice(WORKLOADS), default="pubsub", metavar="[WORKLOAD]")
@click.option(
    "--urls",
    "-s",
    envvar="NATS_URL",
    default=None,
    metavar="URL",
    help=f"Server to measure, or a comma-separated list. [default: {DEFAULT_URL}; env NATS_URL]",
)
@click.option(
    "--start",
    metavar="SERVER",
    help="Start a server for this run: headrace, nats-server or a path.",
)
@click.option(
    "--server-config", metavar="FILE", help="Configuration file for the server that --start starts."
)
@click.option("--pid", type=click.IntRange(min=1), metavar="PID", help="Process id of the server at --urls.")
@click.option("--preset", type=click.Choice(PRESETS), help="Repeat a published run of rnats or beaver.")
@click.option("--subject", callback=subject_to_publish, metavar="SUBJECT", help="Subject. [default: bench]")
@click.option("-np", "--num-pubs", type=Number(1, 100_000), metavar="N", help="Publishers. [default: 1]")
@click.option("-ns", "--num-subs", type=Number(0, 100_000), metavar="N", help="Subscribers. [default: 0]")
@click.option(
    "-n", "--num-msgs", type=Number(min=1), metavar="N", help="Messages in total. [default: 100000]"
)
@click.option(
    "-ms",
    "--msg-size",
    type=Number(0, MESSAGE_BYTES_MAX),
    metavar="BYTES",
    help="Message size. [default: 128]",
)
@click.option("--processes", type=Number(1, 256), metavar="N", help="pubsub: client processes. [default: 1]")
@click.option(
    "--in-flight",
    type=Number(1, 65_536),
    metavar="N",
    help="request: outstanding requests; stream-publish: unacknowledged messages. [default: 1; 256]",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0.01, max=1e8),
    metavar="N",
    help="latency: messages per second. [default: 10000]",
)
@click.option(
    "--duration",
    type=click.FloatRange(min=0.01, max=86_400),
    metavar="SECONDS",
    help="latency: duration. [default: 10]",
)
@click.option(
    "--num-subjects",
    type=Number(1, 10_000_000),
    metavar="N",
    help="subjects: number of subjects. [default: 10000]",
)
@click.option("--queue", callback=queue_group, metavar="GROUP", help="subjects: subscribe as a queue group.")
@click.option(
    "--wildcard",
    type=click.Choice((">", "*", "none")),
    help="subjects: wildcard of subscribers; none: one subscription per subject. [default: >]",
)
@click.option(
    "--num-conns",
    type=Number(1, 1_000_000),
    metavar="N",
    help="connections: number of connections. [default: 1000]",
)
@click.option(
    "--stream",
    callback=name_of_stream,
    metavar="NAME",
    help="stream-*: stream name. [default: headrace-bench]",
)
@click.option(
    "--storage",
    type=click.Choice(("file", "memory")),
    help="stream-*: storage of the stream. [default: file]",
)
@click.option("--keep", is_flag=True, default=None, help="stream-*: do not delete the stream afterwards.")
@click.option(
    "--msg-ids", is_flag=True, default=None, help="stream-publish: add a Nats-Msg-Id to every message."
)
@click.option(
    "--batch",
    type=Number(1, 1_000_000),
    metavar="N",
    help="stream-consume: messages per pull. [default: 1000]",
)
@click.option(
    "--acks",
    type=click.Choice(("explicit", "none")),
    help="stream-consume: acknowledge every message, or none. [default: explicit]",
)
@click.option(
    "--shared", is_flag=True, default=None, help="stream-consume: all clients pull from one consumer."
)
@click.option("--csv-file", metavar="FILE", help="Also write a line per client to this file.")
@click.option("--json", "as_json", is_flag=True, help="Write the result as JSON.")
@click.option("--save", metavar="DIR", help="Also save the run as Parquet in this directory.")
@identity_options
def run(
    workload: str,
    urls: str | None,
    start: str | None,
    pid: int | None,
    server_config: str | None,
    preset: str | None,
    csv_file: str | None,
    as_json: bool,
    save: str | None,
    identity: Credentials,
    tls: Tls | None,
    **flags: Any,
) -> int:
    """Measure any NATS server with one WORKLOAD."""
    import json

    from headrace.bench import classic, export
    from headrace.bench import save as saving
    from headrace.bench.jobs import make_job
    from headrace.bench.progress import Bar
    from headrace.bench.runs import run_job
    from headrace.bench.servers import allow_many_files

    try:
        given = {name: value for name, value in flags.items() if value is not None}
        job = make_job(workload, given, preset or "")
        server = server_to_measure(urls, start, pid, server_config, identity, tls)
    except UsageError as error:
        raise click.UsageError(str(error)) from None
    if csv_file:
        export.check_can_write(csv_file)
    if save:
        saving.check_can_save(save)
    allow_many_files()
    with Bar(f"{job.describe()}, {server.name}") as bar:
        finished = run_job(job, server, bar)
    if csv_file:
        export.write_csv(finished, csv_file)
    if save:
        saving.save(finished, save)
    click.echo(json.dumps(export.as_json(finished), indent=1) if as_json else classic.report(finished))
    return 0


def server_to_measure(
    urls: str | None,
    start: str | None,
    pid: int | None,
    config_file: str | None,
    identity: Credentials,
    tls: Tls | None,
) -> Any:
    """Raises UsageError for wrong options, BenchError if no server answers."""
    from headrace.bench.runs import first_that_answers
    from headrace.bench.servers import find_server, is_url
    from headrace.client.addresses import parse_servers

    if start is None and config_file is not None:
        raise UsageError("--server-config needs --start")
    if pid is not None and start is None and not Path(f"/proc/{pid}").is_dir():
        raise UsageError(f"process {pid} does not exist")
    given = identity if identity.creds or identity.nkey else None
    if start is None:
        addresses = [
            address._replace(identity=given, tls=tls) for address in parse_servers(urls or DEFAULT_URL)
        ]
        return first_that_answers(addresses, pid)
    source = click.get_current_context().get_parameter_source("urls")
    if urls is not None and source is click.core.ParameterSource.COMMANDLINE:
        raise UsageError("use either --urls or --start, not both")
    if pid is not None:
        raise UsageError("--pid is for a running server: use it with --urls")
    if is_url(start):
        raise UsageError("--start takes headrace, nats-server or a path; for a running server use --urls")
    if config_file is not None and not Path(config_file).is_file():
        raise UsageError(f"file {config_file} does not exist")
    server = replace(find_server(start), identity=given, tls=tls)
    if config_file is None:
        return server
    # With another configuration it counts as another server, so its name is in every report.
    return replace(server, name=f"{server.name} ({Path(config_file).name})", config_file=config_file)
