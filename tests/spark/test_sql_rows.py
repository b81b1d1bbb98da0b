"""The formats in which `headrace sql` writes rows."""

from __future__ import annotations

import json

from headrace.cli.spark.sql import WRITERS
from tests.spark.conftest import Nats


def test_rows_are_written_in_three_ways(on: Nats) -> None:
    rows = on.spark.sql(
        "SELECT * FROM VALUES (1, 'a,b', X'4142'), (20, NULL, X'FF') AS t(number, text, bytes)"
    )
    assert list(WRITERS["table"](rows)) == [
        "number  text  bytes",
        "------  ----  -----",
        "1       a,b   AB",
        "20      NULL  \\xff",
    ]
    assert list(WRITERS["csv"](rows)) == ["number,text,bytes", '1,"a,b",AB', "20,,\\xff"]
    assert [json.loads(line)["bytes"] for line in WRITERS["json"](rows)] == ["AB", "\\xff"]
