"""`headrace check jetstream`: how much of its limits an account uses, and whether its streams are healthy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.check.result import Result
from headrace.cli.check.runner import Report, report_options, run_check
from headrace.cli.check.thresholds import count_option, duration_option
from headrace.cli.target import Target, connection_options
from headrace.go_formats import NANOSECONDS

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream

RESOURCES = (
    ("memory", "memory", "max_memory", "mem", "B"),
    ("storage", "storage", "max_storage", "store", "B"),
    ("streams", "streams", "max_streams", "streams", ""),
    ("consumers", "consumers", "max_consumers", "consumers", ""),
)
"""Name, field of the account, its limit, start of the thresholds' names, unit."""


@click.command()
@connection_options
@count_option("--mem-warn", "Warn above this part of the memory limit.", 75, "PERCENT")
@count_option("--mem-critical", "Critical above this part of the memory limit.", 90, "PERCENT")
@count_option("--store-warn", "Warn above this part of the disk limit.", 75, "PERCENT")
@count_option("--store-critical", "Critical above this part of the disk limit.", 90, "PERCENT")
@count_option("--streams-warn", "Warn above this part of the limit on streams.", -1, "PERCENT")
@count_option("--streams-critical", "Critical above this part of the limit on streams.", -1, "PERCENT")
@count_option("--consumers-warn", "Warn above this part of the limit on consumers.", -1, "PERCENT")
@count_option("--consumers-critical", "Critical above this part of the limit on consumers.", -1, "PERCENT")
@click.option(
    "--replicas/--no-replicas", default=True, help="Check the replicas of all streams. [default: replicas]"
)
@duration_option("--replica-seen-critical", "5s", "Critical if a replica was not seen for longer.")
@count_option("--replica-lag-critical", "Critical if a replica is more operations behind.", 200)
@report_options
def jetstream(target: Target, report: Report, **limits: Any) -> int:
    """Check the JetStream usage of the account."""

    async def work(result: Result, jetstream: JetStream) -> None:
        account = await jetstream.request("INFO")
        for resource in RESOURCES:
            _check_usage(result, account, limits, *resource)
        if limits["replicas"]:
            _check_replicas(
                result,
                await jetstream.streams(),
                limits["replica_seen_critical"],
                limits["replica_lag_critical"],
            )
        if not result.criticals and not result.warnings:
            result.ok(f"{account.get('streams', 0)} streams, {account.get('consumers', 0)} consumers")

    return run_check(report, Result("jetstream", "JetStream"), target, work)


def _check_usage(
    result: Result,
    account: dict[str, Any],
    limits: dict[str, Any],
    name: str,
    field: str,
    limit: str,
    start: str,
    unit: str,
) -> None:
    used, most = account.get(field, 0), (account.get("limits") or {}).get(limit, -1)
    percent = int(100 * used / most) if most > 0 else 0
    warn, crit = limits[f"{start}_warn"], limits[f"{start}_critical"]
    result.measure(name, used, f"JetStream {name} resource usage", unit=unit)
    result.measure(
        f"{name}_pct",
        percent,
        f"JetStream {name} resource usage in percent",
        warn=max(0, warn),
        crit=max(0, crit),
        unit="%",
    )
    if -1 not in (warn, crit) and warn >= crit:
        result.critical(f"{name}: invalid thresholds")
    elif percent > 100:
        result.critical(f"{name}: exceed server limits")
    elif 0 <= crit < percent:
        result.critical(f"{percent}% {name}")
    elif 0 <= warn < percent:
        result.warning(f"{percent}% {name}")


def _check_replicas(result: Result, infos: list[dict[str, Any]], seen: float, lag: int) -> None:
    counts = dict.fromkeys(("ok", "no_leader", "missing_replicas", "lagged", "not_seen", "fail"), 0)
    for info in infos:
        counts[_state_of_replicas(info, seen, lag)] += 1
    helps = {
        "ok": "Streams with healthy cluster state",
        "no_leader": "Streams with no leader elected",
        "missing_replicas": "Streams where there are fewer known replicas than configured",
        "lagged": f"Streams with > {lag} lagged replicas",
        "not_seen": f"Streams with replicas seen > {seen:g}s ago",
        "fail": "Streams unhealthy cluster state",
    }
    for name, text in helps.items():
        result.measure(f"replicas_{name}", counts[name], text)
    if unhealthy := sum(counts.values()) - counts["ok"]:
        result.critical(f"{unhealthy} unhealthy streams")


def _state_of_replicas(info: dict[str, Any], seen: float, lag: int) -> str:
    wanted, cluster = info["config"].get("num_replicas", 1), info.get("cluster") or {}
    if wanted == 1:
        return "ok"
    peers = cluster.get("replicas") or []
    if not cluster:
        return "fail"
    if not cluster.get("leader"):
        return "no_leader"
    if len(peers) != wanted - 1:
        return "missing_replicas"
    for peer in peers:
        if peer.get("offline"):
            return "fail"
        if 0 < seen < peer.get("active", 0) / NANOSECONDS:
            return "not_seen"
        if 0 < lag < peer.get("lag", 0):
            return "lagged"
    return "ok"
