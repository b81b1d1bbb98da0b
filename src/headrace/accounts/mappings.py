"""Subjects of an account that are mapped to others, by weight."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.config.identity import Mapping
from headrace.subjects import grammar
from headrace.subjects.transform import Transform, place_wildcards

if TYPE_CHECKING:
    from headrace.engine.core.mappings import Choice


class MappedSubject:
    """One mapping. Destinations of other clusters never apply."""

    def __init__(self, mapping: Mapping) -> None:
        self.source = mapping.source
        chosen = [one for one in mapping.destinations if not one.cluster]
        weighted = [(one.weight, one.subject) for one in chosen]
        total = sum(weight for weight, _ in weighted)
        if total != 100 and all(one.subject != mapping.source for one in mapping.destinations):
            # The rest stays where it is; to lose it, the source has to be among the destinations.
            weighted.append((100 - total, place_wildcards(mapping.source)))
        self._destinations: list[tuple[int, Transform]] = []
        limit = 0
        for weight, subject in sorted(weighted, key=lambda one: one[0]):
            limit += weight
            self._destinations.append((limit, Transform(mapping.source, subject)))

    def matches(self, subject: str) -> bool:
        return subject == self.source or grammar.is_subset(subject, self.source)

    def choices(self, subject: bytes) -> tuple[Choice, ...]:
        return tuple(
            (limit, transform.build if transform.is_random else transform.build(subject))
            for limit, transform in self._destinations
        )


class SubjectMappings:
    """All mappings of an account; the first that matches applies."""

    def __init__(self, mappings: Iterable[Mapping]) -> None:
        self._mapped = [MappedSubject(mapping) for mapping in mappings]

    def find(self, subject: bytes) -> tuple[Choice, ...] | None:
        """For Interest.map_subjects."""
        text = grammar.decode(subject)
        for one in self._mapped:
            if one.matches(text):
                return one.choices(subject)
        return None
