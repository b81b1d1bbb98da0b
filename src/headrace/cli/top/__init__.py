"""`headrace top`: connections and streams of a server, live, like nats-top."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from headrace.cli.arguments import Seconds
from headrace.cli.tables import print_json
from headrace.errors import UsageError

DEFAULT_MONITOR = "http://127.0.0.1:8222"


@click.command(
    epilog="""\b
Examples:
  headrace top                                  a server on this machine
  headrace top -m 8333                          another one
  headrace top --monitor http://nats:8222 --sort bytes_to
  headrace top --streams
  headrace top --once --json                    for programs
"""
)
@click.option(
    "--monitor",
    "-m",
    default=DEFAULT_MONITOR,
    metavar="URL",
    help=f"The server's monitor port: a URL, or just a port. [default: {DEFAULT_MONITOR}]",
)
@click.option(
    "--conns",
    "-n",
    type=click.IntRange(1, 100_000),
    default=1024,
    metavar="N",
    help="Most connections to ask for. [default: 1024]",
)
@click.option(
    "--interval",
    "-d",
    type=Seconds(min=0.1),
    default=1.0,
    metavar="SECONDS",
    help="Time between two looks. [default: 1]",
)
@click.option("--sort", metavar="ORDER", help="Order of connections or streams. [default: cid, or name]")
@click.option("--streams", is_flag=True, help="Begin with streams.")
@click.option("--subs", is_flag=True, help="Show subscriptions.")
@click.option("--raw", is_flag=True, help="Show plain numbers.")
@click.option(
    "--max-refresh",
    "-r",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after N refreshes. [default: never]",
)
@click.option(
    "--once", "-b", is_flag=True, help="Print one snapshot, after two looks, and exit; for scripts."
)
@click.option("--json", "-j", "as_json", is_flag=True, help="With --once: print a JSON document.")
@click.option("--tls-ca", metavar="FILE", help="CA of an https monitor port.")
@click.option("--tls-cert", metavar="FILE", help="Client certificate.")
@click.option("--tls-key", metavar="FILE", help="Key of the client certificate.")
@click.option("--tls-insecure", is_flag=True, help="Accept any certificate.")
def top(
    monitor: str,
    conns: int,
    interval: float,
    sort: str | None,
    streams: bool,
    subs: bool,
    raw: bool,
    max_refresh: int | None,
    once: bool,
    as_json: bool,
    **tls: Any,
) -> int:
    """Show a server's connections and streams, live.

    It reads the monitor port, as nats-top does. Press ? for the keys, q to quit.
    """
    from headrace.cli.monitor_port import MonitorPort
    from headrace.cli.top.figures import CONNECTIONS, STREAMS, Request, take
    from headrace.cli.top.view import Look

    if as_json and not once:
        raise click.UsageError("--json needs --once")
    look = Look(STREAMS if streams else CONNECTIONS, limit=conns, subscriptions=subs, raw=raw)
    if sort is not None:
        if sort not in look.orders:
            raise click.UsageError(f"--sort {sort} is none of {', '.join(look.orders)}")
        look.sort_by(sort)
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("top needs a terminal", hint="--once prints one snapshot")
    port = MonitorPort(monitor, _context(**tls))
    order = look.connection_order if look.view == CONNECTIONS else "cid"
    request = Request(look.view, order, conns, subs)
    first = take(port, request, None)
    if once:
        time.sleep(interval)  # rates are between two looks
        _print_once(take(port, request, first), look, as_json)
        return 0
    from headrace.cli.top.program import Program

    return Program(port, look, interval, max_refresh or 0, first).run()


def _print_once(snapshot: Any, look: Any, as_json: bool) -> None:
    from headrace.cli.top.view import body_lines, server_lines

    if as_json:
        print_json(
            {
                "varz": snapshot.varz,
                "rates": snapshot.rates,
                **(
                    {"streams": snapshot.streams}
                    if snapshot.request.view == "streams"
                    else {"connections": snapshot.connections}
                ),
            }
        )
        return
    lines = [*server_lines(snapshot, look.raw), "", *body_lines(snapshot, look, None)]
    sys.stdout.buffer.write("\n".join(lines).encode(errors="replace") + b"\n")
    sys.stdout.buffer.flush()


def _context(tls_ca: str | None, tls_cert: str | None, tls_key: str | None, tls_insecure: bool) -> Any:
    """None if nothing was chosen."""
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key belong together")
    if not (tls_ca or tls_cert or tls_insecure):
        return None
    from headrace.client.tls import Tls

    return Tls(ca=tls_ca or "", cert=tls_cert or "", key=tls_key or "", insecure=tls_insecure).context()
