"""Reads what a `table:` sink of a pipeline file says about its table: format, catalog, schema, bad rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import UsageError
from headrace.spark.pipeline.document import Node
from headrace.spark.pipeline.server import filled
from headrace.spark.table.bad_rows import DEAD_LETTER
from headrace.spark.table.interface import FORMATS, Settings

if TYPE_CHECKING:
    from headrace.spark.payload.decoding import Decoding

TABLE_FIELDS = (
    "format",
    "catalog",
    "catalog_table",
    "storage_options",
    "schema",
    "payload",
    "message",
    "columns",
    "on_bad_row",
    "key",
    "partition_by",
    "compact_after",
)


def read_settings(fields: Mapping[str, Node]) -> Settings:
    """The format of the table, and how to reach it. Raises ConfigError."""
    form = _format(fields.get("format"))
    for name in "catalog", "catalog_table":
        if name in fields and form != "iceberg":
            fields[name].fail(f"`{name}` is for Iceberg tables", "add `format: iceberg`, or leave it out")
    table = fields["catalog_table"].text("catalog_table") if "catalog_table" in fields else ""
    if "catalog" in fields and not table:
        fields["catalog"].fail("`catalog` needs `catalog_table`", "as in catalog_table: sales.orders")
    if table and ("." not in table or not all(table.split("."))):
        message = f"`catalog_table` must be a namespace and a name, not {table}"
        fields["catalog_table"].fail(message, "as in catalog_table: sales.orders")
    return Settings(
        format=form,
        storage_options=_storage_options(fields.get("storage_options")),
        catalog=filled(fields["catalog"].text("catalog"), fields["catalog"]) if "catalog" in fields else "",
        table=table,
    )


def _storage_options(node: Node | None) -> dict[str, str]:
    """`${NAME}` in a value is a variable of the environment."""
    if node is None:
        return {}
    options = {}
    for name, value in node.mapping("storage_options").items():
        given = value.value
        options[name] = str(given).lower() if isinstance(given, bool) else filled(value.text(name), value)
    return options


def _format(node: Node | None) -> str:
    if node is None:
        return ""
    text = node.text("format")
    if text not in FORMATS:
        node.fail(f"`format` must be {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, not {text}")
    return text


def read_decoding(node: Node, fields: Mapping[str, Node], directory: Path) -> Decoding | None:
    """How a table's messages are decoded, if they are. Only `key` applies to the rows of any view."""
    from headrace.spark.payload.wanted import Payload

    if not any(name in fields for name in ("schema", "payload", "subject", "columns")):
        return None

    def text(name: str) -> str:
        return fields[name].text(name) if name in fields else ""

    def names(name: str) -> tuple[str, ...]:
        return tuple(fields[name].texts(name)) if name in fields else ()

    schema = text("schema")
    file = directory / schema
    with suppress(OSError):  # a DDL may be too long for a name
        schema = str(file) if schema and file.is_file() else schema
    try:
        return Payload(
            schema, text("payload"), text("message"), text("subject"), names("columns"), names("key")
        ).decoding()
    except UsageError as error:
        fields.get("schema", node).fail(str(error), error.hint)


def read_on_bad_row(node: Node | None) -> str:
    if node is None:
        return DEAD_LETTER
    from headrace.spark.table.dead_letters import check_on_bad_row

    try:
        return check_on_bad_row(node.text("on_bad_row"))
    except UsageError as error:
        node.fail(str(error), error.hint)


def read_compact_after(node: Node | None) -> int:
    """How many small files a partition may have; 0: never compact."""
    if node is None:
        return 32
    return 0 if node.value == 0 and not isinstance(node.value, bool) else node.number("compact_after")
