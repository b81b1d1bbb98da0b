"""Every request of the JetStream API at its edges, made as a product and not as a list of cases.

A stream is brought into one of a few STATES: empty, all messages gone, without a head or a tail, and so on.
Then it is asked everything, with all of the NUMBERS wherever a request has a number and all of the
TIMES wherever it has a time. Questions that change nothing share a stream. Those that change it have one of
their own, and are followed by a look at what became of it. Each must be answered, and as nats-server does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.interop.jetstream import (
    api,
    consumer,
    create,
    expect,
    info,
    message,
    publish,
    pull,
    streams_session,
)
from tests.interop.session import UNTIL_STATUS, Session, Step

Body = dict[str, Any]

ANY = "S000"
"""A placeholder for the name of the stream that a part of a session has to itself; names have this length."""

NUMBERS = (0, 1, 3, 5, 6, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -1)
OVERFLOWING = 2**63 - 1  # seconds, or nanoseconds: nats-server takes the time after that for a past one
SECONDS = (0, 3600, *(number for number in NUMBERS if not 0 <= number <= 6))
"""Without those that pass while a busy machine plays a session: what then happens is no edge, but a race."""
TIMES = (
    "0001-01-01T00:00:00Z",
    "1970-01-01T00:00:00Z",
    "2000-01-01T00:00:00Z",
    "2030-06-01T00:00:00.5+02:00",
    "2262-01-01T00:00:00Z",
)
FAR_TIMES = ("1677-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z")
"""nats-server takes 2999 for long ago in lookups: see tests/streams/api/test_far_times.py."""
PATTERNS = ("a.1", "a.*", "b", ">", "none")
LAST = 5
MESSAGES = ("a.1", "a.2", "a.1", "b", "a.2")


@dataclass(frozen=True)
class State:
    """How a stream came to be what it is. `left` are the sequences of its messages."""

    name: str
    left: tuple[int, ...] = ()
    published: bool = True
    purge: Body | None = None
    deleted: tuple[int, ...] = ()
    first_seq: int = 0

    @property
    def last_seq(self) -> int:
        """Of the last message there ever was."""
        first = self.first_seq or 1
        last = first - 1 + (len(MESSAGES) if self.published else 0)
        return max(last, (self.purge or {}).get("seq", 0) - 1)

    def steps(self, stream: str, **config: Any) -> list[Step]:
        first = {"first_seq": self.first_seq} if self.first_seq else {}
        steps = [create(stream, subjects=[f"{stream}.>"], allow_direct=True, **first, **config)]
        if self.published:
            subjects = [f"{stream}.{subject}" for subject in MESSAGES]
            data = b"".join(message(subject, b"%d" % place) for place, subject in enumerate(subjects))
            steps.append(expect(len(subjects), data))
        if self.purge is not None:
            steps.append(api(f"STREAM.PURGE.{stream}", self.purge))
        return steps + [api(f"STREAM.MSG.DELETE.{stream}", {"seq": seq}) for seq in self.deleted]


STATES = (
    State("empty", published=False),
    State("empty_above_one", published=False, first_seq=100),
    State("purged", purge={}),
    State("all_deleted", deleted=(1, 2, 3, 4, 5)),
    State("full", left=(1, 2, 3, 4, 5)),
    State("above_one", left=(101, 102, 103, 104, 105), first_seq=101),
    State("no_head", left=(3, 4, 5), purge={"seq": 3}),
    State("no_tail", left=(1, 2, 3), deleted=(5, 4)),
    State("holes", left=(1, 5), deleted=(2, 3, 4)),
    State("beyond", purge={"seq": 2**53}),
)


def direct(stream: str, body: Body, subject: str = "") -> Step:
    """Several messages and a status, or one."""
    verb = f"DIRECT.GET.{stream}" + (f".{subject}" if subject else "")
    several = body.get("batch") or "multi_last" in body
    return api(verb, body, UNTIL_STATUS if several else 1)


# -- what changes nothing


def reading(stream: str, state: State, storage: str) -> Iterator[Step]:
    """Questions about a stream."""
    yield from _gets(stream)
    yield from _direct_gets(stream)
    for number in NUMBERS:
        # Beyond the end nats-server's file store finds nothing, and its memory store everything.
        if storage == "memory" or not state.left or number <= state.left[-1]:
            yield direct(stream, {"multi_last": [f"{stream}.>"], "up_to_seq": number})
    for number in NUMBERS:
        yield info(stream, {"offset": number, "subjects_filter": ">"})
        for verb in ("STREAM.NAMES", "STREAM.LIST", f"CONSUMER.NAMES.{stream}", f"CONSUMER.LIST.{stream}"):
            yield api(verb, {"offset": number})
    if state.name != "empty" or storage == "memory":  # nats-server's file store has lost the message 0
        yield info(stream, {"deleted_details": True})
    for pattern in PATTERNS:
        yield info(stream, {"subjects_filter": f"{stream}.{pattern}"})
        yield api("STREAM.NAMES", {"subject": f"{stream}.{pattern}"})
    yield api("INFO")
    yield api(f"CONSUMER.INFO.{stream}.none")
    yield api(f"CONSUMER.DELETE.{stream}.none")
    yield api(f"CONSUMER.PAUSE.{stream}.none", {})
    yield api(f"CONSUMER.UNPIN.{stream}.none", {"group": "g"})
    yield api(f"CONSUMER.LEADER.STEPDOWN.{stream}.none")
    yield api(f"STREAM.LEADER.STEPDOWN.{stream}")


def _gets(stream: str) -> Iterator[Step]:
    verb = f"STREAM.MSG.GET.{stream}"
    for number in NUMBERS:
        yield api(verb, {"seq": number})
        for pattern in PATTERNS:
            yield api(verb, {"seq": number, "next_by_subj": f"{stream}.{pattern}"})
    for time in TIMES:
        yield api(verb, {"start_time": time})
        yield api(verb, {"start_time": time, "next_by_subj": f"{stream}.a.1"})
    for pattern in PATTERNS:
        yield api(verb, {"last_by_subj": f"{stream}.{pattern}"})
    yield api(verb, {"last_by_subj": ">"})


def _direct_gets(stream: str) -> Iterator[Step]:
    for number in NUMBERS:
        yield direct(stream, {"seq": number})
        yield direct(stream, {"seq": number, "batch": 2})
        yield direct(stream, {"seq": 1, "batch": number})
        yield direct(stream, {"seq": 1, "batch": 2, "max_bytes": number})
        yield direct(stream, {"multi_last": [f"{stream}.a.*"], "seq": number})
        yield direct(stream, {"multi_last": [f"{stream}.>"], "batch": number})
        for pattern in PATTERNS:
            yield direct(stream, {"seq": number, "next_by_subj": f"{stream}.{pattern}"})
    for time in TIMES:
        yield direct(stream, {"start_time": time})
        yield direct(stream, {"start_time": time, "batch": 3})
        yield direct(stream, {"multi_last": [f"{stream}.>"], "up_to_time": time})
    for pattern in PATTERNS:
        yield direct(stream, {"last_by_subj": f"{stream}.{pattern}"})
        yield direct(stream, {}, f"{stream}.{pattern}")
        yield direct(stream, {"multi_last": [f"{stream}.{pattern}"]})
        yield direct(stream, {"next_by_subj": f"{stream}.{pattern}", "seq": 1, "batch": 10})
    yield direct(stream, {"last_by_subj": ">"})


# -- what changes the stream


def changes(stream: str) -> Iterator[tuple[Step, ...]]:
    """Requests after which a stream is another one."""
    for number in NUMBERS:
        if number != 2**64 - 1:  # no sequence is left then: see docs/streams.md
            yield (api(f"STREAM.PURGE.{stream}", {"seq": number}),)
        yield (api(f"STREAM.PURGE.{stream}", {"keep": number}),)
        for pattern in ("a.1", ">", "none"):
            if number <= LAST + 1:  # nats-server's memory store would look at every sequence up to there
                yield (api(f"STREAM.PURGE.{stream}", {"filter": f"{stream}.{pattern}", "seq": number}),)
            yield (api(f"STREAM.PURGE.{stream}", {"filter": f"{stream}.{pattern}", "keep": number}),)
        yield (api(f"STREAM.MSG.DELETE.{stream}", {"seq": number}),)
        yield (api(f"STREAM.MSG.DELETE.{stream}", {"seq": number, "no_erase": True}),)
        for field in ("max_msgs", "max_bytes", "max_msgs_per_subject", "max_msg_size", "max_consumers"):
            yield (_update(stream, **{field: number}),)
    yield (api(f"STREAM.PURGE.{stream}"),)
    yield (api(f"STREAM.DELETE.{stream}"), api(f"STREAM.PURGE.{stream}"), api(f"STREAM.DELETE.{stream}"))


def _update(stream: str, **config: Any) -> Step:
    body = {"name": stream, "subjects": [f"{stream}.>"], "allow_direct": True, **config}
    return api(f"STREAM.UPDATE.{stream}", body)


def aftermath(stream: str) -> list[Step]:
    return [
        info(stream, {"subjects_filter": ">"}),
        publish(f"{stream}.a.1", b"after"),
        info(stream, {"subjects_filter": ">"}),
    ]


# -- publishing


def publishes(stream: str) -> Iterator[Step]:
    """Numbers and times in headers, one after another; some are taken."""
    for number in NUMBERS:
        yield publish(f"{stream}.a.1", Nats_Expected_Last_Sequence=number)
        yield publish(f"{stream}.a.1", Nats_Expected_Last_Subject_Sequence=number)
        yield _scheduled(stream, f"@at {number}")
        if number != OVERFLOWING:  # it would come sooner or later
            yield _scheduled(stream, f"@every {number}ns")
    for seconds in SECONDS:
        if seconds != OVERFLOWING:
            yield publish(f"{stream}.ttl", Nats_TTL=seconds)
        yield publish(f"{stream}.ttl", Nats_TTL=f"{seconds}s")
        yield _scheduled(stream, f"@every {seconds}s")
    for time in ("2262-01-01T00:00:00Z", *FAR_TIMES[1:]):
        yield _scheduled(stream, f"@at {time}")
    yield info(stream)
    yield publish(f"{stream}.ttl", Nats_TTL=OVERFLOWING)  # last: nats-server removes it sooner or later


def _scheduled(stream: str, pattern: str) -> Step:
    return publish(f"{stream}.schedule", Nats_Schedule=pattern, Nats_Schedule_Target=f"{stream}.target")


# -- consumers

POLICIES: tuple[Body, ...] = (
    {"deliver_policy": "all"},
    {"deliver_policy": "last"},
    {"deliver_policy": "new"},
    {"deliver_policy": "last_per_subject", "filter_subject": ">"},
    *({"deliver_policy": "by_start_sequence", "opt_start_seq": number} for number in NUMBERS),
    *({"deliver_policy": "by_start_time", "opt_start_time": time} for time in TIMES),
)


PULL_SECONDS = 40


def consumers(stream: str, state: State) -> Iterator[tuple[Step, ...]]:
    """Creates a consumer, pulls its messages, publishes one more, pulls again; and its info in between.

    nats-server tells its consumers of a message after it has acknowledged it. A pull with `no_wait` may come
    before that, so a consumer that gets the new message waits for it.
    """
    for policy in POLICIES:
        for pattern in (None, "a.1", "none"):
            config = dict(policy)
            if pattern or config.get("filter_subject"):
                config["filter_subject"] = f"{stream}.{pattern or '>'}"
            yield (
                consumer(stream, "c", **config),
                pull(stream, "c", UNTIL_STATUS, {"batch": 10, "no_wait": True}),
                api(f"CONSUMER.INFO.{stream}.c"),
                publish(f"{stream}.a.1", b"later"),
                pull(stream, "c", 1, {"batch": 1, "expires": PULL_SECONDS * 10**9})
                if pattern in (None, "a.1") and config.get("opt_start_seq", 0) <= state.last_seq + 1
                else pull(stream, "c", UNTIL_STATUS, {"batch": 10, "no_wait": True}),
                api(f"CONSUMER.INFO.{stream}.c"),
            )


WAITING = ("expires", "idle_heartbeat")
"""With a large number of these a request is not answered before that time has passed."""


def consumer_requests(stream: str, storage: str) -> Iterator[Step]:
    """Questions to one consumer that stays, in an order that matters to nobody.

    Only a consumer in memory is reset: nats-server does not write a reset to a file while it still writes the
    state before it, and then believes the file.
    """
    yield consumer(stream, "c", ack_policy="none")
    for number in NUMBERS:
        for field in ("expires", "max_bytes", "idle_heartbeat", "min_pending", "min_ack_pending", "priority"):
            if not (field in WAITING and LAST + 1 < number < 2**63):
                yield pull(stream, "c", UNTIL_STATUS, {"batch": 10, "no_wait": True, field: number})
        if storage == "memory":
            yield api(f"CONSUMER.RESET.{stream}.c", {"seq": number})
        yield api(f"CONSUMER.INFO.{stream}.c")
    for time in (*TIMES, *FAR_TIMES):
        yield api(f"CONSUMER.PAUSE.{stream}.c", {"pause_until": time})
        yield api(f"CONSUMER.INFO.{stream}.c")
    yield api(f"CONSUMER.PAUSE.{stream}.c", {})
    yield api(f"CONSUMER.UNPIN.{stream}.c", {"group": "g"})


# -- configurations

STREAM_NUMBERS = (
    "max_msgs",
    "max_bytes",
    "max_age",
    "max_msg_size",
    "max_consumers",
    "max_msgs_per_subject",
    "duplicate_window",
    "first_seq",
    "num_replicas",
    "subject_delete_marker_ttl",
)
CONSUMER_NUMBERS = (
    "max_deliver",
    "ack_wait",
    "max_ack_pending",
    "max_waiting",
    "inactive_threshold",
    "max_batch",
    "max_expires",
    "max_bytes",
    "rate_limit_bps",
    "idle_heartbeat",
    "num_replicas",
    "priority_timeout",
    "opt_start_seq",
)


def stream_configs(storage: str) -> Iterator[Step]:
    configs = [{field: number} for field in STREAM_NUMBERS for number in NUMBERS]
    configs.remove({"first_seq": 2**64 - 1})  # no sequence is left then: see docs/streams.md
    limits = [{field: number} for field in ("inactive_threshold", "max_ack_pending") for number in NUMBERS]
    for place, config in enumerate([*configs, *({"consumer_limits": limit} for limit in limits)]):
        stream = f"S{place}"
        yield create(stream, subjects=[f"{stream}.>"], storage=storage, **config)
        yield info(stream)
        yield publish(f"{stream}.a", b"1")
        yield consumer(stream, "c")
        yield info(stream)
        yield api(f"STREAM.DELETE.{stream}")


def consumer_configs(stream: str) -> Iterator[tuple[Step, ...]]:
    for field in CONSUMER_NUMBERS:
        for number in NUMBERS:
            yield (
                consumer(stream, "c", **{field: number}),
                api(f"CONSUMER.INFO.{stream}.c"),
                api(f"CONSUMER.DELETE.{stream}.c"),
            )
    for number in NUMBERS:
        yield (consumer(stream, "c", backoff=[number]), api(f"CONSUMER.DELETE.{stream}.c"))
    for time in (*TIMES, *FAR_TIMES):
        yield (consumer(stream, "c", pause_until=time), api(f"CONSUMER.DELETE.{stream}.c"))


# -- sessions


def _session(name: str, steps: Iterable[Step]) -> Session:
    return streams_session(f"edges_{name}", *steps, waits=False)


def state_sessions(state: State, storage: str) -> Iterator[Session]:
    """All that can be asked of a stream in this state."""
    prefix = f"{storage}_{state.name}"
    yield _session(f"{prefix}_reading", [*state.steps("S", storage=storage), *reading("S", state, storage)])
    yield _session(
        f"{prefix}_consumer_requests", [*state.steps("S", storage=storage), *consumer_requests("S", storage)]
    )
    features = {"allow_msg_ttl": True, "allow_msg_schedules": True}
    yield _session(f"{prefix}_publishes", [*state.steps("S", storage=storage, **features), *publishes("S")])
    yield _session(f"{prefix}_consumers", _each_with_a_stream(state, storage, consumers(ANY, state)))
    yield _session(f"{prefix}_changes", _each_with_a_stream(state, storage, changes(ANY)))


def _each_with_a_stream(state: State, storage: str, parts: Iterable[tuple[Step, ...]]) -> Iterator[Step]:
    """Each part with a stream that has a name of its own: nats-server may find the files of an older one."""
    for number, part in enumerate(parts):
        steps = [*state.steps(ANY, storage=storage), *part, *aftermath(ANY), api(f"STREAM.DELETE.{ANY}")]
        name = f"S{number:03}".encode()
        yield from (replace(step, data=step.data.replace(ANY.encode(), name)) for step in steps)


def config_sessions() -> Iterator[Session]:
    for storage in ("file", "memory"):
        yield _session(f"{storage}_stream_configs", stream_configs(storage))
    full = next(state for state in STATES if state.name == "full")
    steps = [step for steps in consumer_configs("S") for step in steps]
    yield _session("consumer_configs", [*full.steps("S", storage="memory"), *steps])


def all_sessions() -> list[Session]:
    sessions = [
        session
        for state in STATES
        for storage in ("file", "memory")
        for session in state_sessions(state, storage)
    ]
    return [*sessions, *config_sessions()]
