"""The result as one HTML page that needs nothing else, with the pieces of the benchmark's report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from html import escape
from pathlib import Path
from statistics import median

from headrace.bench.machine import describe_machine
from headrace.bench.report.markup import document, figures, section, table
from headrace.bench.report.tables import Table
from tests.soak.charts import all_charts, percentile
from tests.soak.findings import KINDS
from tests.soak.record import Record, Sample

TITLE = "Soak"
OVER_TIME = (
    "Time counts from the start of the run. Upright lines are faults, if they are few; the last chart has "
    "them all. A restart begins with little memory and few descriptors. Latencies are those of a client that "
    "does nothing else, and that pauses during checks: a request that waits for a stopped server counts, one "
    "whose connection was lost does not."
)
FLAT = (
    "The median of each third of the run, in which every fault comes about as often. What grows from third "
    "to third leaks, unless the streams grow, too."
)
FIGURES: dict[str, Callable[[Sample], float]] = {
    "memory, MB": lambda one: one.memory_bytes / 1e6,
    "descriptors": lambda one: one.descriptors,
    "threads": lambda one: one.threads,
    "bytes on the disk, MB": lambda one: one.store_bytes / 1e6,
}
SHOWN_FINDINGS = 200
COUNTS = {
    "acknowledged": "publishes that the server has confirmed",
    "batches": "atomic batches that were committed",
    "checked": "times that a stored message was read back and compared",
    "connects": "connections of connect storms",
    "core": "core messages, each to a subscriber and to a group",
    "deletes": "messages that were deleted, with and without erasing; markers of keys",
    "delivered": "messages that consumers with acknowledgements got",
    "disturbed": "times that a fault interrupted a client",
    "floods": "receivers that did not read",
    "followed": "deliveries that were acknowledged when everything was checked",
    "hang-ups": "connections that clients broke off in the middle",
    "purges": "whole, filtered, below a sequence, all but the newest",
    "reconnects": "connections that were made again",
    "redelivered": "deliveries of a message that had been delivered before",
    "refused": "publishes that were answered with an error",
    "replays": "reads of a whole stream while others publish",
    "republished": "messages sent again with the same id",
    "short-lived": "acknowledged messages of streams that were deleted afterwards",
    "streams": "streams that were created, filled, updated, read and deleted",
    "unknown": "publishes without an answer",
}


def write_page(record: Record, path: Path) -> None:
    parts = [
        f'<p class="soft">{escape(_where(record))}</p>',
        f"<p{' class=warning' if record.wrong else ''}><strong>{escape(verdict(record))}</strong></p>",
        *(f'<p class="warning">{escape(note)}</p>' for note in record.notes),
        table(_summary(record)),
        *section("What was done", "By all clients together, in the whole run."),
        table(_counts(record)),
        *section("Over time", OVER_TIME),
        *figures(all_charts(record)),
        *section("Flat or growing", FLAT),
        table(_thirds(record)),
    ]
    if record.findings:
        parts += section("Findings", f"The first {SHOWN_FINDINGS}, in the order in which they were seen.")
        parts.append(table(_findings(record)))
    path.write_text(document(TITLE, parts))


def verdict(record: Record) -> str:
    if not record.wrong:
        return (
            f"Nothing is wrong: {record.counts['acknowledged']:,} messages were acknowledged, "
            f"in {record.lives} lives of the server, and {record.counts['checked']:,} checked."
        )
    found = [f"{count} {kind}" for kind, count in record.found.items() if count]
    return f"Something is wrong: {', '.join(found)}."


def summary_lines(record: Record) -> list[str]:
    """For the terminal."""
    first = [f"  {one.second:6.0f} s  {one.who:10} {one.kind:11} {one.text}" for one in record.findings[:20]]
    return [verdict(record), *first]


def _where(record: Record) -> str:
    machine = describe_machine()
    return (
        f"{machine['date']}, {record.second / 60:.1f} minutes, seed {record.seed}, on {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['kernel']}, {machine['python']}."
    )


def _summary(record: Record) -> Table:
    rows = [
        ("acknowledged", f"{record.counts['acknowledged']:,}", "publishes that the server has confirmed"),
        (
            "checked",
            f"{record.counts['checked']:,}",
            "times that a stored message was read back and compared",
        ),
        *((kind, f"{record.found[kind]:,}", f"expected 0: {what}") for kind, what in KINDS.items()),
    ]
    return Table(("what", "count", "meaning"), [(a, b, c) for a, b, c in rows], texts=3)


def _counts(record: Record) -> Table:
    rows = [(name, f"{count:,}", COUNTS.get(name, "")) for name, count in sorted(record.counts.items())]
    faults = Counter(fault.name for fault in record.faults if fault.name != "nothing")
    rows += [(f"fault: {name}", f"{count:,}", "") for name, count in sorted(faults.items())]
    rows += [
        ("checks of everything", f"{len(record.checks):,}", ""),
        ("lives of the server", f"{record.lives:,}", "how often it was started"),
    ]
    for what, samples in record.latencies.items():
        values = [seconds for _, seconds in samples]
        if values:
            p50, p99, top = (f"{percentile(values, rank) * 1000:,.1f}" for rank in (0.5, 0.99, 1.0))
            rows.append((f"bystander's {what}, ms", f"p50 {p50}, p99 {p99}, max {top}", ""))
    return Table(("what", "count", "meaning"), rows, texts=3)


def _thirds(record: Record) -> Table:
    size = max(1, len(record.samples) // 3)
    parts = [record.samples[start : start + size] for start in (0, size, 2 * size)]
    rows = [
        (name, *(f"{median(map(value, part)):,.1f}" if part else "" for part in parts))
        for name, value in FIGURES.items()
    ]
    return Table(("figure", "first third", "second", "last"), rows, texts=1)


def _findings(record: Record) -> Table:
    rows = [
        (f"{one.second:.0f} s", one.who, one.kind, one.text[:200]) for one in record.findings[:SHOWN_FINDINGS]
    ]
    return Table(("when", "client", "kind", "what"), rows, texts=4)
