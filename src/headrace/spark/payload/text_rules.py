"""How dates, times and decimals are written, for JSON and CSV alike: as in RFC 3339, from the year 1 to 9999.

The patterns mean the same in Java and in Python, so that a bad row can be explained with the same rules.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, DateType, DecimalType, TimestampNTZType, TimestampType

from headrace.spark.payload.ddl import type_text

if TYPE_CHECKING:
    from pyspark.sql import Column

_DAY = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
_ZONE = r"(?:Z|[+-][0-9]{2}:[0-9]{2})"

# The first and the last day are complete in UTC only; elsewhere a part of them is in the year 0 or 10000.
_OUTSIDE = r"0001-01-01.*\+|9999-12-31.*-"
# `$` would allow a line break at the end.
_END = r"(?![\s\S])"

DATE = f"^{_DAY}{_END}"
TIMESTAMP = f"^(?!{_OUTSIDE}){_DAY}{_TIME}{_ZONE}?{_END}"
TIMESTAMP_NTZ = f"^{_DAY}{_TIME}{_END}"
ZONE_AT_END = f"{_ZONE}{_END}"
INTEGER = f"^-?[0-9]+{_END}"
NUMBER = rf"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?{_END}"

FARTHEST_ZONE_MINUTES = 18 * 60
"""The limit of time zone offsets in Java, and so in Spark; Python allows up to a day."""
_OFFSET = re.compile(f"[+-]([0-9]{{2}}):([0-9]{{2}}){_END}")


def is_too_far(text: str) -> bool:
    """Whether a time has a zone that is farther from UTC than possible."""
    offset = _OFFSET.search(text)
    return offset is not None and 60 * int(offset[1]) + int(offset[2]) > FARTHEST_ZONE_MINUTES


def misfit(shown: str, text: str, kind: DataType) -> str:
    """Why a text is not a value of a column."""
    reason = f"{shown} does not fit {type_text(kind)}"
    if isinstance(kind, TimestampType) and is_too_far(text):
        reason += ": a time zone is at most 18:00 from UTC"
    return reason


def decimal(kind: DecimalType) -> str:
    """The numbers that fit: no exponent, and no digit that would have to be rounded."""
    whole = kind.precision - kind.scale
    before = f"0*[0-9]{{1,{whole}}}" if whole else "0+"
    after = f"[0-9]{{1,{kind.scale}}}0*" if kind.scale else "0+"
    return rf"^-?{before}(?:\.{after})?{_END}"


def value(text: Column, kind: DataType) -> Column:
    """A date or a time; null if it is not written like one. It does not depend on Spark's time zone."""
    if isinstance(kind, DateType):
        return F.when(text.rlike(DATE), text.try_cast("date"))
    if isinstance(kind, TimestampNTZType):
        return F.when(text.rlike(TIMESTAMP_NTZ), text.try_cast("timestamp_ntz"))
    assert isinstance(kind, TimestampType)
    zoned = F.when(text.endswith("Z") | text.rlike(ZONE_AT_END), text).otherwise(F.concat(text, F.lit("Z")))
    return F.when(text.rlike(TIMESTAMP), zoned.try_cast("timestamp"))
