from typing import final

@final
class Filter:
    patterns: tuple[bytes, ...]
    everything: bool
    literal: bool
    def __init__(self, patterns: tuple[bytes, ...]) -> None: ...
    def matches(self, subject: bytes) -> bool: ...
