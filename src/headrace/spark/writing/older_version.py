"""Finds a batch that an older version planned, and perhaps wrote in part, before it was replaced by this one.

Its ids held the places of rows (see `message_ids`). If it were repeated with other ids, what it has already
written would be written again. The offsets of such a batch are of version 1, and it is the last one in the
checkpoint. We can look into that only if it is a directory on this machine.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.spark.reading.offsets import FIRST_VERSION, version_of


def batch_of_older_version(checkpoint: str) -> int | None:
    """Its number; None if there is none."""
    directory = _local(checkpoint)
    if directory is None:
        return None
    try:
        names = [entry.name for entry in (directory / "offsets").iterdir() if entry.name.isdecimal()]
        last = max(map(int, names), default=None)
        if last is None:
            return None
        text = (directory / "offsets" / str(last)).read_text()
    except OSError:
        return None  # nothing there, or on another machine
    return last if _versions(text) == {FIRST_VERSION} else None


def _versions(text: str) -> set[int]:
    """Our offsets in a file of Spark: `v1`, a line about the batch, a line for each source."""
    versions = set()
    for line in text.splitlines()[2:]:
        with suppress(ValueError):
            offset = json.loads(line)
            if isinstance(offset, dict) and offset:
                versions.add(version_of(offset))
    return {version for version in versions if version is not None}


def _local(checkpoint: str) -> Path | None:
    parts = urlsplit(checkpoint)
    if parts.scheme not in ("", "file") or parts.netloc or not parts.path:
        return None
    return Path(unquote(parts.path) if parts.scheme else checkpoint)
