"""What a check can find, and what was counted meanwhile. All kinds of findings are expected to be 0."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

KINDS = {
    "lost": "an acknowledged message is missing, and nothing removed it",
    "altered": "a message is not what was published",
    "resurrected": "a message is back, or still there, that was deleted, purged, expired or refused",
    "doubled": "a message, a sequence or a settled delivery came twice",
    "skipped": "a consumer did not get a message, or got it out of order",
    "torn": "an atomic batch is there in part",
    "unanswered": "a request had no answer, or a stream takes no messages, though no fault is under way",
    "died": "the server ended by itself, or did not start or stop",
}
MOST_KEPT = 50
"""Of each kind; all are counted."""


@dataclass
class Findings:
    """Of one process, until they are taken."""

    counts: Counter[str] = field(default_factory=Counter)
    texts: list[tuple[str, str]] = field(default_factory=list)

    def add(self, kind: str, text: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is no kind of finding")
        self.counts[kind] += 1
        if self.counts[kind] <= MOST_KEPT:
            self.texts.append((kind, text))

    def take(self) -> list[tuple[str, str]]:
        """Those since the last call. The counts continue."""
        taken, self.texts = self.texts, []
        return taken
