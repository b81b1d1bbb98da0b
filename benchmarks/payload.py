"""What it costs to turn JSON into typed columns: `python -m benchmarks.payload [ROWS]`.

Orders with six fields are decoded into nothing, with Spark's `from_json` alone and with all our checks; then
as `headrace land` does it: `early` is the decoder in the process that reads, `decoded` what is left to Spark.
CPU time is printed next to the rate: it depends less on what else the machine does. The best run counts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.spark.payload.decoding import DECODED
from headrace.spark.session import spark_session

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

ROWS, RUNS = 1_000_000, 5
SCHEMA = (
    "id BIGINT NOT NULL, customer STRING, country STRING, amount DECIMAL(10, 2), quantity INT, "
    "placed_at TIMESTAMP"
)
ORDER = (
    """'{"id":', id, ',"customer":"c-', id % 1000, '","country":"DE","amount":', """
    """cast(id % 10000 / 100 as decimal(10, 2)), ',"quantity":', id % 10, """
    """',"placed_at":"2026-11-16T12:34:56.123456Z"}'"""
)
VALUES = {
    "id": "id",
    "customer": "concat('c-', id % 1000)",
    "country": "'DE'",
    "amount": "cast(id % 10000 / 100 as decimal(10, 2))",
    "quantity": "cast(id % 10 as int)",
    "placed_at": "timestamp '2026-11-16T12:34:56.123456Z'",
}


def messages(spark: SparkSession, count: int) -> DataFrame:
    fields = ", ".join(f"{how} AS {name}" for name, how in VALUES.items())
    rows = spark.range(0, count, 1, 2).selectExpr(
        "'ORDERS' AS stream",
        "id + 1 AS seq",
        "'orders.DE.new' AS subject",
        "current_timestamp() AS timestamp",
        "cast(array() AS array<struct<key:string,value:string>>) AS headers",
        f"cast(concat({ORDER}) AS binary) AS data",
        f"CASE WHEN id >= 0 THEN struct({fields}) END AS {DECODED}",  # may be null, as that of the source
    )
    rows = rows.cache()
    rows.count()
    return rows


def from_json_alone(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    parsed = rows.select(
        "seq", F.from_json(F.col("data").cast("string"), SCHEMA.replace(" NOT NULL", "")).alias("r")
    )
    return parsed.select("seq", "r.*")


def checked(rows: DataFrame) -> DataFrame:
    return decoded(rows.drop(DECODED))


def decoded(rows: DataFrame) -> DataFrame:
    from headrace.spark.payload.ddl import parse_ddl
    from headrace.spark.payload.decode import decode, good_rows
    from headrace.spark.payload.decoding import Decoding

    decoding = Decoding("json", parse_ddl(SCHEMA), metadata=("seq",)).checked()
    return good_rows(decode(rows, decoding), decoding)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    spark = spark_session("payload benchmark", master="local[2]")
    jvm = spark._jvm
    assert jvm is not None
    java = int(jvm.java.lang.ProcessHandle.current().pid())
    rows = messages(spark, count)
    ways: dict[str, Callable[[DataFrame], DataFrame]] = {
        "from_json": from_json_alone,
        "decode": checked,
        "decoded": decoded,
    }
    for name, way in ways.items():
        runs = [_run(way(rows), java) for _ in range(RUNS)]
        seconds, processor = (min(values) for values in zip(*runs, strict=True))
        print(f"{name:10} {count / seconds:10,.0f} rows/s {processor / count * 1e6:6.2f} µs of CPU per row")
    data = rows.select("data").toArrow()
    seconds = min(_early(data) for _ in range(RUNS))
    print(f"{'early':10} {count / seconds:10,.0f} rows/s {seconds / count * 1e6:6.2f} µs of CPU per row")
    spark.stop()


def _early(data: pyarrow.Table) -> float:
    """Seconds of this process."""
    from headrace.spark.reading.early import EarlyColumns

    columns, start = EarlyColumns(SCHEMA), time.process_time()
    for batch in data.to_batches():
        columns.added_to(batch)
    return time.process_time() - start


def _run(rows: DataFrame, java: int) -> tuple[float, float]:
    """Seconds on the clock and of the processors."""
    start, before = time.perf_counter(), _processor_seconds(java)
    rows.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start, _processor_seconds(java) - before


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
