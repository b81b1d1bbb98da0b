from collections.abc import Callable

Choice = tuple[int, bytes | Callable[[bytes], bytes]]

class Mappings:
    def __init__(self, find: Callable[[bytes], tuple[Choice, ...] | None]) -> None: ...
    def apply(self, subject: bytes) -> bytes: ...
