"""Whether the stream that is to take messages takes their subjects: asked before anything is published.

An acknowledgement says which stream has stored a message, but then it is stored, perhaps in a wrong one.
Subjects that a stream has said to take are its own, because no two streams may share one.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as compute

from headrace.client import Client
from headrace.spark.failure import DataSourceError
from headrace.subjects.grammar import matches

# Of a batch with more different subjects than these, the others are seen by their acknowledgements.
MOST_SUBJECTS = 1000


class StreamCheck:
    def __init__(self, client: Client, stream: str) -> None:
        """Raises StreamNotFound."""
        self._stream = stream
        self._patterns = client.stream_info(stream).subjects

    def __call__(self, subjects: Any) -> None:
        """One subject, or a column of them. Raises DataSourceError for one that the stream does not take."""
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
