"""The report of a run on the terminal, in the format of nats-bench, the older Go tool.

    NATS Pub/Sub stats: 1,234,567 msgs/sec ~ 150.71 MB/sec
     Pub stats: 112,233 msgs/sec ~ 13.70 MB/sec
      [1] 112,233 msgs/sec ~ 13.70 MB/sec (100000 msgs)
      min 112,233 | avg 112,233 | max 112,233 | stddev 0 msgs
     Sub stats: ...

A MB is 1024 * 1024 bytes, as in nats-bench. Figures that nats-bench does not have follow at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.bench.distribution import Slice
from headrace.bench.generator import Client
from headrace.bench.rates import Rate, clients_of, rate_of, rate_together, spread_of
from headrace.bench.runs import Finished
from headrace.bench.seeds import PRESETS, seeds_of
from headrace.bench.tables import BUSY_GENERATOR_SHARE, NOISY_MACHINE_SHARE

SIDES = (
    ("Pub", ("publisher",)),
    ("Sub", ("subscriber",)),
    ("Request", ("requester",)),
    ("Reply", ("responder",)),
)
SLICES_SHOWN = 60


def report(run: Finished) -> str:
    parts = (_rates, _latency, _acknowledged, _connections, _cost, _compared_with_seeds)
    return "\n".join(line for part in parts for line in part(run))


def human_bytes(count: float) -> str:
    unit = "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if count < 1024:
            break
        count, unit = count / 1024, larger
    return f"{count:.2f} {unit}"


def _rates(run: Finished) -> list[str]:
    sides = [(name, members) for name, roles in SIDES if (members := clients_of(run.clients, roles))]
    if not sides:
        return []
    lines, indent = [], ""
    if len(sides) > 1:
        title = "NATS Request/Reply stats" if sides[0][0] == "Request" else "NATS Pub/Sub stats"
        lines, indent = [f"{title}: {_rate(run.total)}"], " "
    for name, members in sides:
        lines += _side(f"{indent}{name} stats", indent, members)
    return lines


def _side(title: str, indent: str, clients: Sequence[Client]) -> list[str]:
    rates = [rate_of(client) for client in clients]
    spread = spread_of([rate.messages_per_second for rate in rates])
    return [
        f"{title}: {_rate(rate_together(clients))}",
        *(
            f"{indent} [{number}] {_rate(rate)} ({rate.messages} msgs)"
            for number, rate in enumerate(rates, 1)
        ),
        f"{indent} min {spread.lowest:,.0f} | avg {spread.average:,.0f} | max {spread.highest:,.0f}"
        f" | stddev {spread.deviation:,.0f} msgs",
    ]


def _rate(rate: Rate) -> str:
    return f"{rate.messages_per_second:,.0f} msgs/sec ~ {human_bytes(rate.bytes_per_second)}/sec"


def _latency(run: Finished) -> list[str]:
    sample = run.measurement.sample
    if sample.latency is None:
        return []
    lines = ["", f"Latency in microseconds, {sample.latency_of}:", f"  {'':<12}{_percentile_names()}"]
    lines.append(f"  {'whole run':<12}{_percentiles(sample.latency.percentiles())}")
    if len(sample.slices) > 1:
        lines += [_slice_line(part) for part in sample.slices[:SLICES_SHOWN]]
        if len(sample.slices) > SLICES_SHOWN:
            lines.append(f"  ... and {len(sample.slices) - SLICES_SHOWN} more")
    if sample.send_delay is not None:
        delay = sample.send_delay.percentiles()
        lines.append(
            "  of this, the generator itself was late in sending:"
            f" p50 {delay['p50']:,.0f}, p99 {delay['p99']:,.0f}, max {delay['max']:,.0f}"
        )
    return lines


def _percentile_names() -> str:
    return "".join(f"{name:>13}" for name in ("p50", "p90", "p99", "p99.9", "p99.99", "max"))


def _percentiles(values: dict[str, float]) -> str:
    return "".join(f"{value:>13,.1f}" for value in values.values())


def _slice_line(part: Slice) -> str:
    name = f"{part.start_seconds:g} s"
    return f"  {name:<12}{_percentiles(part.distribution.percentiles())}"


def _connections(run: Finished) -> list[str]:
    count, sample = run.job.connections, run.measurement.sample
    if count is None:
        return []
    per_second = count / sample.seconds
    lines = [f"{count:,} idle connections in {sample.seconds:.2f} seconds: {per_second:,.0f} per second"]
    if sample.value == sample.value:
        return [*lines, f"Memory of the server: {sample.value:.2f} KB per connection (1 KB is 1000 bytes)"]
    return [*lines, "Memory of the server: not known; --start a server, or give its process with --pid"]


def _acknowledged(run: Finished) -> list[str]:
    settled = run.measurement.sample.extra.get("acks_settled_us")
    if settled is None:
        return []
    return [
        f"The server had counted the last acknowledgement {settled / 1000:,.1f} ms after the last message."
    ]


def _cost(run: Finished) -> list[str]:
    measurement = run.measurement
    share = measurement.sample.generator_cpu_share
    lines = ["", f"Server: {run.server_name}, version {run.server_version}"]
    if run.store:
        lines.append(f"Streams in a temporary directory on {run.store}")
    if measurement.server_cpu_seconds is not None:
        peak = (measurement.server_peak_rss_bytes or 0) / 1e6
        lines.append(
            f"Server CPU time: {measurement.server_cpu_seconds:.2f} seconds, peak memory: {peak:,.1f} MB"
        )
    lines.append(f"Generator: {share:.0%} of a core in {measurement.sample.seconds:.3f} seconds")
    if share >= BUSY_GENERATOR_SHARE:
        lines.append("The generator was busy all the time: it may have been the limit, not the server.")
    others = measurement.others_cpu_share
    if others is not None and others >= NOISY_MACHINE_SHARE:
        lines.append(f"Not a quiet machine: other processes kept {others:.2f} cores busy.")
    return lines


def _compared_with_seeds(run: Finished) -> list[str]:
    if not run.job.preset:
        return []
    preset = PRESETS[run.job.preset]
    today = run.total.messages_per_second
    rows = [
        (
            f"{seed.system}: {seed.step}",
            seed.msgs,
            seed.total_msgs_per_s,
            f"{today / seed.total_msgs_per_s:,.1f}",
        )
        for seed in seeds_of(preset)
    ]
    width = max(len(row[0]) for row in rows)
    machines = sorted({seed.machine.replace("unstated", "an unstated") for seed in seeds_of(preset)})
    return [
        "",
        f"Preset {run.job.preset}, sent and received per second (theirs: {', '.join(machines)} machine):",
        f"  {'':<{width}}{'messages':>12}{'msgs/sec':>14}{'today is':>10}",
        *(f"  {name:<{width}}{msgs:>12,}{rate:>14,}{ratio:>8} x" for name, msgs, rate, ratio in rows),
        f"  {'today: ' + run.server_name:<{width}}{run.job.num_msgs:>12,}{today:>14,.0f}",
    ]
