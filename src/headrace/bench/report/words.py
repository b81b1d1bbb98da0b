"""Figures and names as text, the same on the page, in the charts and in the table."""

from __future__ import annotations

from headrace.bench.report.content import Case

NOTHING = "–"  # noqa: RUF001  (a dash, not a minus)
NO_CHANGE = "±0 %"
LOWER_IS_BETTER = ("latency", "connections")
HEADLINES = {
    "stream-publish": "acknowledged/s",
    "stream-consume": "consumed/s",
    "request": "round trips/s",
    "latency": "p99 latency",
    "connections": "memory/connection",
}


def rate(value: float | None) -> str:
    """`2.82 M/s`"""
    return NOTHING if value is None else f"{_scaled(value, ((1e6, ' M'), (1e3, ' k'), (1, ' ')))}/s"


def duration(microseconds: float | None) -> str:
    """`85.3 µs`, `1.20 ms`"""
    if microseconds is None:
        return NOTHING
    return _scaled(microseconds, ((1e6, " s"), (1e3, " ms"), (1, " µs")))


def size(count: float | None) -> str:
    """`21.6 MB`"""
    return NOTHING if count is None else _scaled(count, ((1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1, " B")))


def value(workload: str, figure: float | None) -> str:
    """The headline value of a run in its unit."""
    return {"latency": duration, "connections": size}.get(workload, rate)(figure)


def headline(workload: str) -> str:
    return HEADLINES.get(workload, "messages/s")


def share(part: float | None) -> str:
    """`12 %`"""
    return NOTHING if part is None else f"{_percent(part)} %"


def change(part: float | None) -> str:
    """`+3.1 %`"""
    if part is None:
        return NOTHING
    text = _percent(abs(part))
    return NO_CHANGE if float(text.replace(",", "")) == 0 else f"{'+' if part > 0 else '−'}{text} %"  # noqa: RUF001


def is_better(workload: str, part: float) -> bool:
    return part < 0 if workload in LOWER_IS_BETTER else part > 0


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def case(of: Case) -> str:
    """`pubsub · 10 → 100 · 1,000 B · 100,000 msgs`: publishers to subscribers, and what they send."""
    if of.workload == "connections":
        return count(of.connections or 0, "idle connection")
    parts = [of.preset or of.workload, _clients(of), f"{of.msg_size:,} B"]
    if of.variant:
        parts.append(of.variant)
    if of.rate_wanted:
        parts.append(f"at {rate(of.rate_wanted)}")
    return " · ".join([*parts, f"{of.num_msgs:,} msgs"])


def _clients(of: Case) -> str:
    streams = {
        "stream-publish": count(of.num_pubs, "publisher"),
        "stream-consume": count(of.num_subs, "client"),
    }
    return streams.get(of.workload, f"{of.num_pubs:,} → {of.num_subs:,}")


def _percent(part: float) -> str:
    return f"{part * 100:,.{1 if part < 0.1 else 0}f}"


def _scaled(number: float, steps: tuple[tuple[float, str], ...]) -> str:
    scale, unit = next((step for step in steps if abs(number) >= step[0]), steps[-1])
    return f"{_digits(number / scale)}{unit}"


def _digits(number: float) -> str:
    """Three significant digits: 2.82, 28.2, 282, 2,820; without trailing zeros."""
    places = 2 if abs(number) < 10 else 1 if abs(number) < 100 else 0
    text = f"{number:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
