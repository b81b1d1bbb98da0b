"""How payloads should be read, as a command or a pipeline says it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.spark.payload.decoding import Decoding


@dataclass(frozen=True)
class Payload:
    schema: str = ""
    payload: str = ""
    message: str = ""
    subject: str = ""
    columns: tuple[str, ...] = ()
    """Metadata of the message; only `none` means none, and an empty tuple the usual ones."""
    key: tuple[str, ...] = ()

    def decoding(self) -> Decoding | None:
        """None if nothing was said: messages stay as they are. Raises UsageError."""
        if self == Payload():
            return None
        from headrace.spark.payload.schema import read_schema

        if self.key and not (self.schema or self.payload or self.subject):
            raise UsageError("a key needs columns", hint="give a schema, or a pattern of the subject")
        payload = self.payload or (None if self.schema else "raw")
        found = read_schema(self.schema or None, payload, self.message or None)
        metadata = found.metadata
        if self.columns:
            metadata = tuple(name for name in self.columns if name != "none")
        if self.key and "seq" not in metadata:
            metadata = (*metadata, "seq")  # says which row of a key is the latest
        return replace(found, subject=self.subject, metadata=metadata, key=self.key).checked()
