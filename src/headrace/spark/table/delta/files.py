"""What a loaded Delta table has: its files, and its schema as Spark knows it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from headrace.spark.table.footers import partition_of
from headrace.spark.table.interface import DataFile

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql.types import StructType


def spark_schema(table: DeltaTable) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json()))


def files_of(table: DeltaTable) -> list[DataFile]:
    import pyarrow

    actions: Any = pyarrow.table(table.get_add_actions(flatten=True))
    found = []
    columns = (actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records"))
    for encoded, size, rows in zip(*columns, strict=True):
        path = unquote(encoded)
        found.append(DataFile(path, size, rows or 0, partition_of(path.rpartition("/")[0])))
    return sorted(found, key=lambda file: file.path)
