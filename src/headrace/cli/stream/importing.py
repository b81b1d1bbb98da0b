"""`headrace stream import`: publish the messages of a file to a stream, each of them once.

The file is read twice. The first time everything is checked, so a file with a mistake imports nothing; the
second time it is published, with many messages in flight, each with a Nats-Msg-Id.

Repeating an import stores nothing twice, even after the stream's duplicate window: the last messages of the
stream are compared with the file first. They arrive in the order of the file, at most `WINDOW` in flight, so
everything in the file before those that are found is in the stream already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.arguments import name_of_stream
from headrace.cli.output import plural, say
from headrace.cli.stream.backups import progress_option
from headrace.cli.stream.exporting import format_option
from headrace.cli.target import Target, connection_options
from headrace.errors import HeadraceError, UsageError

if TYPE_CHECKING:
    from headrace.cli.stream.acceptance import Acceptance
    from headrace.cli.stream.api import Api
    from headrace.cli.stream.rows import Row

WINDOW = 1024
SUBJECTS_KEPT = 100_000

Document = dict[str, Any]


@click.command(
    "import",
    short_help="Publish the messages of a file to a stream.",
    epilog="""\b
Examples:
  headrace stream import orders.parquet ORDERS
  headrace stream import orders.ndjson ORDERS --dry-run
""",
)
@click.argument("file")
@click.argument("stream", callback=name_of_stream)
@connection_options
@format_option
@click.option("--dry-run", is_flag=True, help="Only check the file.")
@progress_option
def import_(
    target: Target, file: str, stream: str, chosen: str | None, dry_run: bool, progress: bool
) -> None:
    """Publish the messages of FILE, which `export` has written, to the existing STREAM.

    Repeat an interrupted import: what the stream has already is not stored again.
    """
    from headrace.cli.stream.api import open_api
    from headrace.cli.stream.files import format_of

    kind = format_of(file, chosen)
    with open_api(target) as api:
        source = _Source(api, file, kind, api.stream_info(stream))
        total = source.check()
        if dry_run:
            say(f"{file} has {plural(total, 'message')} that {stream} can store")
            return
        _publish(api, source, stream, total, shown=progress)


class _Source:
    """The rows of a file, checked against the stream that is to store them."""

    def __init__(self, api: Api, path: str, kind: str, info: Document) -> None:
        config = info["config"]
        if config.get("mirror"):
            raise UsageError(
                f"the stream {config['name']} is a mirror, which stores nothing but what it mirrors"
            )
        if config.get("no_ack"):
            raise UsageError(
                f"the stream {config['name']} does not acknowledge, so nobody would know what it has stored",
                hint=f"`headrace stream edit {config['name']} --ack`",
            )
        if config.get("sealed"):
            raise UsageError(f"the stream {config['name']} is sealed: it stores nothing any more")
        self.path = path
        self.last_seq: int = info["state"]["last_seq"]
        self._config: Document = config
        self._kind = kind
        self._patterns: list[str] = config.get("subjects") or []
        self._stream = config["name"]
        self._known: set[str] = set()
        with api.client.connection() as connection:
            self.max_payload = connection.max_payload
        self._stored = _last_marks(api, info, self.max_payload)
        self.resumes_at = 0
        """The number of the first row that the stream has; 0 if it has none."""

    @property
    def unit(self) -> str:
        return "row" if self._kind == "parquet" else "line"

    def check(self) -> int:
        """How many rows there are. Raises UsageError with the line of the first that cannot be imported."""
        total = 0
        for rows in self.batches():
            self._check_rows(rows)
            total += len(rows)
            if not self.resumes_at and self._stored:
                self.resumes_at = next((row.number for row in rows if self._has(row)), 0)
        return total

    def missing(self) -> Iterator[list[Row]]:
        """The rows that the stream does not have, as far as its last messages show."""
        for rows in self.batches():
            if not self.resumes_at:
                yield rows
                continue
            yield [row for row in rows if row.number > self.resumes_at and not self._has(row)]

    def _has(self, row: Row) -> bool:
        from headrace.cli.stream.rows import marks_of_row

        return not self._stored.isdisjoint(marks_of_row(row, self.max_payload))

    def batches(self) -> Iterator[list[Row]]:
        from headrace.cli.stream.acceptance import Acceptance
        from headrace.cli.stream.files import read_ndjson, read_parquet

        read = read_parquet if self._kind == "parquet" else read_ndjson
        acceptance = Acceptance(self._config, self.max_payload)
        try:
            for rows in read(self.path, self.max_payload):
                if rows:
                    self._check_subjects(rows)
                    yield self._prepare(rows, acceptance)
        except HeadraceError:
            raise
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise
            raise UsageError(f"cannot read {self.path}: {error.strerror or error}") from None

    def _check_subjects(self, rows: list[Row]) -> None:
        """When it is read again, too: the file may have changed."""
        from headrace.cli.stream.files import bad_row

        for row in rows:
            if row.subject not in self._known and not self._stores(row.subject):
                reason = f"the stream {self._stream} does not store the subject {row.subject!r}"
                raise bad_row(self.path, self.unit, row.number, reason)

    def _prepare(self, rows: list[Row], acceptance: Acceptance) -> list[Row]:
        from headrace.cli.stream.acceptance import Refused
        from headrace.cli.stream.files import bad_row

        prepared: list[Row] = []
        for row in rows:
            try:
                prepared.append(acceptance.prepare(row))
            except Refused as refused:
                raise bad_row(self.path, self.unit, row.number, str(refused)) from None
            except UnicodeEncodeError:
                prepared.append(row)  # which is found and named when all are encoded
        return prepared

    def _check_rows(self, rows: list[Row]) -> None:
        from headrace.cli.stream.files import bad_row
        from headrace.cli.stream.rows import outgoing
        from headrace.client.outgoing import BadRow

        try:
            outgoing(rows, self.max_payload).check(self.max_payload)
        except BadRow as fault:
            raise bad_row(self.path, self.unit, rows[fault.row].number, fault.reason) from None
        except UnicodeEncodeError:
            raise bad_row(
                self.path, self.unit, _first_unencodable(rows), "it has half a surrogate pair in a text"
            ) from None

    def _stores(self, subject: str) -> bool:
        """Nothing is published to any other subject: those of the API would be commands."""
        from headrace.subjects.grammar import matches

        if not any(matches(subject, pattern) for pattern in self._patterns):
            return False
        if len(self._known) < SUBJECTS_KEPT:
            self._known.add(subject)
        return True


def _first_unencodable(rows: list[Row]) -> int:
    for row in rows:
        try:
            "".join([row.subject, row.stream, *(text for pair in row.headers for text in pair)]).encode()
        except UnicodeEncodeError:
            return row.number
    return rows[0].number


def _last_marks(api: Api, info: Document, max_payload: int) -> set[str]:
    """The marks of the stream's last messages that were imported, if the very last one was."""
    from headrace.cli.stream.rows import marks_of
    from headrace.cli.stream.stored import last_messages

    name, state = info["config"]["name"], info["state"]

    def marks(count: int) -> set[str]:
        found = last_messages(api, name, state, count)
        each = (marks_of(one.subject, one.headers, one.data, max_payload) for one in found)
        return set().union(*each)

    return marks(2 * WINDOW) if state["messages"] and marks(1) else set()


