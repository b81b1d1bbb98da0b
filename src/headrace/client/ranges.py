"""A range of a stream, as a reader asks for it: of a server (fetch.py) or of its files (stored_fetch.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from headrace.client.columns import Columns
from headrace.client.errors import UsageError


class RangeOptions(TypedDict, total=False):
    """What else `fetch_range` may be told; `Range` has the defaults."""

    subjects: Sequence[str] | str
    batch_rows: int
    headers: bool
    fail_on_loss: bool


@dataclass(frozen=True)
class Range:
    """The messages with first <= seq <= last. Raises UsageError if it starts before 1."""

    stream: str
    first: int
    last: int
    subjects: Sequence[str] | str = ()
    """Filters, wildcards allowed; none: all messages."""
    batch_rows: int = 32768
    headers: bool = True
    fail_on_loss: bool = False
    """Whether messages that retention or a purge has removed before they were read are an error."""

    def __post_init__(self) -> None:
        if self.first < 1:
            raise UsageError(f"a range starts at sequence 1 or later, not at {self.first}")

    @property
    def is_empty(self) -> bool:
        return self.last < self.first

    @property
    def filters(self) -> list[str]:
        return [self.subjects] if isinstance(self.subjects, str) else list(self.subjects)

    def columns(self) -> Columns:
        """Empty ones, for its messages."""
        return Columns(0, first=self.first, last=self.last, batch_rows=self.batch_rows, headers=self.headers)
