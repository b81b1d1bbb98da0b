"""Every option of the data source once: name, how its value is read, its default, where it applies.

docs/spark.md has the same table, and a test compares the two. A wrong option is an error when the query is
defined, because an ignored one would be noticed only when the results are wrong.
"""

from __future__ import annotations

import difflib
import enum
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.spark import option_values as values
from headrace.spark.connection_options import ConnectionOptions, connection_options
from headrace.spark.failure import DataSourceError
from headrace.spark.option_values import EARLIEST, LATEST, Start
from headrace.subjects.grammar import has_wildcard, is_subset, is_valid_subject, overlap

DEFAULT_SERVERS = ("nats://127.0.0.1:4222",)
DEFAULT_MAX_IN_FLIGHT = 4096
# Longer than a reboot of a server takes, or the election of a leader.
DEFAULT_RECONNECT_SECONDS = 120.0


class Use(enum.Flag):
    """What a query does with the source."""

    BATCH = enum.auto()
    STREAM = enum.auto()
    SINK = enum.auto()
    READ = BATCH | STREAM
    ALL = READ | SINK


PHRASES = {Use.BATCH: "spark.read", Use.STREAM: "spark.readStream", Use.SINK: "write and writeStream"}


@dataclass(frozen=True)
class Option:
    name: str
    read: Callable[[str], Any]
    default: Any
    use: Use
    secret: bool = False
    """No error shows its value. Spark hides it by its name: see SECRET."""


# Spark shows the options of a streaming source in its plans, except those whose names match its setting
# spark.redaction.regex: secret, password, token. So an option is the path of a file, and its contents can
# only be given under a name that Spark hides.
SECRET = ".secret"


def _file(name: str) -> tuple[Option, Option]:
    """As a path, and as contents."""
    return (
        Option(name, values.read_path, "", Use.ALL, secret=True),
        Option(f"{name}{SECRET}", values.read_text, "", Use.ALL, secret=True),
    )


OPTIONS = (
    Option("servers", values.read_list, DEFAULT_SERVERS, Use.ALL),
    Option("nats.user", values.read_text, "", Use.ALL),
    Option("nats.password", str, "", Use.ALL, secret=True),
    Option("nats.token", values.read_text, "", Use.ALL, secret=True),
    *_file("nats.creds"),
    *_file("nats.nkey"),
    *_file("nats.jwt"),
    *_file("nats.seed"),
    Option("nats.tls.ca", values.read_text, "", Use.ALL),
    Option("nats.tls.cert", values.read_text, "", Use.ALL),
    *_file("nats.tls.key"),
    Option("nats.tls.keyPassword", str, "", Use.ALL, secret=True),
    Option("nats.tls.serverName", values.read_text, "", Use.ALL),
    Option("nats.tls.handshakeFirst", values.read_switch, False, Use.ALL),
    Option("nats.tls.insecure", values.read_switch, False, Use.ALL),
    Option("nats.connectTimeout", values.read_seconds, 5.0, Use.ALL),
    Option("nats.requestTimeout", values.read_seconds, 5.0, Use.ALL),
    Option("nats.reconnectTimeout", values.read_seconds, DEFAULT_RECONNECT_SECONDS, Use.ALL),
    Option("store", values.read_directory, "", Use.READ),
    Option("stream", values.read_list, (), Use.ALL),
    Option("subject", values.read_list, (), Use.ALL),
    Option("startingOffsets", values.read_offsets, None, Use.READ),
    Option("endingOffsets", values.read_offsets, LATEST, Use.BATCH),
    Option("startingTimestamp", values.read_time, None, Use.READ),
    Option("endingTimestamp", values.read_time, None, Use.BATCH),
    Option("maxOffsetsPerTrigger", values.read_count, None, Use.STREAM),
    Option("maxBytesPerTrigger", values.read_bytes, None, Use.STREAM),
    Option("minPartitions", values.read_count, None, Use.READ),
    Option("failOnDataLoss", values.read_switch, True, Use.READ),
    Option("includeHeaders", values.read_switch, True, Use.READ),
    Option("filterPushdown", values.read_switch, False, Use.BATCH),
    Option("acks", values.read_choice("all", "none"), "all", Use.SINK),
    Option("maxInFlight", values.read_count, DEFAULT_MAX_IN_FLIGHT, Use.SINK),
)

# Not for users: see `reading/early.py` for who sets it.
JSON_SCHEMA = "headrace.jsonSchema"
INTERNAL = (Option(JSON_SCHEMA, str, "", Use.READ),)

BY_NAME = {option.name.lower(): option for option in (*OPTIONS, *INTERNAL)}

# Spark passes these to every source and sink. `path` is the argument of load() and save().
IGNORED = {"checkpointlocation", "queryname", "path"}


@dataclass(frozen=True)
class ReadOptions:
    connection: ConnectionOptions
    streams: tuple[str, ...]
    subjects: tuple[str, ...]
    start: str | Mapping[str, Start]
    start_time: int | None
    end: str | Mapping[str, Start]
    end_time: int | None
    max_rows: int | None
    max_bytes: int | None
    min_partitions: int | None
    fail_on_data_loss: bool
    include_headers: bool
    filter_pushdown: bool
    json_schema: str
    """The schema of payloads that are decoded while they are read; empty if none are."""
    store: str
    """The storage directory of the server, to read its files; empty if they are not read."""
    is_offline: bool
    """Whether only the store is read, and no server asked."""


@dataclass(frozen=True)
class WriteOptions:
    connection: ConnectionOptions
    subject: str
    stream: str
    acks: bool
    max_in_flight: int