class _SentRows:
    """Which rows of the file were sent as which number, as far back as a message may still be refused."""

    def __init__(self) -> None:
        self.count = 0
        self._batches: deque[tuple[int, list[int]]] = deque()

    def add(self, rows: list[Row]) -> None:
        self._batches.append((self.count, [row.number for row in rows]))
        self.count += len(rows)
        while self._batches[0][0] + len(self._batches[0][1]) < self.count - len(rows) - 2 * WINDOW:
            self._batches.popleft()

    def row(self, number: int) -> int | None:
        for start, rows in self._batches:
            if start <= number < start + len(rows):
                return rows[number - start]
        return None


def _how_to_continue(api: Api, source: _Source, stream: str) -> str:
    """Messages that were under way when one was refused may be stored, those after it as well."""
    stored = api.stream_info(stream)["state"]["last_seq"] - source.last_seq
    return (
        f"{stream} has stored {plural(stored, 'message')} since the import began; correct this {source.unit}"
        " or the stream, and repeat the import: nothing is stored twice"
    )


def _publish(api: Api, source: _Source, stream: str, total: int, *, shown: bool) -> None:
    from headrace.cli.stream.files import bad_row
    from headrace.cli.stream.progress import Progress
    from headrace.cli.stream.rows import outgoing
    from headrace.client import PublishFailed

    publisher = api.client.publisher(stream=stream, max_in_flight=WINDOW)
    sent = _SentRows()
    with Progress("importing", total, shown=shown) as progress:
        try:
            for rows in source.missing():
                if rows:
                    sent.add(rows)
                    publisher.publish_rows(outgoing(rows, source.max_payload))
                progress.advance(len(rows))
            report = publisher.flush() if sent.count else None
        except PublishFailed as failure:
            row = sent.row(failure.number)
            if row is not None:
                refused = bad_row(source.path, source.unit, row, failure.explained)
                raise UsageError(str(refused), hint=_how_to_continue(api, source, stream)) from None
            raise PublishFailed(
                str(failure), hint=failure.hint or "repeat the import: nothing is stored twice"
            ) from None
    acked, duplicates = report or (0, 0)
    parts = [f"imported {plural(acked - duplicates, 'message')} into {stream}"]
    if total > acked:
        parts.append(f"it had {plural(total - acked, 'message')} of the file already")
    if duplicates:
        parts.append(f"{plural(duplicates, 'message')} not stored, whose Nats-Msg-Id it has seen recently")
    say("; ".join(parts))
