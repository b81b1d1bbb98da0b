"""`headrace check server`: CPU, memory, connections and the like, as the server reports them in `varz`.

It asks in the system account, as the nats tool does, or, with --monitor, the monitor port.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.check.result import Result
from headrace.cli.check.runner import Report, report_options, run_any_check, run_check
from headrace.cli.check.thresholds import count_option, duration_option
from headrace.cli.human import duration, parse_time
from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError, UsageError
from headrace.go_formats import NANOSECONDS

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream

LISTENERS = ("server", "cluster", "gateway", "leafnode", "mqtt", "websocket")
REQUIREMENTS = (
    ("tls_required", "TLS"),
    ("auth_required", "Authentication"),
)


@click.command()
@connection_options
@click.option("--name", metavar="NAME", help="The server's name; required unless --monitor is given.")
@click.option(
    "--monitor", metavar="URL", help="Ask this monitor port (a URL or a port), not the system account."
)
@count_option("--cpu-warn", "Warn at this CPU usage.", metavar="PERCENT")
@count_option("--cpu-critical", "Critical at this CPU usage.", metavar="PERCENT")
@count_option("--mem-warn", "Warn at this memory usage.", metavar="BYTES")
@count_option("--mem-critical", "Critical at this memory usage.", metavar="BYTES")
@count_option("--conn-warn", "Warn at this many connections.")
@count_option("--conn-critical", "Critical at this many; if less than the other, this few.")
@count_option("--subs-warn", "Warn at this many subscriptions.")
@count_option("--subs-critical", "Critical at this many; if less than the other, this few.")
@duration_option("--uptime-warn", None, "Warn if it started this recently.")
@duration_option("--uptime-critical", None, "Critical if it started this recently.")
@click.option("--auth-required", is_flag=True, help="Critical unless it requires authentication.")
@click.option("--tls-required", is_flag=True, help="Critical unless it requires TLS.")
@click.option("--js-required", is_flag=True, help="Critical unless it has JetStream.")
@duration_option("--tls-cert-warn", None, "Warn if a certificate expires this soon.")
@duration_option("--tls-cert-crit", None, "Critical if a certificate expires this soon.")
@report_options
def server(target: Target, report: Report, name: str | None, monitor: str | None, **limits: Any) -> int:
    """Check a server. Needs a user of the system account, or --monitor."""
    if not name and not monitor:
        raise click.UsageError("--name is required, or --monitor")
    result = Result("server", name or "Server")

    if monitor is not None:
        from headrace.cli.monitor_port import MonitorPort

        def look() -> None:
            check_server(result, MonitorPort(monitor).get("/varz"), name, limits)

        return run_any_check(report, result, look)

    async def work(result: Result, jetstream: JetStream) -> None:
        check_server(result, await _ask(jetstream, name or ""), name, limits)

    return run_check(report, result, target, work)


async def _ask(jetstream: JetStream, name: str) -> dict[str, Any]:
    import nats.errors

    from headrace.cli.jetstream.api import NoJetStreamError

    body = {"name": name, "exact_match": True}
    try:
        answer = await jetstream.ask("$SYS.REQ.SERVER.PING.VARZ", body)
        document = jetstream.decode(answer.data, "varz")
    except NoJetStreamError:
        raise HeadraceError(
            "varz failed: nobody answers", hint="is the user in the system account? otherwise use --monitor"
        ) from None
    except (HeadraceError, nats.errors.Error) as error:
        raise HeadraceError(f"varz failed: {error}") from None
    if not isinstance(document.get("data"), dict):
        raise HeadraceError(f"no data received for {name}")
    found: dict[str, Any] = document["data"]
    return found


def check_server(result: Result, varz: dict[str, Any], name: str | None, limits: dict[str, Any]) -> None:
    found = str(varz.get("server_name", ""))
    if name and found != name:
        raise HeadraceError(f"result from wrong server {found!r}")
    result.name = found or result.name
    for field, text in REQUIREMENTS:
        if limits[field]:
            there = bool(varz.get(field))
            (result.ok if there else result.critical)(f"{text} {'required' if there else 'not required'}")
    if limits["js_required"]:
        there = bool((varz.get("jetstream") or {}).get("config"))
        (result.ok if there else result.critical)(f"JetStream {'enabled' if there else 'not enabled'}")
    _check_certificates(result, varz, limits["tls_cert_warn"], limits["tls_cert_crit"])
    _check_uptime(result, varz, limits["uptime_warn"], limits["uptime_critical"])
    for figure, field, start, text, unit, meaning in (
        ("cpu", "cpu", "cpu", "CPU", "%", "NATS Server CPU usage in percentage"),
        ("mem", "mem", "mem", "Memory", "", "NATS Server memory usage in bytes"),
        ("connections", "connections", "conn", "Connections", "", "Active connections"),
        ("subscriptions", "subscriptions", "subs", "Subscriptions", "", "Active subscriptions"),
    ):
        value, warn, crit = float(varz.get(field, 0)), limits[f"{start}_warn"], limits[f"{start}_critical"]
        result.measure(figure, value, meaning, warn=warn, crit=crit, unit=unit)
        if warn > 0 or crit > 0:
            result.compare(value, warn, crit, f"{text} {value:.2f}", invertible=start in ("conn", "subs"))
    if not result.criticals and not result.warnings and not result.oks:
        result.ok(f"up {duration(_age(varz))}")


def _age(varz: dict[str, Any]) -> int:
    return parse_time(varz["now"]) - parse_time(varz["start"])


def _check_uptime(result: Result, varz: dict[str, Any], warn: float, crit: float) -> None:
    if crit > warn > 0:
        raise UsageError("Up invalid thresholds: --uptime-critical is longer than --uptime-warn")
    up = _age(varz)
    seconds = up / NANOSECONDS
    result.measure("uptime", seconds, "NATS Server uptime in seconds", warn=warn, crit=crit, unit="s")
    if warn > 0 or crit > 0:
        text = f"Up {duration(up)}"
        (result.critical if seconds <= crit else result.warning if seconds <= warn else result.ok)(text)


def _check_certificates(result: Result, varz: dict[str, Any], warn: float, crit: float) -> None:
    if not warn and not crit:
        return
    found = False
    for listener in LISTENERS:
        part = (
            varz if listener == "server" else varz.get("leaf" if listener == "leafnode" else listener) or {}
        )
        end = part.get("tls_cert_not_after", "")
        if not end or end.startswith("0001-"):
            continue
        found = True
        rest = (parse_time(end) - parse_time(varz["now"])) / NANOSECONDS
        text = f"{listener} TLS certificate expires in {duration(round(rest) * NANOSECONDS)}"
        if rest <= 0:
            result.critical(f"{listener} TLS certificate expired (expired_at={end})")
        else:
            (result.critical if rest <= crit else result.warning if rest <= warn else result.ok)(text)
    if not found:
        result.critical("TLS certificate expiry thresholds configured but no TLS certificates found")
