"""Cron patterns of scheduled messages: `second minute hour day month weekday`, and when they fire next.

A field is a list of ranges, `1,5-10,*/15`; months and weekdays have English names. If both the day and the
weekday are restricted, one of them suffices. Where a time zone skips an hour, times within it do not fire;
where it repeats one, they fire twice.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

_MAXIMUM_YEARS = 5
_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_WEEKDAY_NAMES = "sun mon tue wed thu fri sat"
_MONTHS = {name: index for index, name in enumerate(_MONTH_NAMES.split(), start=1)}
_WEEKDAYS = {name: index for index, name in enumerate(_WEEKDAY_NAMES.split())}
_NUMBER = re.compile(r"\+?[0-9]{1,9}")


class Bounds(NamedTuple):
    lowest: int
    highest: int
    names: dict[str, int]


class Field(NamedTuple):
    """The values at which a field fires, and whether it was written as a star."""

    values: frozenset[int]
    is_star: bool


_BOUNDS = (
    Bounds(0, 59, {}),
    Bounds(0, 59, {}),
    Bounds(0, 23, {}),
    Bounds(1, 31, {}),
    Bounds(1, 12, _MONTHS),
    Bounds(0, 6, _WEEKDAYS),
)


def next_time(pattern: str, zone: tzinfo, after: int) -> int:
    """The first time after `after` (nanoseconds) that fits the pattern.

    Raises ValueError if there is none.
    """
    words = pattern.split()
    if len(words) != len(_BOUNDS):
        raise ValueError(f"pattern requires 6 fields, got {len(words)}")
    seconds, minutes, hours, days, months, weekdays = (
        _read_field(word, bounds) for word, bounds in zip(words, _BOUNDS, strict=True)
    )
    moment = datetime.fromtimestamp(after // 10**9 + 1, zone)
    last_year = moment.year + _MAXIMUM_YEARS
    while moment.year <= last_year:
        if moment.month not in months.values:
            moment = _start_of_month(moment)
        elif not _is_day(moment, days, weekdays):
            moment = _later(moment, datetime(moment.year, moment.month, moment.day) + timedelta(days=1))
        elif moment.hour not in hours.values:
            moment = _forward(moment, 3600 - moment.minute * 60 - moment.second)
        elif moment.minute not in minutes.values:
            moment = _forward(moment, 60 - moment.second)
        elif moment.second not in seconds.values:
            moment = _forward(moment, 1)
        else:
            return int(moment.timestamp()) * 10**9
    raise ValueError("pattern exceeds maximum range")


def _is_day(moment: datetime, days: Field, weekdays: Field) -> bool:
    day = moment.day in days.values
    weekday = moment.isoweekday() % 7 in weekdays.values
    if days.is_star or weekdays.is_star:
        return day and weekday
    return day or weekday


def _start_of_month(moment: datetime) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month, 12)
    return _later(moment, datetime(year, month + 1, 1))


def _later(moment: datetime, wall: datetime) -> datetime:
    """The wall time in the zone of `moment`, or an hour later if a clock change skips it."""
    later = wall.replace(tzinfo=moment.tzinfo).astimezone(UTC).astimezone(moment.tzinfo)
    return later if later.timestamp() > moment.timestamp() else _forward(moment, 3600)


def _forward(moment: datetime, seconds: int) -> datetime:
    """That many seconds later in absolute time, whatever the clock of the zone does."""
    return (moment.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(moment.tzinfo)


def _read_field(word: str, bounds: Bounds) -> Field:
    values: set[int] = set()
    is_star = False
    for expression in word.split(","):
        if expression:
            found, star = _read_range(expression, bounds)
            values |= found
            is_star |= star
    if not values:
        raise ValueError(f"empty field: {word}")
    return Field(frozenset(values), is_star)


def _read_range(expression: str, bounds: Bounds) -> tuple[set[int], bool]:
    """`low`, `low-high` or `*`, and perhaps `/step`; `low/step` goes up to the highest value."""
    span, *steps = expression.split("/")
    low, *highs = span.split("-")
    is_star = low in ("*", "?")
    if len(steps) > 1 or (len(highs) > 1 and not is_star):
        raise ValueError(f"too many slashes or hyphens: {expression}")
    step = _read_number(steps[0], {}) if steps else 1
    if is_star:
        start, end = bounds.lowest, bounds.highest
    else:
        start = _read_number(low, bounds.names)
        end = _read_number(highs[0], bounds.names) if highs else start
    if steps and not highs:
        end = bounds.highest
    if start < bounds.lowest or end > bounds.highest or start > end or step == 0:
        raise ValueError(f"out of range: {expression}")
    return set(range(start, end + 1, step)), is_star and step == 1


def _read_number(word: str, names: dict[str, int]) -> int:
    if word.lower() in names:
        return names[word.lower()]
    if _NUMBER.fullmatch(word) is None:
        raise ValueError(f"failed to parse int from {word}")
    return int(word)
