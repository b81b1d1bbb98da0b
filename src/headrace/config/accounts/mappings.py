"""Reads `mappings`: the subjects that messages are published to instead.

mappings {
  foo: bar
  "orders.*": [{destination: "v1.orders.$1", weight: 90%}, {destination: "v2.orders.$1", weight: 10%}]
}
"""

from __future__ import annotations

import re

from headrace.config.identity import Destination, Mapping
from headrace.config.problems import Problems
from headrace.config.values import KIND_NAMES, Value
from headrace.errors import ConfigError
from headrace.subjects import grammar
from headrace.subjects.transform import Transform, TransformError, check_mapping

_INTEGER = re.compile(r"[+-]?[0-9]+")


def read_mappings(value: Value, problems: Problems) -> tuple[Mapping, ...]:
    """Errors in a mapping go to `problems`."""
    found: dict[str, Mapping] = {}
    for source, entry in value.mapping().items():
        with problems.collecting():
            if not grammar.is_valid_subject(source):
                raise value.error(f'Subject "{source}" is not a valid subject')
            mapping = _read_mapping(source, entry, problems)
            if mapping is not None:
                found[source] = mapping
    return tuple(found.values())


def _read_mapping(source: str, entry: Value, problems: Problems) -> Mapping | None:
    plain = entry.plain
    what = f'"{source}"'
    destinations: list[Destination] = []
    if isinstance(plain, str):
        destinations.append(Destination(plain))
        what += f' to "{plain}"'
    else:
        for one in plain if isinstance(plain, list) else [entry]:
            with problems.collecting():
                destinations.append(_read_destination(one))
        if not destinations and not isinstance(plain, list):
            return None
    try:
        _check(source, destinations)
    except (ConfigError, TransformError) as error:
        raise entry.error(f"Error adding mapping for {what} : {error.message}") from None
    return Mapping(source, tuple(destinations))


def _read_destination(entry: Value) -> Destination:
    if not isinstance(entry.plain, dict):
        raise entry.error("Expected an entry for the mapping destination")
    subject = cluster = ""
    weight = None
    for name, value in entry.plain.items():
        lowered = name.lower()
        if lowered in ("dest", "destination"):
            subject = value.string()
        elif lowered == "weight":
            weight = _read_weight(value)
        elif lowered == "cluster":
            cluster = value.string()
        else:
            raise value.error(f'Unknown field "{name}" for mapping destination')
    if weight is None:
        raise entry.error(f'Missing weight for mapping destination "{subject}"')
    return Destination(subject, weight, cluster)


def _read_weight(value: Value) -> int:
    plain = value.plain
    if isinstance(plain, str):
        text = plain.removesuffix("%")
        if _INTEGER.fullmatch(text) is None or len(text) > 18:
            raise value.error(f'Invalid weight "{text}" for mapping destination')
        weight = int(text)
    elif type(plain) is int:
        weight = plain
    else:
        raise value.error(f"Unknown entry type for weight of {KIND_NAMES[type(plain)]}")
    if not 0 <= weight <= 100:
        raise value.error(f"Invalid weight {weight} for mapping destination")
    return weight


def _check(source: str, destinations: list[Destination]) -> None:
    """Raises ConfigError or TransformError if these cannot be the destinations of one mapping."""
    seen: set[str] = set()
    totals: dict[str, int] = {}
    for destination in destinations:
        if destination.subject in seen:
            raise ConfigError(f'duplicate entry for "{destination.subject}"')
        seen.add(destination.subject)
        totals[destination.cluster] = totals.get(destination.cluster, 0) + destination.weight
        if totals[destination.cluster] > 100:
            raise ConfigError("total weight needs to be <= 100")
        check_mapping(source, destination.subject)
        Transform(source, destination.subject)
