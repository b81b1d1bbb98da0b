"""docs/spark.md: every option with its default, and no other; examples that run; a pipeline that is valid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from headrace.client.credentials import Credentials
from headrace.spark.metrics import FIGURES
from headrace.spark.options import BY_NAME, OPTIONS, Use
from headrace.spark.pipeline.reading import read_pipeline
from headrace.spark.session import SETTINGS
from headrace.spark.start import ATTEMPTS, TOO_LATE
from tests.spark.conftest import ONE_SERVER, Nats

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


def test_metrics_are_documented() -> None:
    names = [f"{figure.name}_total" if figure.only_grows else figure.name for figure in FIGURES]
    assert list(table("Metrics")) == names


def test_the_pipeline_that_is_shown_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (whole, server) = shown
    (tmp_path / "shop.yml").write_text(whole)
    found = read_pipeline(tmp_path / "shop.yml")
    assert [sink.name for sink in found.sinks] == ["raw", "revenue", "alerts", "screen"]
    monkeypatch.setenv("SHOP_KEY_PASSWORD", "sesame")
    rest = whole[whole.index("streams:") :]
    (tmp_path / "shop.yml").write_text(server + rest)
    guarded = read_pipeline(tmp_path / "shop.yml").server
    assert guarded.credentials == Credentials(creds=str(tmp_path / "shop.creds"))
    assert guarded.tls is not None
    assert guarded.tls.key_password == "sesame"


def run_to_the_end(block: str, names: dict[str, Any]) -> None:
    """An example that starts a query; again if Spark did not wait long enough for a Python process."""
    for attempt in range(1, ATTEMPTS + 1):
        exec(block, names)
        try:
            names["query"].processAllAvailable()
            return
        except StreamingQueryException as failure:
            if TOO_LATE not in str(failure) or attempt == ATTEMPTS:
                raise
        finally:
            names["query"].stop()


@pytest.mark.timeout(240)
@ONE_SERVER
def test_the_examples_run_as_they_are_shown(on: Nats, capsys: pytest.CaptureFixture[str]) -> None:
    """But for addresses and directories. What test_connect.py and test_secure_servers.py do is left out."""
    on.broker.make_stream(["orders.>"], name="ORDERS")
    on.broker.make_stream(["copy.>"], name="COPIES")
    on.broker.publish("orders.eu", ["one", "two"])
    places = {
        "nats://10.0.0.7:4222": on.broker.url,
        "state/copy": str(on.directory / "state"),
        "hdfs:///": f"{on.directory}/",
        "nats://127.0.0.1:4222": on.broker.url,
        "/var/lib/headrace": on.broker.store,
    }

    def shown(language: str) -> list[str]:
        blocks = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
        for place, here in places.items():
            blocks = [block.replace(place, here) for block in blocks]
        # Where no server is named, it is the one on this machine's usual port.
        server = f'.format("nats").option("servers", "{on.broker.url}")'
        return [
            block if on.broker.url in block else block.replace('.format("nats")', server) for block in blocks
        ]

    start, copy, job, *others = shown("python")
    (stored,) = (block for block in others if '"store"' in block)
    others.remove(stored)
    elsewhere = ("remote(", "SparkConnectPlugin", "tls://")
    assert all(any(mark in block for mark in elsewhere) for block in others)
    names: dict[str, Any] = {}
    exec(start, names)
    assert "orders.eu|" in capsys.readouterr().out
    run_to_the_end(copy, names)
    assert [message.data for message in on.broker.messages("COPIES")] == [b"one", b"two"]
    exec(stored, names)
    assert [row.seq for row in names["orders"].collect()] == [1, 2]
    exec(job, {})
    counts = on.spark.read.parquet(str(on.directory / "tables" / "orders_by_subject")).collect()
    assert [tuple(row) for row in counts] == [("orders.eu", 2)]
    (sql,) = shown("sql")
    make, count = (statement for statement in sql.split(";") if statement.strip())
    on.spark.catalog.dropTempView("orders")  # of another test in this session
    on.spark.sql(make)
    assert on.spark.sql(count).collect()[0][1] == 2
