"""`headrace check stream`: how much is in it, its mirror or sources, its replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.arguments import name_of_stream
from headrace.cli.check.result import Result
from headrace.cli.check.runner import Report, report_options, run_check
from headrace.cli.check.thresholds import count_option, duration_option, with_metadata
from headrace.cli.human import duration
from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError
from headrace.go_formats import NANOSECONDS

if TYPE_CHECKING:
    from headrace.cli.jetstream.api import JetStream


@click.command()
@connection_options
@click.option("--stream", required=True, callback=name_of_stream, metavar="NAME", help="The stream to check.")
@count_option("--lag-critical", "Critical if a source or the mirror is this many messages behind.")
@duration_option("--seen-critical", None, "Critical if a source or the mirror was not seen for this long.")
@count_option("--min-sources", "Critical if there are fewer sources.")
@count_option("--max-sources", "Critical if there are more sources.")
@count_option("--peer-expect", "Critical unless there are this many replicas.")
@count_option("--peer-lag-critical", "Critical if a replica is more operations behind.")
@duration_option("--peer-seen-critical", None, "Critical if a replica was not seen for longer.")
@count_option("--msgs-warn", "Warn if there are no more messages than this.")
@count_option("--msgs-critical", "Critical if there are no more messages than this.")
@count_option("--subjects-warn", "Warn if there are this many subjects.")
@count_option("--subjects-critical", "Critical if there are this many; if less than the other, this few.")
@report_options
def stream(target: Target, report: Report, stream: str, **limits: Any) -> int:
    """Check a stream.

    Thresholds can be in the stream's metadata, too, as io.nats.monitor.lag-critical and so on; the command
    line overrides them.
    """

    async def work(result: Result, jetstream: JetStream) -> None:
        info = await jetstream.stream(stream)
        if info is None:
            raise HeadraceError(f"could not load info: there is no stream {stream}")
        chosen = with_metadata(limits, info)
        check_replicas(result, info, chosen)
        check_messages(result, info, chosen)
        check_subjects(result, info, chosen)
        check_sources(result, info, chosen)
        check_mirror(result, info, chosen)

    return run_check(report, Result("stream", stream), target, work)


def check_messages(result: Result, info: dict[str, Any], limits: dict[str, Any]) -> None:
    count, warn, crit = info["state"]["messages"], limits["msgs_warn"], limits["msgs_critical"]
    if warn <= 0 and crit <= 0:
        return
    result.measure("messages", count, "Messages stored in the stream", warn=warn, crit=crit)
    if 0 < crit >= count:
        result.critical(f"{count} messages")
    elif 0 < warn >= count:
        result.warning(f"{count} messages")
    else:
        result.ok(f"{count} messages")


def check_subjects(result: Result, info: dict[str, Any], limits: dict[str, Any]) -> None:
    count, warn, crit = (
        info["state"].get("num_subjects", 0),
        limits["subjects_warn"],
        limits["subjects_critical"],
    )
    if warn > 0 or crit > 0:
        result.measure("subjects", count, "Number of subjects stored in the stream", warn=warn, crit=crit)
        result.compare(count, warn, crit, f"{count} subjects", invertible=True)


def check_sources(result: Result, info: dict[str, Any], limits: dict[str, Any]) -> None:
    sources = info.get("sources") or []
    least, most = limits["min_sources"], limits["max_sources"]
    result.measure(
        "sources", len(sources), "Number of sources being consumed by this stream", warn=least, crit=most
    )
    wrong = 0 < least > len(sources) or 0 < most < len(sources)
    (result.critical if wrong else result.ok)(f"{len(sources)} sources")
    lag, seen = limits["lag_critical"], limits["seen_critical"]
    if not sources or (lag <= 0 and seen <= 0):
        return
    lagged = sum(0 < lag <= source.get("lag", 0) for source in sources)
    inactive = sum(0 < seen <= _active(source) for source in sources)
    result.measure(
        "sources_lagged", lagged, "Number of sources that are behind more than the configured threshold"
    )
    result.measure("sources_inactive", inactive, "Number of sources that are inactive")
    if lagged:
        result.critical(f"{lagged} sources are lagged")
    else:
        result.ok(f"{len(sources)} sources current")
    if inactive:
        result.critical(f"{inactive} sources are inactive")
    else:
        result.ok(f"{len(sources)} sources active")


def check_mirror(result: Result, info: dict[str, Any], limits: dict[str, Any]) -> None:
    lag, seen = limits["lag_critical"], limits["seen_critical"]
    if (lag <= 0 and seen <= 0) or info.get("sources"):
        return
    state = info.get("mirror")
    if not info["config"].get("mirror") or not state:
        result.critical("not mirrored")
        return
    behind, active = state.get("lag", 0), _active(state)
    result.measure("lag", behind, "Number of operations this peer is behind its origin", crit=lag)
    result.measure("active", active, "How long ago the origin was heard of", crit=seen, unit="s")
    late, silent = 0 < lag <= behind, 0 < seen <= active
    if late:
        result.critical(f"Mirror Lag {behind}")
    if silent:
        result.critical(f"Mirror Seen {_ago(active)} ago" if active >= 0 else "Mirror never seen")
    if not late and not silent:
        result.ok(f"Mirror {state['name']}")


def _active(origin: dict[str, Any]) -> float:
    """Seconds since it was seen; infinitely long if it never was."""
    nanoseconds = origin.get("active", -1)
    return nanoseconds / NANOSECONDS if nanoseconds >= 0 else float("inf")


def _ago(seconds: float) -> str:
    return "an eternity" if seconds == float("inf") else duration(round(seconds * NANOSECONDS))


def check_replicas(result: Result, info: dict[str, Any], limits: dict[str, Any]) -> None:
    expected = limits["peer_expect"]
    cluster, replicas = info.get("cluster") or {}, info["config"].get("num_replicas", 1)
    if replicas <= 1 or not cluster:
        if expected > 0:
            result.critical("Stream is not clustered")
        return
    if not cluster.get("leader"):
        result.critical("No leader")
        return
    peers = cluster.get("replicas") or []
    count = len(peers) + 1
    if count != (expected or replicas):
        result.critical(f"Expected {expected or replicas} replicas got {count}")
        return
    result.ok(f"{count} peers")
    lag, seen = limits["peer_lag_critical"], limits["peer_seen_critical"]
    offline = sum(bool(peer.get("offline")) for peer in peers)
    lagged = sum(0 < lag < peer.get("lag", 0) for peer in peers)
    inactive = sum(0 < seen < _active(peer) for peer in peers)
    for number, text in ((offline, "offline"), (lagged, "lagged"), (inactive, "inactive")):
        if number:
            result.critical(f"{number} replicas {text}")
