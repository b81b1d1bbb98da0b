"""docs/spark.md lists every option with its default, and no other; its pipeline is a valid one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.spark.options import BY_NAME, OPTIONS, Use
from headrace.spark.pipeline.reading import read_pipeline
from headrace.spark.session import SETTINGS

TEXT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
USES = {"all": Use.ALL, "read": Use.READ, "batch": Use.BATCH, "stream": Use.STREAM, "write": Use.SINK}


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the first table under a heading, by the name in the first cell."""
    part = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("| `")]
    return {row[0].strip(" `"): [cell.strip() for cell in row[1:]] for row in rows}


def test_every_option_is_documented_where_it_applies() -> None:
    documented = table("Options")
    assert list(documented) == [option.name for option in OPTIONS]
    assert {name: USES[cells[0]] for name, cells in documented.items()} == {
        option.name: option.use for option in OPTIONS
    }


@pytest.mark.parametrize("name", [option.name for option in OPTIONS if option.default not in (None, "", ())])
def test_defaults_are_documented(name: str) -> None:
    default = BY_NAME[name.lower()].default
    shown = table("Options")[name][1].strip("`")
    expected = default[0] if isinstance(default, tuple) else default
    assert shown == (
        str(expected).lower()
        if isinstance(expected, bool)
        else f"{expected:g}"
        if isinstance(expected, (int, float))
        else expected
    )


def test_settings_are_documented() -> None:
    documented = {name: cells[0].strip("`") for name, cells in table("Settings").items()}
    assert documented == SETTINGS


def test_the_pipeline_that_is_shown_is_valid(tmp_path: Path) -> None:
    shown = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert len(shown) == 1
    (tmp_path / "shop.yml").write_text(shown[0])
    found = read_pipeline(tmp_path / "shop.yml")
    assert [sink.name for sink in found.sinks] == ["raw", "revenue", "alerts", "screen"]
