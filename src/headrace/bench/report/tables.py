"""The report's tables as rows of text, for the page and for Markdown alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.bench.report import words
from headrace.bench.report.content import Content, Machine, Run, Summary


@dataclass(frozen=True)
class Table:
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int
    """How many columns from the left are text; the others are figures and right-aligned."""


def comparison(content: Content) -> list[str]:
    """Sentences that say which runs were compared, and which were not."""
    first, last = content.runs[0].moment, content.runs[-1].moment
    when = f"on {first} UTC" if first == last else f"from {first} to {last} UTC"
    machines = "; ".join(describe(machine) for machine in content.machines)
    lines = [f"{words.count(len(content.runs), 'run')} compared, {when}, on {machines}."]
    if len(content.machines) > 1:
        lines.append(
            f"Runs of {len(content.machines)} different machines are shown because --compare-machines was "
            "given: a difference between them may be the machine's."
        )
    if content.left_out:
        left_out = sum(machine.runs for machine in content.left_out)
        machines = "; ".join(describe(machine) for machine in content.left_out)
        lines.append(
            f"{words.count(left_out, 'run')} of other machines left out: {machines}. "
            "--compare-machines shows them, too."
        )
    without = sum(run.value is None for run in content.runs)
    if without:
        lines.append(
            f"{words.count(without, 'run')} without a figure: no latencies or no memory were saved with it."
        )
    return lines


def describe(machine: Machine) -> str:
    """`machine ab12cd34 (Some CPU, 2 cores, 8 GB, Linux 6.1)`"""
    about = [
        machine.cpu,
        words.count(machine.cores, "core"),
        f"{machine.memory_bytes / 1e9:.0f} GB",
        machine.kernel,
    ]
    return f"machine {machine.machine} ({', '.join(part for part in about if part)})"


def summaries(content: Content) -> Table:
    several = len(content.machines) > 1
    head = ["work", "figure", "server", *(["machine"] if several else []), "version"]
    figures = ["runs", "median", "lowest", "highest", "spread", "std. dev.", "last change", "generator CPU"]
    rows = [
        [
            *(words.case(item.case), words.headline(item.workload), item.server_name),
            *([item.machine[:6]] if several else []),
            item.versions,
            str(item.runs),
            *(words.value(item.workload, figure) for figure in (item.median, item.lowest, item.highest)),
            words.share(item.spread) if item.runs > 1 else words.NOTHING,
            words.value(item.workload, item.deviation),
            _judged_change(item.workload, item.change),
            words.share(item.generator_cpu_share),
        ]
        for item in _by_work(content.summaries)
    ]
    return Table([*head, *figures], rows, len(head))


def latencies(content: Content) -> Table:
    several = len(content.machines) > 1
    head = ["work", "server", *(["machine"] if several else [])]
    rows = [
        [
            *(words.case(item.case), item.server_name),
            *([item.machine[:6]] if several else []),
            str(item.runs),
            *map(words.duration, (item.p50, item.p90, item.p99, item.p99_9, item.p99_99, item.max_us)),
        ]
        for item in _by_work(content.summaries)
        if item.p50 is not None
    ]
    return Table([*head, "runs", "p50", "p90", "p99", "p99.9", "p99.99", "max"], rows, len(head))


def compared_with_seeds(content: Content) -> Table:
    several = len(content.machines) > 1
    head = ["published by", "its machine", "work", "server", *(["machine"] if several else [])]
    rows = [
        [
            *(item.system, item.seed_machine),
            f"{item.pubs:,} → {item.subs:,} · {item.msg_bytes:,} B · {item.num_msgs:,} msgs",
            item.server_name,
            *([item.machine[:6]] if several else []),
            words.rate(item.rate),
            words.rate(item.median),
            f"{item.ratio:.2f}",
        ]
        for item in content.compared_with_seeds
    ]
    return Table([*head, "its figure", "median here", "ratio"], rows, len(head))


def runs(content: Content) -> Table:
    head = ["run", "started (UTC)", "work", "server", "version", "machine"]
    figures = ["figure", "change", "published", "delivered", "per subscriber", "server CPU", "peak memory"]
    rows = [
        [
            *(
                run.run_id,
                run.moment,
                words.case(run.case),
                run.server_name,
                run.server_version,
                run.machine[:6],
            ),
            words.value(run.workload, run.value),
            _judged_change(run.workload, run.change),
            *(words.rate(run.pub_rate), words.rate(run.sub_rate), _per_subscriber(run)),
            f"{run.server_cpu_seconds:.2f} s" if run.server_cpu_seconds is not None else words.NOTHING,
            words.size(run.server_peak_rss_bytes),
        ]
        for run in content.runs
    ]
    return Table([*head, *figures], rows, len(head))


def _by_work(items: Sequence[Summary]) -> list[Summary]:
    """Rows of the same workload together, so that servers are under each other."""

    def order(item: Summary) -> tuple[object, ...]:
        numbers = (item.num_pubs, item.num_subs, item.msg_size, item.num_msgs)
        wanted = (item.connections or 0, item.rate_wanted or 0)
        return (item.workload, item.variant, *numbers, *wanted, item.preset, item.server_name, item.machine)

    return sorted(items, key=order)


def _judged_change(workload: str, change: float | None) -> str:
    """A change and whether it is better or worse, because for latency and memory less is better."""
    text = words.change(change)
    if change is None or text == words.NO_CHANGE:
        return text
    return f"{text} {'better' if words.is_better(workload, change) else 'worse'}"


def _per_subscriber(run: Run) -> str:
    """`9.79 k/s (9.7 k/s to 9.9 k/s, std. dev. 12 /s)`"""
    if run.sub_avg is None:
        return words.NOTHING
    low, high, deviation = map(words.rate, (run.sub_min, run.sub_max, run.sub_stddev))
    return f"{words.rate(run.sub_avg)} ({low} to {high}, std. dev. {deviation})"
