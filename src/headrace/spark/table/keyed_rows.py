"""With a key, a table keeps the latest row of each: what a batch changes, and what it deletes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.spark.payload.decode import DELETED
from headrace.spark.table.schemas import conform

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def latest_of_each(
    rows: DataFrame, key: Sequence[str], schema: StructType
) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Of each key, the row with the highest `seq`: those that set it, and those that delete it.

    For the latter, only key and `seq`. The rows may have a column DELETED. They come to the driver, with the
    types of the table.
    """
    import pyarrow.compute
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import BooleanType, StructField, StructType

    if DELETED not in rows.columns:
        rows = rows.withColumn(DELETED, F.lit(False))
    newest = F.max_by(F.struct(*(_quoted(name) for name in rows.columns)), F.col("seq"))
    latest = rows.groupBy(*(_quoted(name) for name in key)).agg(newest.alias("row")).select("row.*")
    wanted = StructType([*schema, StructField(DELETED, BooleanType())])
    found = conform(latest, wanted).toArrow()
    is_deleted = found[DELETED]
    changed = found.filter(pyarrow.compute.invert(is_deleted)).drop_columns([DELETED])
    return changed, found.filter(is_deleted).select(list(dict.fromkeys([*key, "seq"])))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
