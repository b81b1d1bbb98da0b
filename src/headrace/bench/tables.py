"""Results as an aligned text table, Markdown for the README, and JSON with every round."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.bench.compare import Measurement, Result
from headrace.bench.figures import Summary

BUSY_GENERATOR_SHARE = 0.9
NOISY_MACHINE_SHARE = 0.1


def text_table(results: Sequence[Result], servers: Sequence[str]) -> str:
    return text_table_of(_cells(results, servers))


def text_table_of(rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns; the first row is the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def markdown_table(results: Sequence[Result], servers: Sequence[str]) -> str:
    head, *body = _cells(results, servers)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body])


def notes(results: Sequence[Result], servers: Sequence[str]) -> list[str]:
    """Notes below the table: failures, latencies, memory limits, a generator that was the limit."""
    lines = []
    for result in results:
        name = result.row.name
        if result.error:
            lines.append(f"{name}: FAILED, {result.error}")
            continue
        for key in result.measurements[servers[0]][0].sample.extra:
            values = [f"{server} {_median(result, server, _extra(key)):,.0f}" for server in servers]
            lines.append(f"{name}: {key.replace('_us', ' in microseconds')}: {', '.join(values)}")
        limit = result.row.peak_rss_limit_mb
        for server in servers[1:] if limit is not None else ():
            peak = result.highest_peak_rss_mb(server)
            if peak is not None and limit is not None:
                verdict = "reached" if peak <= limit else "NOT reached"
                aim = f"at most {limit:,.0f} MB is aimed at"
                lines.append(f"{name}: {server} peak RSS {peak:,.0f} MB, {aim}: {verdict}")
        value_limit = result.row.value_limit
        for server in servers[1:] if value_limit is not None else ():
            value, unit = result.summary(server).median, result.row.workload.unit
            verdict = "reached" if value <= (value_limit or 0.0) else "NOT reached"
            lines.append(
                f"{name}: {server} {value:,.1f} {unit}, at most {value_limit:g} is aimed at: {verdict}"
            )
        for server in servers:
            busy = _median(result, server, _generator_share)
            if busy >= BUSY_GENERATOR_SHARE:
                lines.append(
                    f"{name}: the generator was {busy:.0%} busy with {server} and may have been the limit"
                )
    return lines + _disturbances(results, servers)


def _disturbances(results: Sequence[Result], servers: Sequence[str]) -> list[str]:
    shares = {
        result.row.key: max(_median(result, server, _others_share) for server in servers)
        for result in results
        if not result.error
    }
    noisy = [f"{key} {share:.2f}" for key, share in shares.items() if share >= NOISY_MACHINE_SHARE]
    return [f"not a quiet machine, cores that other processes kept busy: {', '.join(noisy)}"] if noisy else []


def as_json(results: Sequence[Result], servers: Sequence[str], about: dict[str, str]) -> dict[str, Any]:
    return {
        "about": about,
        "servers": list(servers),
        "rows": [
            {
                "key": result.row.key,
                "name": result.row.name,
                "unit": result.row.workload.unit,
                "target": result.row.target,
                "error": result.error,
                "ratio": {
                    server: result.ratio(server, servers[0]) for server in servers[1:] if not result.error
                },
                "rounds": {
                    server: [_measurement_json(measurement) for measurement in measurements]
                    for server, measurements in result.measurements.items()
                },
            }
            for result in results
        ],
    }


def _measurement_json(measurement: Measurement) -> dict[str, Any]:
    sample = measurement.sample
    return {
        "value": sample.value,
        "seconds": sample.seconds,
        "generator_cpu_share": sample.generator_cpu_share,
        "server_cpu_seconds": measurement.server_cpu_seconds,
        "server_peak_rss_bytes": measurement.server_peak_rss_bytes,
        "others_cpu_share": measurement.others_cpu_share,
        **sample.extra,
    }


def _cells(results: Sequence[Result], servers: Sequence[str]) -> list[list[str]]:
    reference, *others = servers
    head = ["work", *servers, *(f"{server} / {reference}" for server in others)]
    body = [
        [
            result.row.name,
            *(figure(result.summary(server), result.row.workload.unit) for server in servers),
            *(_ratio(result, server, reference) for server in others),
            _each(f"{_median(result, server, _generator_share):.0%}" for server in servers),
            _each(_server_cpu(result, server) for server in servers) + " s",
            _each(_peak_rss(result, server) for server in servers) + " MB",
        ]
        if not result.error
        else [result.row.name, "failed", *[""] * (len(head) + 1)]
        for result in results
    ]
    return [[*head, "generator CPU", "server CPU", "peak RSS"], *body]


def figure(summary: Summary, unit: str) -> str:
    """`1.05 M/s (0.98 to 1.11)`: the spread in the same scale as the median."""
    steps = ((1e6, "M"), (1e3, "k")) if unit.endswith("/s") else ()
    scale, letter = next((step for step in steps if summary.median >= step[0]), (1.0, ""))
    digits = 2 if summary.median / scale < 10 else 1
    median, lowest, highest = (
        f"{value / scale:,.{digits}f}" for value in (summary.median, summary.lowest, summary.highest)
    )
    suffix = f" {letter}/s" if unit.endswith("/s") else f" {unit.partition('/')[0]}"
    return f"{median}{suffix} ({lowest} to {highest})"


def _ratio(result: Result, server: str, reference: str) -> str:
    ratio = f"{result.ratio(server, reference):.2f}"
    if result.row.target is None:
        return ratio
    sign = "≥" if result.row.workload.higher_is_better else "≤"
    verdict = "reached" if result.reaches_target(server, reference) else "NOT reached"
    return f"{ratio} ({sign} {result.row.target:g} {verdict})"


def _each(texts: Iterable[str]) -> str:
    return " / ".join(texts)


def _median(result: Result, server: str, value: Callable[[Measurement], float]) -> float:
    return statistics.median(value(measurement) for measurement in result.measurements[server])


def _generator_share(measurement: Measurement) -> float:
    return measurement.sample.generator_cpu_share


def _others_share(measurement: Measurement) -> float:
    return measurement.others_cpu_share or 0.0


def _server_cpu(result: Result, server: str) -> str:
    seconds = (measurement.server_cpu_seconds for measurement in result.measurements[server])
    known = [value for value in seconds if value is not None]
    return f"{statistics.median(known):.2f}" if known else "?"


def _peak_rss(result: Result, server: str) -> str:
    peak = result.highest_peak_rss_mb(server)
    return "?" if peak is None else f"{peak:.0f}"


def _extra(key: str) -> Callable[[Measurement], float]:
    return lambda measurement: measurement.sample.extra[key]
