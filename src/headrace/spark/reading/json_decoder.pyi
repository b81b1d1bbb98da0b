from collections.abc import Iterable
from typing import final

from headrace.client.columns import Buffer
from headrace.client.outgoing import TextColumn

KINDS: tuple[str, ...]

@final
class JsonDecoder:
    def __init__(self, columns: Iterable[tuple[str, str, bool, int, int]]) -> None: ...
    def decode(self, payloads: TextColumn) -> tuple[Buffer, list[list[Buffer]]]: ...
