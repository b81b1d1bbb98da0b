"""The page, a piece at a time.

First a selection is made of what is on it. Then, table by table, all values are read, for a few hundred
objects in a turn of the event loop, so that those of one object are of one moment; and they are written,
metric by metric as the format demands, a thousand lines in a turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from headrace.monitor.endpoint import Context
from headrace.monitor.metrics.exposition import Exposition
from headrace.monitor.metrics.families import Table
from headrace.monitor.metrics.selection import (
    Limits,
    Selection,
    has_consumer,
    has_stream,
    landed_tables,
    origins_of,
)
from headrace.monitor.metrics.server_tables import (
    BUILD,
    COMMITS,
    CUT,
    LOOP_STALLS,
    PROCESS,
    SERVER,
    STORAGE,
    TOTALS,
    Cut,
    Storage,
    Totals,
)
from headrace.monitor.metrics.stream_tables import (
    CONSUMERS,
    LANDING_STATE_NAMES,
    LANDING_STATES,
    LANDINGS,
    ORIGINS,
    STREAM_SETTINGS,
    STREAMS,
    LandingState,
    Origin,
)

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream
    from headrace.streams.stream import Stream

READ_AT_ONCE = 200
LINES_AT_ONCE = 1000

# In the value of a label just these three characters have another form.
_ESCAPED = {"\\": r"\\", '"': r"\"", "\n": r"\n"}
_SPECIAL = re.compile(r'[\\"\n]')

Thing = TypeVar("Thing")
Pieces = Iterator[bytes]
"""An empty one ends a turn."""


def write_page(context: Context, exposition: Exposition, limits: Limits) -> Pieces:
    for table in (BUILD, PROCESS, SERVER):
        yield from write_table(exposition, table, [context])
    if context.loop_stalls is not None:
        seconds = context.loop_stalls.seconds
        yield exposition.histogram(LOOP_STALLS, seconds.bounds, seconds.counts, seconds.total)
    if context.jetstream is not None:
        yield b""
        yield from _write_jetstream(context, context.jetstream, exposition, limits)
    yield exposition.end


def _write_jetstream(
    context: Context, jetstream: JetStream, exposition: Exposition, limits: Limits
) -> Pieces:
    for name, histogram in jetstream.committer.figures().items():
        yield exposition.histogram(COMMITS[name], *histogram)
    yield from write_table(
        exposition, STORAGE, [Storage(name, jetstream) for name in jetstream.resources.limits]
    )
    yield b""
    chosen = Selection(jetstream, limits)
    yield b""
    origins = yield from _find_origins(chosen.streams)
    cuts = {
        "streams": chosen.streams_cut,
        "consumers": chosen.consumers_cut,
        "origins": max(len(origins) - limits.streams, 0),
        "landings": context.landings.left_out if context.landings is not None else 0,
    }
    yield from write_table(exposition, TOTALS, [Totals(chosen.stream_count, chosen.consumer_count)])
    yield from write_table(exposition, CUT, [Cut(*cut) for cut in cuts.items()])
    yield from write_table(exposition, STREAM_SETTINGS, chosen.streams, has_stream)
    yield from write_table(exposition, STREAMS, chosen.streams, has_stream)
    yield from write_table(exposition, ORIGINS, origins[: limits.streams])
    yield from write_table(exposition, CONSUMERS, chosen.consumers, has_consumer)
    if context.landings is not None:
        landed = landed_tables(jetstream, context.landings)
        states = [LandingState(each, state) for each in landed for state in LANDING_STATE_NAMES]
        yield from write_table(exposition, LANDINGS, landed)
        yield from write_table(exposition, LANDING_STATES, states)


def _find_origins(streams: Sequence[Stream]) -> Generator[bytes, None, list[Origin]]:
    origins: list[Origin] = []
    for some in _slices(streams, READ_AT_ONCE):
        origins += (origin for stream in some if has_stream(stream) for origin in origins_of(stream))
        yield b""
    return origins


def write_table(
    exposition: Exposition,
    table: Table[Thing],
    things: Sequence[Thing],
    is_present: Callable[[Thing], bool] = lambda _: True,
) -> Pieces:
    template = label_template(table.labels)
    labels: list[str] = []
    columns: list[list[float | None]] = [[] for _ in table.columns]
    for some in _slices(things, READ_AT_ONCE):
        found = [thing for thing in some if is_present(thing)]
        labels += [format_labels(template, table.values_of(thing)) for thing in found]
        for column, values in zip(table.columns, columns, strict=True):
            values += map(column.read, found)
        if len(things) > READ_AT_ONCE:
            yield b""
    for column, values in zip(table.columns, columns, strict=True):
        yield exposition.head(column.family)
        sample = column.family.sample
        for place in range(0, len(labels), LINES_AT_ONCE):
            turn = slice(place, place + LINES_AT_ONCE)
            lines = [
                f"{sample}{label} {value}\n"
                for label, value in zip(labels[turn], values[turn], strict=True)
                if value is not None
            ]
            yield "".join(lines).encode("utf-8", "replace")


def format_labels(template: str, values: tuple[str, ...]) -> str:
    """A template is made by `label_template`."""
    if _SPECIAL.search("".join(values)):
        values = tuple(map(_escape, values))
    return template % values


def label_template(names: Sequence[str]) -> str:
    return "{" + ",".join(f'{name}="%s"' for name in names) + "}" if names else ""


def _escape(value: str) -> str:
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], value)


def _slices(things: Sequence[Thing], size: int) -> Iterator[Sequence[Thing]]:
    return (things[place : place + size] for place in range(0, len(things), size))
