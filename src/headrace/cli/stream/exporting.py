"""`headrace stream export`: the messages of a stream in a file, to read elsewhere or to import there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from headrace.cli.arguments import check_subject, name_of_stream
from headrace.cli.human import Moment
from headrace.cli.output import say
from headrace.cli.stream.backups import progress_option
from headrace.cli.target import Target, connection_options
from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.cli.stream.api import Api
    from headrace.cli.stream.progress import Progress

format_option = click.option(
    "--format", "chosen", type=click.Choice(["ndjson", "parquet"]), help="Instead of by the file's name."
)
STDOUT = "-"
NOT_UTF8 = "\N{REPLACEMENT CHARACTER}"
BATCH_ROWS = 8192

Document = dict[str, Any]


@click.command(
    short_help="Write messages to a Parquet or NDJSON file.",
    epilog="""\b
Examples:
  headrace stream export ORDERS orders.parquet
  headrace stream export ORDERS orders.ndjson --since 1d --subject 'orders.eu.>'
  headrace stream export ORDERS - | jq .subject
""",
)
@click.argument("stream", callback=name_of_stream)
@click.argument("file")
@connection_options
@format_option
@click.option("--subject", "subjects", multiple=True, metavar="SUBJECT",
              help="Only of this subject; wildcards allowed; repeatable.")  # fmt: skip
@click.option("--id", "start", type=click.IntRange(min=1), metavar="SEQ", help="Start at this sequence.")
@click.option("--since", type=Moment, metavar="TIME", help="Start at a time, or this long ago: 1h30m.")
@click.option("--until", type=Moment, metavar="TIME", help="End before a time, or this long ago.")
@click.option("--force", "-f", is_flag=True, help="Replace FILE if it exists.")
@progress_option
def export(
    target: Target,
    stream: str,
    file: str,
    chosen: str | None,
    subjects: tuple[str, ...],
    start: int | None,
    since: int | None,
    until: int | None,
    force: bool,
    progress: bool,
) -> None:
    """Write the messages of STREAM to FILE, in Parquet (.parquet) or NDJSON (.ndjson; - is stdout).

    Messages that arrive meanwhile are not included. Nothing is removed from the stream.
    """
    if start is not None and since is not None:
        raise click.UsageError("use either --id or --since, not both")
    from headrace.cli.stream.api import open_api
    from headrace.cli.stream.files import format_of, import_pyarrow

    patterns = [check_subject(subject, wildcards=True) for subject in subjects]
    kind = format_of(file, chosen)
    if kind == "parquet":
        import_pyarrow()
    with open_api(target) as api:
        info = api.stream_info(stream)
        first, last = _bounds(api, info, start, since, until)
        from headrace.cli.stream.progress import Progress

        with (
            _new_file(file, force=force) as output,
            Progress("exporting", _estimate(info["state"], first, last), shown=progress) as done,
        ):
            _write(api, info, first, last, patterns, kind, output, done)
    if file != STDOUT:
        say(f"exported {done.summary()} from {stream} to {file}")


def _bounds(
    api: Api, info: Document, start: int | None, since: int | None, until: int | None
) -> tuple[int, int]:
    from headrace.cli.stream.stored import seq_since

    name, state = info["config"]["name"], info["state"]
    first, last = state["first_seq"], state["last_seq"]
    if since is not None:
        first = seq_since(api, name, state, since)
    if start is not None:
        first = max(first, start)
    if until is not None:
        last = seq_since(api, name, state, until) - 1
    return max(first, 1), last


def _estimate(state: Document, first: int, last: int) -> int:
    return int(min(state["messages"], max(last - first + 1, 0)))


def _write(
    api: Api,
    info: Document,
    first: int,
    last: int,
    subjects: list[str],
    kind: str,
    output: IO[bytes],
    done: Progress,
) -> None:
    """Columns where that is possible: a stream that removes what is read is read message by message."""
    from headrace.cli.stream.files import NdjsonWriter, ParquetWriter
    from headrace.cli.stream.rows import Row, rows_of_columns

    name = info["config"]["name"]
    writer = ParquetWriter(output) if kind == "parquet" else NdjsonWriter(output)
    if info["config"]["retention"] != "limits":
        for rows in _stored_rows(api, name, first, last, subjects):
            writer.write(_checked(rows))
            done.advance(len(rows))
    elif isinstance(writer, ParquetWriter):
        for batch in api.client.fetch_range(name, first, last, subjects=subjects):
            _check_subjects(set(batch.column("subject").unique().to_pylist()))
            writer.write_batch(batch)
            done.advance(batch.num_rows)
    else:

        def take(columns: Any) -> list[Row]:
            return rows_of_columns(name, columns)

        for rows in api.client.fetch_columns(
            name, first, last, take, subjects=subjects, batch_rows=BATCH_ROWS
        ):
            writer.write(_checked(rows))
            done.advance(len(rows))
    writer.finish()


def _stored_rows(api: Api, stream: str, first: int, last: int, subjects: list[str]) -> Iterator[list[Any]]:
    from headrace.cli.stream.rows import Row, exported_headers
    from headrace.cli.stream.stored import messages
    from headrace.subjects.grammar import matches

    for message in messages(api, stream, first, last):
        if not subjects or any(matches(message.subject, pattern) for pattern in subjects):
            seq, headers = message.seq, exported_headers(message.headers)
            yield [Row(seq, stream, seq, message.time_ns // 1000, message.subject, headers, message.data)]


def _checked(rows: list[Any]) -> list[Any]:
    _check_subjects({row.subject for row in rows})
    return rows


def _check_subjects(subjects: set[str]) -> None:
    """A subject that is not UTF-8 would be another one in the file. Raises UsageError."""
    for subject in subjects:
        if NOT_UTF8 in subject:
            raise UsageError(
                f"the subject {subject} is not UTF-8, so a file cannot have it",
                hint="export the other subjects with --subject",
            )


@contextmanager
def _new_file(path: str, *, force: bool) -> Iterator[IO[bytes]]:
    """A file that gets its name when it is complete. Raises UsageError."""
    if path == STDOUT:
        yield sys.stdout.buffer
        return
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path} exists already", hint="replace it with --force, or choose another name")
    partial = Path(f"{path}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if isinstance(error, ConnectionError):
            raise
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):  # where it could not be made
            partial.unlink(missing_ok=True)
