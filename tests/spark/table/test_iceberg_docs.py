"""docs/iceberg.md: the examples run as they are shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headrace.spark.land import Landing, start_landing
from headrace.spark.table.interface import Settings
from tests.spark.conftest import ONE_SERVER, Nats
from tests.spark.table import formats

TEXT = (Path(__file__).parents[3] / "docs" / "iceberg.md").read_text()


@pytest.mark.slow
@pytest.mark.timeout(400)
@ONE_SERVER
def test_a_landed_table_is_read_as_it_is_shown(on: Nats, capsys: pytest.CaptureFixture[str]) -> None:
    assert formats.STREAM  # it tells polars not to warn
    stream = on.broker.make_stream()
    on.broker.publish(f"{stream}.eu", ["one", "two"])
    directory = str(on.directory / "tables" / "orders")
    landing = Landing(stream, directory, {"servers": on.broker.url}, settings=Settings("iceberg"))
    start_landing(on.spark, landing, once=True).awaitTermination()
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(block.replace("tables/orders", directory), names)
        printed = capsys.readouterr().out
        assert f"{stream}.eu" in printed, block
    names["catalog"].close()
