"""The report as a page in a real browser, and as a table."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import pytest

from headrace.bench.failure import BenchError
from headrace.bench.report import words
from headrace.bench.report.content import Case, Content
from headrace.bench.report.write import write_report
from tests.bench.report.runs import LATENCIES
from tests.browser import Page, browse

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.timeout(300)  # Spark on a busy machine


@pytest.fixture(scope="module")
def browsed(content: Content, tmp_path_factory: pytest.TempPathFactory) -> tuple[Page, str, list[str]]:
    directory = tmp_path_factory.mktemp("page")
    return browse(write_report(content, directory)[0], directory)


def test_a_browser_shows_all_charts_and_figures(browsed: tuple[Page, str, list[str]]) -> None:
    page, _, _ = browsed
    # one fan-out, three latencies, one over time, memory idle and at work, one history of several runs
    assert page.tags.count("svg") == page.tags.count("figure") == 1 + 3 + 1 + 2 + 1
    assert page.tags.count("polyline") == 2 * 0 + 3 + 1 + 1 + 2
    for text in (
        "Throughput by fan-out",
        "Latency percentiles",
        "Latency over time",
        "Memory by connections",
        "History across runs",
    ):
        assert text in page.text
    for figure in ("10 M/s", "3.5 M/s", "+40 % better", "−12 % worse", "3.2 kB", "4 k/s", "3.55", "1.24"):  # noqa: RUF001
        assert f"{figure}\n" in page.text, figure
    assert "rnats, 10 subs: 2.82 M/s" in page.text
    assert "headrace: 10 subscribers, median 10 M/s of 3 runs, 9 M/s to 14 M/s" in page.text
    exact = numpy.percentile([value for part in LATENCIES for value in part], 99.9, method="inverted_cdf")
    shown = re.findall(r"99\.9: ([\d.]+) (ms|µs)", page.text)
    assert any(
        float(number) * {"ms": 1000, "µs": 1}[unit] == pytest.approx(exact, rel=0.02)
        for number, unit in shown
    )


def test_the_page_needs_nothing_from_anywhere(browsed: tuple[Page, str, list[str]]) -> None:
    page, console, requested = browsed
    assert [address for address in page.addresses if not address.startswith("data:")] == []
    assert "script" not in page.tags
    assert "CONSOLE" not in console
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []


def test_a_page_that_needs_something_would_be_noticed(tmp_path: Path) -> None:
    path = tmp_path / "needy.html"
    path.write_text("<img src='http://headrace.invalid/x.png'><script>console.error('no')</script>")
    page, console, requested = browse(path, tmp_path)
    assert page.addresses == requested == ["http://headrace.invalid/x.png"]
    assert "CONSOLE" in console


def test_the_table_has_the_known_figures(content: Content, tmp_path: Path) -> None:
    text = write_report(content, tmp_path / "made on the way")[1].read_text()
    work = "rnats-1x10 · 1 → 10 · 128 B · 100,000 msgs"
    assert (
        f"| {work} | messages/s | headrace | 0.1.0, 0.2.0, 0.3.0 "
        "| 3 | 10 M/s | 9 M/s | 14 M/s | 50 % | 2.65 M/s | +40 % better | 25 % |\n"
    ) in text
    widths = {line.count("|") for line in text.split("\n\n")[-1].splitlines()}
    assert len(widths) == 1, "every row has all columns"
    assert "14 runs compared" in text


def test_what_a_server_is_called_cannot_become_markup(content: Content, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>|x"
    named = replace(
        content,
        runs=tuple(replace(run, server_name=name) for run in content.runs),
        summaries=tuple(replace(summary, server_name=name) for summary in content.summaries),
        fan_out=tuple(replace(item, server_name=name) for item in content.fan_out),
        memory=tuple(replace(item, server_name=name) for item in content.memory),
        over_time=tuple(replace(item, server_name=name) for item in content.over_time),
    )
    page, table = (path.read_text() for path in write_report(named, tmp_path))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "</script>\\|x" in table


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (words.rate(2_820_266), "2.82 M/s"),
        (words.rate(988_911), "989 k/s"),
        (words.rate(999_999), "1,000 k/s"),
        (words.rate(0), "0 /s"),
        (words.duration(0.5), "0.5 µs"),
        (words.duration(1_234), "1.23 ms"),
        (words.size(22_069_248), "22.1 MB"),
        (words.change(0.031), "+3.1 %"),
        (words.change(-0.5), "−50 %"),  # noqa: RUF001
        (words.change(0.0001), words.NO_CHANGE),
        (words.share(None), words.NOTHING),
    ],
)
def test_figures_in_words(shown: str, text: str) -> None:
    assert shown == text


@pytest.mark.parametrize(
    ("workload", "pubs", "subs", "text"),
    [
        ("stream-publish", 2, 0, "stream-publish · 2 publishers · 128 B · file storage · 1,000 msgs"),
        ("stream-consume", 0, 1, "stream-consume · 1 client · 128 B · file storage · 1,000 msgs"),
    ],
)
def test_streams_in_words(workload: str, pubs: int, subs: int, text: str) -> None:
    case = Case("m", workload, "", "file storage", pubs, subs, 1000, 128, None, None)
    assert words.case(case) == text
    assert words.headline(workload) in ("acknowledged/s", "consumed/s")


def test_a_place_that_cannot_be_written_is_reported(content: Content, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BenchError, match="cannot write the report"):
        write_report(content, tmp_path / "file")
