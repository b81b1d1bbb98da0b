"""How to read a stream's messages: the payload's format and fields, columns of the subject, metadata, key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.errors import UsageError
from headrace.spark.payload.ddl import ddl, parse_ddl
from headrace.spark.payload.subject import subject_columns

SAME_CASE = "upper and lower case are the same here"

DECODED = "_headrace_decoded"
"""The column of messages whose payloads were decoded where they were read; see `reading/early.py`."""

PAYLOADS = ("json", "avro", "protobuf", "csv", "text", "raw")

METADATA: dict[str, StructField] = {
    "stream": StructField("stream", StringType(), False),
    "seq": StructField("seq", LongType(), False),
    "subject": StructField("subject", StringType(), False),
    "timestamp": StructField("timestamp", TimestampType(), False),
    "headers": StructField(
        "headers",
        ArrayType(StructType([StructField("key", StringType()), StructField("value", StringType())])),
    ),
}
"""The columns of a message that a table can have in addition to those of its payload."""


@dataclass(frozen=True)
class Decoding:
    """Everything that turns messages into rows. `checked` has looked for contradictions."""

    payload: str
    schema: StructType
    """The schema of the payload's fields; for `text` and `raw`, one column."""
    document: str = ""
    """What else a decoder needs: the text of an Avro schema, a Protobuf descriptor set in base64."""
    message: str = ""
    """The full name of the Protobuf message."""
    subject: str = ""
    """A pattern such as `orders.{country}.{kind}`, or nothing."""
    metadata: tuple[str, ...] = ("stream", "seq", "subject", "timestamp")
    key: tuple[str, ...] = ()
    """With a key, a table keeps the latest row of each."""
    confluent: bool = False
    """Avro payloads start with a zero byte and the four bytes of a schema's number."""

    def checked(self) -> Decoding:
        """Returns itself. Raises UsageError if two columns have the same name, or the key is not a column."""
        if self.payload not in PAYLOADS:
            raise UsageError(
                f"there is no payload format {self.payload}", hint=f"formats are {', '.join(PAYLOADS)}"
            )
        for name in self.metadata:
            if name not in METADATA:
                raise UsageError(
                    f"a message has no column {name}", hint=f"the columns are {', '.join(METADATA)}"
                )
        _check_names(self)
        columns = [name for name, _ in self._named_columns()]
        for name in self.key:
            if name not in columns:
                raise UsageError(
                    f"the key {name} is not a column", hint=f"the columns are {', '.join(columns)}"
                )
        return self

    @property
    def fields(self) -> StructType:
        """The columns that are decoded: those of the subject, then those of the payload."""
        return StructType([*subject_columns(self.subject), *self.schema.fields])

    @property
    def columns(self) -> StructType:
        """The columns of a good row: metadata, then `fields`."""
        return StructType([*(METADATA[name] for name in self.metadata), *self.fields])

    def _named_columns(self) -> Iterator[tuple[str, str]]:
        for name in self.metadata:
            yield name, "the metadata"
        for field in subject_columns(self.subject):
            yield field.name, "the subject"
        for field in self.schema.fields:
            yield field.name, "the payload"

    def to_json(self) -> dict[str, Any]:
        """For a table's description; `from_json` reads it."""
        return {**asdict(replace(self, schema=StructType())), "schema": ddl(self.schema)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Decoding:
        known = {**value, "schema": parse_ddl(value["schema"])}
        for name in ("metadata", "key"):
            known[name] = tuple(known[name])
        return Decoding(**known)


def _check_names(decoding: Decoding) -> None:
    """Spark compares names without regard to case, and so do we."""
    origins: dict[str, str] = {}
    for name, origin in decoding._named_columns():
        earlier = origins.get(name.lower())
        if earlier == origin:
            raise UsageError(f"{origin} has the column {name} twice", hint=SAME_CASE)
        if earlier is not None:
            hint = f"name it differently in the pattern {decoding.subject}"
            if earlier == "the metadata" and origin == "the payload":
                hint = "choose other metadata columns with --columns"
            raise UsageError(f"the column {name} comes from {earlier} and from {origin}", hint=hint)
        origins[name.lower()] = origin
    _check_nested_names(decoding.schema, ())


def _check_nested_names(kind: DataType, path: tuple[str, ...]) -> None:
    if isinstance(kind, ArrayType):
        _check_nested_names(kind.elementType, path)
    elif isinstance(kind, MapType):
        _check_nested_names(kind.valueType, path)
    elif isinstance(kind, StructType):
        names: set[str] = set()
        for field in kind.fields:
            if field.name.lower() in names:
                raise UsageError(
                    f"the schema has the column {'.'.join([*path, field.name])} twice",
                    hint=SAME_CASE,
                )
            names.add(field.name.lower())
            _check_nested_names(field.dataType, (*path, field.name))
