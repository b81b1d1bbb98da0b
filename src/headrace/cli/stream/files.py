"""Files of messages: NDJSON with the standard means, Parquet if pyarrow is there. One class per format.

Readers do not trust a file: what is wrong is an error with the number of its line or row, and no line is
longer than a message can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from headrace.cli.stream.rows import IMPORT_PREFIX, Headers, Row, exported_headers
from headrace.client.api import parse_time
from headrace.errors import UsageError
from headrace.go_formats import format_time
from headrace.unreadable import UNREADABLE_JSON

BATCH_ROWS = 2048
BATCH_BYTES = 8 << 20
LINE_EXTRA_BYTES = 1 << 20
ESCAPED_BYTES = 6  # of a character in JSON: \u0000
LARGEST_SEQ = (1 << 63) - 1
FORMATS = {".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".parquet": "parquet"}


class Line(msgspec.Struct, omit_defaults=True):
    """One line of NDJSON, as it is written."""

    stream: str
    seq: int
    time: str
    subject: str
    headers: Headers = []
    data: str | None = None
    data_base64: bytes | None = None


class AnyLine(msgspec.Struct):
    """One line as it is read: `headrace sub --json` writes such lines, too."""

    subject: str
    stream: str = ""
    seq: int = 0
    time: str = ""
    headers: list[tuple[str, str]] | dict[str, str | list[str]] | None = None
    data: str | None = None
    data_base64: bytes | None = None


def format_of(path: str, chosen: str | None) -> str:
    """`ndjson` or `parquet`, by an option or by the name of the file. Raises UsageError."""
    found = chosen or FORMATS.get(Path(path).suffix.lower()) or ("ndjson" if path == "-" else None)
    if found is None:
        raise UsageError(
            f"the name {path} does not say what format it has",
            hint="end it with .ndjson or .parquet, or use --format",
        )
    return found


def import_pyarrow() -> Any:
    try:
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed",
            hint="pip install pyarrow, or use NDJSON: a file name that ends with .ndjson",
        ) from None
    return pyarrow


def bad_row(path: str, unit: str, number: int, reason: str) -> UsageError:
    return UsageError(f"{path}: {unit} {number}: {reason}")


# -- NDJSON -------------------------------------------------------------------------------------------------


class NdjsonWriter:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._encode = msgspec.json.Encoder().encode

    def write(self, rows: list[Row]) -> None:
        self._file.write(b"".join(self._encode(self._line(row)) + b"\n" for row in rows))

    def finish(self) -> None:
        self._file.flush()

    def _line(self, row: Row) -> Line:
        line = Line(row.stream, row.seq, format_time(row.time_us * 1000), row.subject, row.headers)
        try:
            line.data = row.data.decode()
        except UnicodeDecodeError:
            line.data_base64 = row.data
        return line


def read_ndjson(path: str, max_payload: int) -> Iterator[list[Row]]:
    limit = ESCAPED_BYTES * max_payload + LINE_EXTRA_BYTES
    decode = msgspec.json.Decoder(AnyLine).decode
    with open(path, "rb") as file:
        rows: list[Row] = []
        size = number = 0
        while line := file.readline(limit):
            number += 1
            if len(line) == limit:
                raise bad_row(path, "line", number, "it is longer than a message can be")
            if not line.strip():
                continue
            try:
                row = _row_of_line(decode(line), number)
            except (*UNREADABLE_JSON, ValueError) as error:
                raise bad_row(path, "line", number, str(error)) from None
            rows.append(row)
            size += len(line)
            if len(rows) == BATCH_ROWS or size >= BATCH_BYTES:
                yield rows
                rows, size = [], 0
        yield rows


def _row_of_line(line: AnyLine, number: int) -> Row:
    """Raises ValueError."""
    if line.data is not None and line.data_base64 is not None:
        raise ValueError("it has both data and data_base64")
    data = (line.data or "").encode() if line.data_base64 is None else line.data_base64
    if not 0 <= line.seq <= LARGEST_SEQ:
        raise ValueError(f"{line.seq} is not a sequence")
    time_us = parse_time(line.time) // 1000
    return Row(number, line.stream, line.seq, time_us, line.subject, _pairs(line.headers), data)


def _pairs(headers: list[tuple[str, str]] | dict[str, str | list[str]] | None) -> Headers:
    if isinstance(headers, dict):
        return [
            (name, value)
            for name, values in headers.items()
            for value in ([values] if isinstance(values, str) else values)
        ]
    return headers or []


# -- Parquet ------------------------------------------------------------------------------------------------


class ParquetWriter:
    """Writes what the client fetches as it is; rows are made only where an id has to go."""

    def __init__(self, file: IO[bytes]) -> None:
        from headrace.client.arrays import SCHEMA

        self._pyarrow = import_pyarrow()
        self._schema = SCHEMA
        self._writer = self._pyarrow.parquet.ParquetWriter(file, SCHEMA, compression="zstd")

    def write_batch(self, batch: Any) -> None:
        values = batch.column("headers").flatten().field(1)
        imported = self._pyarrow.compute.starts_with(values, IMPORT_PREFIX)
        if self._pyarrow.compute.any(imported).as_py():
            documents = batch.to_pylist()
            for document in documents:
                pairs = [(pair["key"], pair["value"]) for pair in document["headers"]]
                document["headers"] = _structs(exported_headers(pairs))
            batch = self._pyarrow.RecordBatch.from_pylist(documents, schema=self._schema)
        self._writer.write_batch(batch)

    def write(self, rows: list[Row]) -> None:
        documents = [
            {
                "subject": row.subject,
                "data": row.data,
                "headers": _structs(row.headers),
                "stream": row.stream,
                "seq": row.seq,
                "timestamp": row.time_us,
            }
            for row in rows
        ]
        self._writer.write_batch(self._pyarrow.RecordBatch.from_pylist(documents, schema=self._schema))

    def finish(self) -> None:
        self._writer.close()


def _structs(headers: Headers) -> list[dict[str, str]]:
    return [{"key": name, "value": value} for name, value in headers]


def read_parquet(path: str, max_payload: int) -> Iterator[list[Row]]:
    """Row group by row group. Raises UsageError for a file that is no Parquet, or has other columns."""
    pa = import_pyarrow()
    number = 0
    try:
        with pa.parquet.ParquetFile(path) as file:
            names = _check_columns(pa, path, file.schema_arrow)
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
                yield _rows_of_batch(pa, path, batch, number)
                number += batch.num_rows
    except (pa.ArrowException, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        where = f"after row {number}" if number else "at its beginning"
        raise UsageError(f"{path} is not a valid Parquet file ({where}): {error}") from None


def _check_columns(pa: Any, path: str, schema: Any) -> list[str]:
    """The names of the columns to read."""
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    for name in ("subject", "data"):
        if name not in schema.names:
            raise UsageError(
                f"{path} has no column {name}", hint="`headrace stream export` writes such files"
            )
        if not any(is_text(schema.field(name).type) for is_text in texts):
            raise UsageError(f"{path}: the column {name} has the type {schema.field(name).type}")
    if "headers" in schema.names:
        kind = schema.field("headers").type
        pairs = pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)
        if not (pa.types.is_map(kind) or (pairs and kind.value_type.num_fields == 2)):
            raise UsageError(f"{path}: the column headers has the type {kind}; it must hold keys and values")
    wanted = ("subject", "data", "headers", "stream", "seq", "timestamp")
    return [name for name in wanted if name in schema.names]


def _rows_of_batch(pa: Any, path: str, batch: Any, before: int) -> list[Row]:
    count = batch.num_rows

    def column(name: str, kind: Any, otherwise: Any) -> list[Any]:
        if name not in batch.schema.names:
            return [otherwise] * count
        values = batch.column(name)
        return [otherwise if value is None else value for value in values.cast(kind).to_pylist()]

    subjects = column("subject", pa.string(), None)
    payloads = column("data", pa.binary(), b"")
    streams = column("stream", pa.string(), "")
    seqs = column("seq", pa.int64(), 0)
    times = _times(pa, batch)
    headers = batch.column("headers").to_pylist() if "headers" in batch.schema.names else [None] * count
    rows = []
    for place in range(count):
        number = before + place + 1
        if subjects[place] is None:
            raise bad_row(path, "row", number, "it has no subject")
        pairs = [tuple(pair.values()) if isinstance(pair, dict) else pair for pair in headers[place] or []]
        if any(name is None or value is None for name, value in pairs):
            raise bad_row(path, "row", number, "a header has no key or no value")
        pairs = [(_string(name), _string(value)) for name, value in pairs]
        rows.append(
            Row(number, streams[place], seqs[place], times[place], subjects[place], pairs, payloads[place])
        )
    return rows


def _times(pa: Any, batch: Any) -> list[int]:
    if "timestamp" not in batch.schema.names:
        return [0] * batch.num_rows
    column = batch.column("timestamp")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", tz=column.type.tz))
    return [value or 0 for value in column.cast(pa.int64()).to_pylist()]


def _string(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
