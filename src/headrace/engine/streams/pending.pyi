from collections.abc import Iterator, Mapping
from typing import Any, final

Entry = tuple[int, int]
"""Consumer sequence, and the time of the delivery in nanoseconds."""

@final
class Pending:
    """Stream sequence -> entry, of what was delivered and is not acknowledged."""

    is_in_order: bool
    """Whether those delivered later have higher sequences."""
    out_of_order: int
    """How many entries are out of order; most of them were redelivered."""
    def __init__(self, entries: Mapping[int, Entry] | None = None) -> None: ...
    @staticmethod
    def from_numbers(numbers: list[int]) -> Pending:
        """Raises ValueError and OverflowError for what `numbers` does not return."""
    def __len__(self) -> int: ...
    def __contains__(self, seq: object) -> bool: ...
    def __iter__(self) -> Iterator[int]: ...
    def __getitem__(self, seq: int) -> Entry: ...
    def __setitem__(self, seq: int, entry: Entry) -> None:
        """It becomes the last in the order of time."""
    def get(self, seq: int) -> Entry | None: ...
    def pop(self, seq: int) -> Entry | None:
        """Returns its entry, None if it is not pending."""
    def clear(self) -> None: ...
    def copy(self) -> Pending: ...
    def items(self) -> Iterator[tuple[int, Entry]]:
        """In the order of time. Raises RuntimeError if something is changed meanwhile."""
    def lowest(self) -> int:
        """The lowest sequence; there must be one."""
    def below(self, seq: int, most: int) -> list[int]:
        """The sequences below this one; only the `most` lowest of them if all are in order."""
    def parts(self, most: int) -> Iterator[list[int]]:
        """The sequences that are pending when the walk begins, at most this many at a time.

        Entries may change between two parts. A part has only what is still pending when it is asked for.
        """
    def number_parts(self, most: int) -> Iterator[list[int]]:
        """Sequence, consumer sequence and time of each; a part has at most so many of them.

        Nothing may change between two parts.
        """
    def __eq__(self, other: Any) -> bool: ...
