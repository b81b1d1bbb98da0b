"""Filter pushdown: a batch read that asks the server for fewer messages.

Used only if the option `filterPushdown` asks for it, because Spark fails every read of a source that can
push filters down unless `spark.sql.python.filterPushdown.enabled` is true, and it is not by default.

| filter on | is turned into |
|---|---|
| `seq` `=`, `<`, `<=`, `>`, `>=`, `IN` | a smaller range |
| `timestamp` the same | a smaller range, by the server's search for a time |
| `subject` `=`, `IN`, `LIKE 'orders.%'` | a subject filter of the consumer |
| `stream` `=`, `IN` | fewer streams |

This only reduces what is read. Spark still applies every filter to the rows, so a filter that is pushed down
imprecisely, or not at all, never changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from headrace.spark.options import ReadOptions
from headrace.spark.reading.batch_reader import BatchReader
from headrace.spark.reading.offsets import Range
from headrace.subjects.grammar import is_valid_publish_subject, matches

# A table's times have microseconds, a stream's nanoseconds: all of one microsecond are the same time.
NANOSECONDS_PER_MICROSECOND = 1_000


class PushdownReader(BatchReader):
    """A batch reader that narrows ranges, streams and subjects by the filters of the query."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._sequences = Bounds()
        self._times = Bounds()
        self._wanted = set(options.streams)
        self._subjects: set[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for condition in filters:
            column: tuple[str, ...] = getattr(condition, "attribute", ())
            narrow = NARROW.get(".".join(column))
            if narrow is not None:
                narrow(self, condition)
        return filters

    def ranges(self) -> list[Range]:
        return [] if self._subjects == set() else super().ranges()

    def bounds(self, stream: str) -> tuple[int, int]:
        first, end = super().bounds(stream)
        if stream not in self._wanted:
            return first, first
        if self._times.low is not None:
            first = max(first, self.streams.sequence_at(stream, self._times.low))
        if self._times.high is not None:
            end = min(end, self.streams.sequence_at(stream, self._times.high + NANOSECONDS_PER_MICROSECOND))
        if self._sequences.low is not None:
            first = max(first, self._sequences.low)
        if self._sequences.high is not None:
            end = min(end, self._sequences.high + 1)
        return first, end

    def subjects(self) -> tuple[str, ...]:
        return self.options.subjects if self._subjects is None else tuple(sorted(self._subjects))

    def narrow_sequences(self, condition: Filter) -> None:
        self._sequences.narrow(condition, _whole_number)

    def narrow_times(self, condition: Filter) -> None:
        self._times.narrow(condition, _nanoseconds)

    def narrow_streams(self, condition: Filter) -> None:
        wanted = _words(condition)
        if wanted is not None:
            self._wanted &= wanted

    def narrow_subjects(self, condition: Filter) -> None:
        wanted = _words(condition)
        if wanted is None and isinstance(condition, StringStartsWith) and condition.value.endswith("."):
            # A pattern cannot be intersected with others, so it is used only if it is the only one.
            if (
                self._subjects is None
                and not self.options.subjects
                and is_valid_publish_subject(condition.value[:-1])
            ):
                self._subjects = {f"{condition.value}>"}
        elif wanted is not None and all(map(is_valid_publish_subject, wanted)):
            patterns = self.options.subjects if self._subjects is None else self._subjects
            self._subjects = {
                word for word in wanted if not patterns or any(matches(word, pattern) for pattern in patterns)
            }


NARROW: dict[str, Callable[[PushdownReader, Filter], None]] = {
    "seq": PushdownReader.narrow_sequences,
    "timestamp": PushdownReader.narrow_times,
    "stream": PushdownReader.narrow_streams,
    "subject": PushdownReader.narrow_subjects,
}


class Bounds:
    """The lowest and highest whole number that the filters allow."""

    def __init__(self) -> None:
        self.low: int | None = None
        self.high: int | None = None

    def narrow(self, condition: Filter, number: Callable[[Any], int | None]) -> None:
        if isinstance(condition, EqualTo):
            self._keep(number(condition.value), number(condition.value))
        elif isinstance(condition, In):
            numbers = [number(value) for value in condition.value]
            known = [value for value in numbers if value is not None]
            if known and len(known) == len(numbers):
                self._keep(min(known), max(known))
        elif isinstance(condition, (GreaterThan, GreaterThanOrEqual)):
            self._keep(number(condition.value), None)
        elif isinstance(condition, (LessThan, LessThanOrEqual)):
            self._keep(None, number(condition.value))

    def _keep(self, low: int | None, high: int | None) -> None:
        if low is not None:
            self.low = low if self.low is None else max(self.low, low)
        if high is not None:
            self.high = high if self.high is None else min(self.high, high)


def _whole_number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _nanoseconds(value: Any) -> int | None:
    if not isinstance(value, datetime):
        return None
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (
        (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    ) * NANOSECONDS_PER_MICROSECOND


def _words(condition: Filter) -> set[str] | None:
    if isinstance(condition, EqualTo) and isinstance(condition.value, str):
        return {condition.value}
    if isinstance(condition, In) and all(isinstance(value, str) for value in condition.value):
        return set(condition.value)
    return None
