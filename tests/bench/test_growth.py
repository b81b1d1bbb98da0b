"""The benchmarks of growth and latency, small: that they measure what they say, not how fast that is."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import growth, latency
from benchmarks.chart import Line, draw

SVG = "{http://www.w3.org/2000/svg}"


def test_a_chart_has_every_point_of_every_line() -> None:
    lines = [Line("ns", [(1, 50.0), (1_000, 50.0)]), Line("a<b", [(10, 1.0), (100, 10.0), (1_000, 100.0)])]
    picture = ElementTree.fromstring(draw([("some", line) for line in lines]))
    flat, steep = picture.iter(f"{SVG}polyline")
    heights = [point.split(",")[1] for point in flat.attrib["points"].split()]
    assert len(set(heights)) == 1
    assert len(steep.attrib["points"].split()) == 3
    assert [text.text for text in picture.iter(f"{SVG}text") if text.get("class")] == [
        "some: ns",
        "some: a<b",
    ]


def test_streams_are_measured_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(growth, "RUNS", 1)
    assert growth.main(["streams", "--largest", "4", "--chart", str(tmp_path / "growth.svg")]) == 0
    printed = capsys.readouterr().out
    for figure in ("ns per message pulled", "us per STREAM.INFO", "ms to start"):
        assert f" {figure}" in printed
    assert len(list(ElementTree.parse(tmp_path / "growth.svg").iter(f"{SVG}polyline"))) == 3


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        growth.main(["weather"])
    assert "there is no part weather; choose from subscribers" in capsys.readouterr().err


def test_percentiles_of_both_servers_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(latency, "rates_of", lambda name, rounds: [2_000.0])
    monkeypatch.setattr(latency, "FIXED_RATE", 500)
    assert latency.main(["--rounds", "1", "--seconds", "0.2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [line.split()[0] for line in lines]
    assert found == ["500", "p50", "p99", "p99.9", "1,000", "p50", "p99", "p99.9"]
