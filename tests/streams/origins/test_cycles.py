"""Streams that copy each other in circles: found as if every path was followed, in far fewer steps."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.config import StreamConfig, StreamSource
from headrace.streams.errors import ApiError
from headrace.streams.origins.source_rules import check_cycles
from headrace.streams.slices import at_once
from headrace.subjects.grammar import overlap

NAMES = "ABCDE"
FILTERS = ["", "A", "B", "*"]


def follow_every_path(config: StreamConfig, neighbours: dict[str, StreamConfig]) -> bool:
    """The plain way, which nats-server has; whether there is a circle."""
    to_visit, visited = [config], set()
    while to_visit:
        visiting = to_visit.pop(0)
        visited.add(visiting.name)
        for source in visiting.sources:
            if source.name not in visited:
                to_visit += [neighbours[source.name]] if source.name in neighbours else []
            elif not source.filter_subject or any(
                overlap(subject, source.filter_subject) for subject in visiting.subjects
            ):
                return True
        if visiting.mirror:
            if visiting.mirror.name in visited:
                return True
            to_visit += [neighbours[visiting.mirror.name]] if visiting.mirror.name in neighbours else []
    return False


def finds_a_circle(config: StreamConfig, neighbours: dict[str, StreamConfig]) -> bool:
    with suppress(ApiError):
        at_once(check_cycles(config, neighbours))
        return False
    return True


@st.composite
def stream(draw: st.DrawFn, name: str) -> StreamConfig:
    if draw(st.integers(0, 9)) == 0:
        return StreamConfig(name=name, mirror=StreamSource(name=draw(st.sampled_from(NAMES))))
    names = draw(st.lists(st.sampled_from(NAMES), max_size=4))
    sources = [StreamSource(name=each, filter_subject=draw(st.sampled_from(FILTERS))) for each in names]
    return StreamConfig(name=name, subjects=[name], sources=sources)


@settings(max_examples=200)
@given(st.tuples(*map(stream, NAMES)))
def test_circles_are_those_of_every_path(streams: tuple[StreamConfig, ...]) -> None:
    neighbours = {each.name: each for each in streams}
    for config in streams:
        assert finds_a_circle(config, neighbours) == follow_every_path(config, neighbours)


def ladder(length: int) -> list[StreamConfig]:
    """Two streams on each rung, which both copy both of the next: 2^length paths."""
    rungs = [[f"{side}{rung}" for side in "LR"] for rung in range(length + 1)]
    made = [
        StreamConfig(name=name, sources=[StreamSource(name=origin) for origin in below])
        for above, below in pairwise(rungs)
        for name in above
    ]
    return [*made, *(StreamConfig(name=name) for name in rungs[-1])]


def test_many_paths_take_few_steps() -> None:
    streams = ladder(200)
    neighbours = {each.name: each for each in streams}
    assert not finds_a_circle(streams[0], neighbours)
    neighbours["R200"].sources.append(StreamSource(name="L0"))
    assert finds_a_circle(streams[0], neighbours)


def test_what_would_take_too_long_is_refused() -> None:
    sources = [StreamSource(name="O", filter_subject=f"none.{number}") for number in range(1200)]
    origin = StreamConfig(name="O", subjects=[f"o.{number}" for number in range(1000)], sources=sources)
    with pytest.raises(ApiError, match="too many sources"):
        at_once(check_cycles(origin, {"O": origin}))
