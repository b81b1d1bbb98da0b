"""The columns of a DataFrame that the sink uses, and their types.

| column | type | |
|---|---|---|
| `data` | binary or string | the payload; NULL is an empty one |
| `subject` | string | the subject, unless the option `subject` sets it for all |
| `headers` | array of structs (key, value), or map, of strings | optional |
| `msgId` | string | optional: identifies the message, see `message_ids` |
| `stream`, `seq` | string, bigint | optional, as read: identify the message that the row was made from |

The other column of a stream read, `timestamp`, is ignored; any other column is an error, because it may be a
misspelled one.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import ArrayType, BinaryType, DataType, LongType, MapType, StringType, StructType

from headrace.spark.failure import DataSourceError

NOT_PUBLISHED = {"stream", "seq", "timestamp"}


@dataclass(frozen=True)
class Columns:
    """The indexes of the columns in a batch; -1 for none."""

    data: int
    subject: int
    headers: int
    message_id: int
    stream: int
    seq: int

    @property
    def have_identity(self) -> bool:
        return self.stream >= 0 and self.seq >= 0


def find_columns(schema: StructType, subject: str) -> Columns:
    """Raises DataSourceError if a column is missing, has the wrong type, or is unknown."""
    indexes = {field.name.lower(): index for index, field in enumerate(schema.fields)}
    known = {"data", "subject", "headers", "msgid"}
    for name in indexes:
        if name not in known | NOT_PUBLISHED:
            raise DataSourceError(
                f"the sink cannot use the column `{name}`",
                hint="it takes data, subject, headers and msgId: choose them with select()",
            )
    if "data" not in indexes:
        raise DataSourceError("the sink needs a column `data`", hint='for example select("data")')
    if "subject" not in indexes and not subject:
        raise DataSourceError(
            "the sink needs subjects", hint='add a column `subject`, or .option("subject", "orders.copy")'
        )
    for name, wanted, fits in (
        ("data", "binary or string", (BinaryType, StringType)),
        ("subject", "string", (StringType,)),
        ("msgid", "string", (StringType,)),
    ):
        if name in indexes and not isinstance(schema[indexes[name]].dataType, fits):
            raise DataSourceError(
                f"the column `{name}` is {schema[indexes[name]].dataType.simpleString()}, not {wanted}",
                hint=f"cast it: CAST({name} AS STRING)",
            )
    if "headers" in indexes and not _fits_headers(schema[indexes["headers"]].dataType):
        raise DataSourceError(
            f"the column `headers` is {schema[indexes['headers']].dataType.simpleString()}",
            hint="it must be map<string,string> or array<struct<key:string,value:string>>",
        )
    # The option overrides the column, as `topic` does in Spark's Kafka sink.
    return Columns(
        data=indexes["data"],
        subject=-1 if subject else indexes["subject"],
        headers=indexes.get("headers", -1),
        message_id=indexes.get("msgid", -1),
        stream=_index_if(schema, indexes, "stream", StringType),
        seq=_index_if(schema, indexes, "seq", LongType),
    )


def _index_if(schema: StructType, indexes: dict[str, int], name: str, kind: type[DataType]) -> int:
    """For a column that may not be what a stream read produced."""
    index = indexes.get(name, -1)
    return index if index >= 0 and isinstance(schema[index].dataType, kind) else -1


def _fits_headers(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, StringType)
    element = kind.elementType if isinstance(kind, ArrayType) else None
    return (
        isinstance(element, StructType)
        and element.fieldNames() == ["key", "value"]
        and all(isinstance(field.dataType, StringType) for field in element.fields)
    )
