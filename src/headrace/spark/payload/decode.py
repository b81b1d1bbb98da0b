"""From messages to rows: what fits, and what does not.

    decoded = decode(rows, decoding)           the columns of the messages, FIELDS, DELETED, PROBLEM
    good_rows(decoded, decoding)               metadata and typed columns
    misfits(decoded)                           the other messages
    dead_letters(decoded, decoding, batch)     the same, each with a reason

A message is parsed once, although its row and the decision both depend on it: Spark (since 4.2) pushes no
filter below a column that is expensive to compute. A test checks the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from headrace.errors import UsageError
from headrace.spark.payload.csv_columns import check_csv_schema, csv_misfit, csv_values, parsed_csv
from headrace.spark.payload.ddl import type_text
from headrace.spark.payload.decoding import DECODED, METADATA, Decoding
from headrace.spark.payload.json_columns import json_misfit, json_values, parsed_json
from headrace.spark.payload.python_columns import with_decoded
from headrace.spark.payload.subject import extracted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FIELDS = "_headrace_fields"
"""A struct of the decoded columns. In a struct, they cannot clash with those of the message."""
DELETED = "_headrace_deleted"
"""Whether the message deletes its key; always false without a key."""
PROBLEM = "_headrace_problem"
"""Null in a good row; otherwise what is wrong with it, or EXPLAIN."""
EXPLAIN = "?"
"""The payload does not fit, and its decoder does not say why: `dead_letters` finds the reason."""

DEAD_LETTER_COLUMNS = StructType(
    [
        *METADATA.values(),
        StructField("data", BinaryType()),
        StructField("reason", StringType(), False),
        StructField("batch", LongType(), False),
    ]
)

OTHER_SUBJECT = "the subject does not match the pattern"

SINGLE: dict[str, DataType] = {"text": StringType(), "raw": BinaryType()}
"""Formats without fields: the payload is one column."""

_PARSED = "_headrace_parsed"
_REASON = "_headrace_reason"


def decode(rows: DataFrame, decoding: Decoding) -> DataFrame:
    """The messages with FIELDS, DELETED and PROBLEM. Raises UsageError for anything a decoder cannot read.

    In three steps, each of which Spark computes once: parse, convert, decide.
    """
    check_schema(decoding)
    messages = [F.col(name) for name in rows.columns if name != DECODED]
    rows = rows.withColumn(DELETED, is_deleted(rows, decoding))
    schema, data, parsed = decoding.schema, F.col("data"), F.col(_PARSED)
    if decoding.payload == "json":
        rows, values, misfit = _parse_json(rows, schema)
    elif decoding.payload == "csv":
        rows = rows.withColumn(_PARSED, parsed_csv(data, schema))
        values, misfit = csv_values(parsed, schema), csv_misfit(parsed, F.col(FIELDS), data, schema)
    elif decoding.payload in ("text", "raw"):
        rows = rows.withColumn(_PARSED, F.lit(None))
        values = {schema.names[0]: data.cast(schema.fields[0].dataType)}
        misfit = ~F.is_valid_utf8(data.cast("string")) if decoding.payload == "text" else F.lit(False)
    else:
        rows = with_decoded(rows, decoding, fields=_PARSED, problem=_REASON, skip=DELETED)
        values, misfit = {name: parsed[name] for name in schema.names}, F.col(_REASON).isNotNull()
    reason = F.col(_REASON) if _REASON in rows.columns else F.lit(EXPLAIN)
    matches, tokens = extracted(decoding.subject, F.col("subject")) if decoding.subject else (F.lit(True), {})
    fields = F.struct(*(column.alias(name) for name, column in {**tokens, **values}.items()))
    problem = F.when(~F.coalesce(matches, F.lit(False)), F.lit(OTHER_SUBJECT))
    problem = problem.when(~F.col(DELETED) & misfit, reason)
    problem = problem.when(_lacks_key(decoding), F.lit(f"the key {', '.join(decoding.key)} is missing"))
    return rows.withColumn(FIELDS, fields).select(
        *messages, DELETED, FIELDS, problem.cast("string").alias(PROBLEM)
    )


def _parse_json(rows: DataFrame, schema: StructType) -> tuple[DataFrame, dict[str, Column], Column]:
    """With _PARSED, the columns, and whether a payload does not fit.

    Payloads that were decoded while being read are not parsed again: `from_json` of null does nothing.
    """
    data, parsed, early = F.col("data"), F.col(_PARSED), F.col(DECODED)
    values, misfit = json_values(parsed, schema), json_misfit(parsed, F.col(FIELDS), data, schema)
    if DECODED not in rows.columns:
        return rows.withColumn(_PARSED, parsed_json(data, schema)), values, misfit
    rows = rows.withColumn(_PARSED, parsed_json(F.when(early.isNull(), data), schema))
    values = {name: F.when(early.isNull(), value).otherwise(early[name]) for name, value in values.items()}
    return rows, values, early.isNull() & misfit


def good_rows(decoded: DataFrame, decoding: Decoding, also: Mapping[str, Column] | None = None) -> DataFrame:
    """The rows of a table: `decoding.columns`, then `also`, made of the columns of the messages.

    With a key, only those that set one.
    """
    rows = decoded.where(F.col(PROBLEM).isNull() & ~F.col(DELETED))
    chosen = [F.col(name) for name in decoding.metadata]
    chosen += [F.col(FIELDS)[field.name].alias(field.name) for field in decoding.fields]
    return rows.select(*chosen, *(column.alias(name) for name, column in (also or {}).items()))


def misfits(decoded: DataFrame) -> DataFrame:
    """The messages that do not fit, as they were, with PROBLEM as the reason."""
    headers = (
        F.col("headers") if "headers" in decoded.columns else F.lit(None).cast(METADATA["headers"].dataType)
    )
    names = [name for name in METADATA if name != "headers"]
    bad = decoded.where(F.col(PROBLEM).isNotNull()).select(
        *names, headers.alias("headers"), "data", F.col(PROBLEM).alias("reason")
    )
    return bad.select(*METADATA, "data", "reason")


def dead_letters(decoded: DataFrame, decoding: Decoding, batch: int) -> DataFrame:
    """The messages that do not fit, with `DEAD_LETTER_COLUMNS`."""
    from headrace.spark.payload.explanation import explained

    return explained(misfits(decoded), decoding, batch)


def few_dead_letters(decoded: DataFrame, decoding: Decoding, batch: int) -> DataFrame:
    """The same, within this process: no Python process has to be started to explain them."""
    from headrace.spark.payload.explanation import explained_here

    return explained_here(misfits(decoded), decoding, batch)


def is_deleted(rows: DataFrame, decoding: Decoding) -> Column:
    """Whether a message says that its key is gone: as key-value buckets write it, or nothing at all."""
    if not decoding.key:
        return F.lit(False)
    empty = F.coalesce(F.length("data") == 0, F.lit(True))
    if "headers" not in rows.columns:
        return empty
    return empty | F.exists(
        F.coalesce(F.col("headers"), F.array()),
        lambda header: (
            ((header["key"] == "KV-Operation") & header["value"].isin("DEL", "PURGE"))
            | (header["key"] == "Nats-Marker-Reason")
        ),
    )


def check_schema(decoding: Decoding) -> None:
    """Raises UsageError for a column that payloads of this format cannot have. It needs no Spark session."""
    schema = decoding.schema
    if decoding.payload == "csv":
        check_csv_schema(schema)
    elif decoding.payload == "json":
        check_json_schema(schema)
    elif decoding.payload in SINGLE:
        wanted = SINGLE[decoding.payload]
        if len(schema.fields) != 1 or schema.fields[0].dataType != wanted:
            raise UsageError(
                f"a table of {decoding.payload} payloads has one column, a {type_text(wanted)}",
                hint="leave out --schema, or choose another format with --payload",
            )


def check_json_schema(schema: StructType) -> None:
    """Raises UsageError for maps whose keys are not text: JSON has no other kind."""

    def check(kind: DataType, path: str) -> None:
        if isinstance(kind, MapType):
            if not isinstance(kind.keyType, StringType):
                key = type_text(kind.keyType)
                raise UsageError(f"{path}: the keys of a JSON object are STRING, not {key}")
            check(kind.valueType, path)
        elif isinstance(kind, StructType):
            for field in kind.fields:
                check(field.dataType, f"{path}.{field.name}" if path else field.name)
        elif isinstance(kind, ArrayType):
            check(kind.elementType, path)

    check(schema, "")


def _lacks_key(decoding: Decoding) -> Column:
    """A row without its key, or a deletion that does not say what to delete, is a bad row."""
    missing = F.lit(False)
    names = {field.name for field in decoding.fields}
    for name in decoding.key:
        missing = missing | (F.col(FIELDS)[name] if name in names else F.col(name)).isNull()
    return missing
