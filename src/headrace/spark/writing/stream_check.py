"""Checks, before anything is published, that the stream accepts the subjects of the messages.

An acknowledgement says which stream has stored a message, but then it is too late. A subject that this stream
accepts belongs to no other, because streams cannot share subjects.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as compute

from headrace.client import Client
from headrace.spark.failure import DataSourceError
from headrace.subjects.grammar import matches

# In a batch with more distinct subjects than this, the others are checked by their acknowledgements.
MOST_SUBJECTS = 1000


class StreamCheck:
    def __init__(self, client: Client, stream: str) -> None:
        """Raises StreamNotFound."""
        self._stream = stream
        self._patterns = client.stream_info(stream).subjects

    def __call__(self, subjects: Any) -> None:
        """One subject, or a column of them. Raises DataSourceError if the stream does not accept one."""
        if isinstance(subjects, str):
            different = [subjects]
        else:
            different = compute.unique(subjects).slice(0, MOST_SUBJECTS).to_pylist()
        for subject in different:
            if not any(matches(subject, pattern) for pattern in self._patterns):
                raise DataSourceError(
                    f"the stream {self._stream} does not accept the subject {subject}",
                    hint=f"it accepts {', '.join(self._patterns) or 'none (a mirror, or only sources)'}",
                )