def read_options(given: Mapping[str, str], use: Use) -> ReadOptions:
    """The options of a read. Raises DataSourceError for the first that is wrong.

    `use` is Use.READ as long as it is not known whether the read is a batch or a stream.
    """
    found = _parse(given, use)
    streams = found["stream"] or _from_path(given)
    if not streams:
        raise DataSourceError(
            "the option `stream` is missing", hint='name the stream to read: .option("stream", "ORDERS")'
        )
    for offsets, time in ("startingOffsets", "startingTimestamp"), ("endingOffsets", "endingTimestamp"):
        if offsets.lower() in given and time.lower() in given:
            raise DataSourceError(f"`{offsets}` and `{time}` are both given", hint="omit one of them")
        _check_streams(offsets, found[offsets], streams)
    if found["endingOffsets"] == EARLIEST:
        raise DataSourceError("`endingOffsets` is earliest: nothing would be read", hint="leave it out")
    is_offline = _is_offline(given, found, use)
    default_start = LATEST if use is Use.STREAM else EARLIEST
    return ReadOptions(
        connection=connection_options(found),
        streams=streams,
        subjects=_without_overlap(found["subject"]),
        start=found["startingOffsets"] or default_start,
        start_time=found["startingTimestamp"],
        end=found["endingOffsets"],
        end_time=found["endingTimestamp"],
        max_rows=found["maxOffsetsPerTrigger"],
        max_bytes=found["maxBytesPerTrigger"],
        min_partitions=found["minPartitions"],
        fail_on_data_loss=found["failOnDataLoss"],
        include_headers=found["includeHeaders"],
        filter_pushdown=found["filterPushdown"],
        json_schema=found[JSON_SCHEMA],
        store=found["store"],
        is_offline=is_offline,
    )


def _is_offline(given: Mapping[str, str], found: Mapping[str, Any], use: Use) -> bool:
    """Whether only the store is read: with `servers`, those are asked, too."""
    names = [key.lower() for key in given]
    if not found["store"] or "servers" in names:
        return False
    if use is Use.STREAM:
        raise DataSourceError(
            "`store` without `servers` cannot be followed: only a server knows what is committed",
            hint="give `servers`, too: they say how far a stream reaches, and the store has the messages",
        )
    for name in names:
        if name.startswith("nats."):
            raise DataSourceError(
                f"`{BY_NAME[name].name}` is for a server, and `store` alone asks none",
                hint="give `servers`, too, or leave it out",
            )
    return True


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a write. Raises DataSourceError for the first that is wrong."""
    found = _parse(given, Use.SINK)
    for name in "stream", "subject":
        if len(found[name]) > 1:
            raise DataSourceError(
                f"a sink takes one `{name}`, not {len(found[name])}",
                hint="for several subjects, give the DataFrame a column `subject`",
            )
    subject = next(iter(found["subject"]), "")
    if has_wildcard(subject):
        raise DataSourceError(f"`subject` {subject} has a wildcard", hint="publish to a subject without one")
    return WriteOptions(
        connection=connection_options(found),
        subject=subject,
        stream=next(iter(found["stream"]), ""),
        acks=found["acks"] == "all",
        max_in_flight=found["maxInFlight"],
    )


def _parse(given: Mapping[str, str], use: Use) -> dict[str, Any]:
    found: dict[str, Any] = {option.name: option.default for option in BY_NAME.values()}
    for key, text in given.items():
        if key.lower() in IGNORED:
            continue
        option = BY_NAME.get(key.lower())
        if option is None:
            raise DataSourceError(f"unknown option `{key}`", hint=_suggestion(key))
        if not option.use & use:
            places = " and ".join(PHRASES[place] for place in option.use)
            raise DataSourceError(f"`{option.name}` is an option of {places}", hint="leave it out here")
        try:
            found[option.name] = option.read(text)
        except ValueError as error:
            shown = "" if option.secret else f", not {text!r}"
            raise DataSourceError(f"`{option.name}` {error}{shown}") from None
    for subject in found["subject"]:
        if not is_valid_subject(subject):
            raise DataSourceError(
                f"`subject` {subject!r} is not a valid subject",
                hint="use dot-separated tokens, no spaces, `>` only at the end",
            )
    return found


def _without_overlap(subjects: tuple[str, ...]) -> tuple[str, ...]:
    """The filters without those that others cover, because a server refuses overlapping ones."""
    kept = tuple(
        subject
        for subject in subjects
        if not any(other != subject and is_subset(subject, other) for other in subjects)
    )
    for one, other in itertools.combinations(kept, 2):
        if overlap(one, other):
            raise DataSourceError(
                f"`subject` has {one} and {other}, and some subjects match both",
                hint="read with one that covers both, and choose rows with where()",
            )
    return kept


def _suggestion(key: str) -> str:
    close = difflib.get_close_matches(key.lower(), BY_NAME, n=1)
    return f"did you mean `{BY_NAME[close[0]].name}`?" if close else "docs/spark.md lists the options"


def _from_path(given: Mapping[str, str]) -> tuple[str, ...]:
    """So that `.load("ORDERS")` reads the stream ORDERS."""
    path = next((text for key, text in given.items() if key.lower() == "path"), "")
    return values.read_list(path) if path.strip(" ,") else ()


def _check_streams(name: str, offsets: object, streams: tuple[str, ...]) -> None:
    if not isinstance(offsets, Mapping):
        return
    for stream in offsets:
        if stream not in streams:
            raise DataSourceError(
                f"`{name}` names {stream}, which `stream` does not", hint=f"`stream` is {','.join(streams)}"
            )
    for stream in streams:
        if stream not in offsets:
            raise DataSourceError(f"`{name}` says nothing about {stream}", hint=f'add "{stream}": "earliest"')
