"""`--key` in a Delta table: one merge per batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow
    from deltalake import DeltaTable
    from deltalake.transaction import CommitProperties

DELETED = "__headrace_deleted"


def merge(
    table: DeltaTable,
    rows: pyarrow.Table,
    key: Sequence[str],
    deleted: pyarrow.Table,
    properties: CommitProperties,
) -> None:
    """Both sources have each key at most once, and `seq`."""
    import pyarrow

    names = rows.column_names
    marked = rows.append_column(DELETED, pyarrow.array([False] * len(rows), pyarrow.bool_()))
    gone = deleted.append_column(DELETED, pyarrow.array([True] * len(deleted), pyarrow.bool_()))
    source = pyarrow.concat_tables([marked, gone], promote_options="default")
    values = {_quoted(name): f"source.{_quoted(name)}" for name in names}
    is_newer = "source.seq > target.seq"
    is_deleted = f"source.{_quoted(DELETED)}"
    (
        table.merge(
            source,
            predicate=" AND ".join(f"target.{_quoted(name)} = source.{_quoted(name)}" for name in key),
            source_alias="source",
            target_alias="target",
            commit_properties=properties,
        )
        .when_matched_delete(f"{is_deleted} AND {is_newer}")
        .when_matched_update(values, f"NOT {is_deleted} AND {is_newer}")
        .when_not_matched_insert(values, f"NOT {is_deleted}")
        .execute()
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
