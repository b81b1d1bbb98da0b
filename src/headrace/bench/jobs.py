"""From the flags of `headrace bench` to a job: defaults, presets, and flags that cannot be combined.

`DEFAULTS` is the table of flags by workload. A flag that a workload would ignore is refused: a figure must
not look as if it had been measured with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.bench.runs import Job
from headrace.bench.seeds import PRESETS
from headrace.bench.workloads import (
    FixedRate,
    IdleConnections,
    ManySubjects,
    PublishSubscribe,
    RequestReply,
    StreamConsume,
    StreamPublish,
    Workload,
)
from headrace.bench.workloads.stream_publish import STREAM
from headrace.errors import UsageError

COMMON = {"subject": "bench", "num_pubs": 1, "num_subs": 1, "msg_size": 128}
STREAMS = {
    "subject": "bench",
    "num_msgs": 100_000,
    "msg_size": 128,
    "stream": STREAM,
    "storage": "file",
    "keep": False,
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "pubsub": COMMON | {"num_subs": 0, "num_msgs": 100_000, "processes": 1},
    "request": COMMON | {"num_msgs": 10_000, "in_flight": 1},
    "latency": COMMON | {"rate": 10_000.0, "duration": 10.0},
    "subjects": COMMON | {"num_msgs": 100_000, "num_subjects": 10_000, "queue": "", "wildcard": ">"},
    "connections": {"num_conns": 1000},
    "stream-publish": STREAMS | {"num_pubs": 1, "in_flight": 256, "msg_ids": False},
    "stream-consume": STREAMS | {"num_subs": 1, "batch": 1000, "acks": "explicit", "shared": False},
}
WORKLOADS = tuple(DEFAULTS)
PRESET_SHAPE = ("num_pubs", "num_subs", "msg_size")  # with others, the published figures are not comparable


def make_job(workload: str, given: Mapping[str, Any], preset: str = "") -> Job:
    """`given` are the flags that were given, by name. Raises UsageError."""
    defaults = DEFAULTS[workload]
    for name in given:
        if name not in defaults:
            places = [other for other, known in DEFAULTS.items() if name in known]
            raise UsageError(f"--{name.replace('_', '-')} is for {' and '.join(places)}, not for {workload}")
    values = defaults | _of_preset(workload, preset, given) | dict(given)
    if workload == "connections":
        count = values["num_conns"]
        return Job(workload, IdleConnections(count), "", 0, 0, 0, 0, connections=count)
    return Job(
        workload,
        _BUILDERS[workload](values),
        values["subject"],
        values.get("num_pubs", 0),
        values.get("num_subs", 0),
        values["num_msgs"] if "num_msgs" in values else round(values["rate"] * values["duration"]),
        values["msg_size"],
        preset,
        variant=", ".join(part for part in _VARIANTS.get(workload, _no_variant)(values) if part),
    )


def _of_preset(workload: str, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    if not name:
        return {}
    if workload != "pubsub":
        raise UsageError(f"a preset is a pubsub run, not {workload}")
    if changed := [flag for flag in PRESET_SHAPE if flag in given]:
        flags = " and ".join(f"--{flag.replace('_', '-')}" for flag in changed)
        raise UsageError(f"{flags} cannot be combined with the preset {name}; only --num-msgs can")
    preset = PRESETS[name]
    return {
        "num_pubs": preset.publishers,
        "num_subs": preset.subscribers,
        "num_msgs": preset.messages,
        "msg_size": preset.size,
    }


def _pubsub(values: Mapping[str, Any]) -> Workload:
    return PublishSubscribe(
        values["num_pubs"],
        values["num_subs"],
        values["msg_size"],
        values["num_msgs"],
        subject=values["subject"],
        processes=values["processes"],
    )


def _request(values: Mapping[str, Any]) -> Workload:
    _need_subscribers(values, "answer")
    return RequestReply(
        values["in_flight"],
        values["msg_size"],
        values["num_msgs"],
        subject=values["subject"],
        requesters=values["num_pubs"],
        responders=values["num_subs"],
    )


def _latency(values: Mapping[str, Any]) -> Workload:
    _need_subscribers(values, "receive")
    return FixedRate(
        values["rate"],
        values["duration"],
        values["msg_size"],
        values["num_pubs"],
        values["num_subs"],
        subject=values["subject"],
    )


def _subjects(values: Mapping[str, Any]) -> Workload:
    _need_subscribers(values, "receive")
    return ManySubjects(
        values["num_subjects"],
        values["msg_size"],
        messages=values["num_msgs"],
        publishers=values["num_pubs"],
        subscribers=values["num_subs"],
        wildcard=values["wildcard"],
        queue=values["queue"],
        subject=values["subject"],
    )


def _stream_publish(values: Mapping[str, Any]) -> Workload:
    return StreamPublish(
        values["in_flight"],
        values["msg_size"],
        values["num_msgs"],
        values["num_pubs"],
        storage=values["storage"],
        message_ids=values["msg_ids"],
        stream=values["stream"],
        keep=values["keep"],
        subject=values["subject"],
    )


def _stream_consume(values: Mapping[str, Any]) -> Workload:
    _need_subscribers(values, "consume")
    return StreamConsume(
        values["batch"],
        values["msg_size"],
        values["num_msgs"],
        values["num_subs"],
        acks=values["acks"],
        shared=values["shared"],
        storage=values["storage"],
        stream=values["stream"],
        keep=values["keep"],
        subject=values["subject"],
    )


def _need_subscribers(values: Mapping[str, Any], purpose: str) -> None:
    if values["num_subs"] < 1:
        raise UsageError(f"--num-subs 0 leaves nobody to {purpose}")


_BUILDERS: dict[str, Callable[[Mapping[str, Any]], Workload]] = {
    "pubsub": _pubsub,
    "request": _request,
    "latency": _latency,
    "subjects": _subjects,
    "stream-publish": _stream_publish,
    "stream-consume": _stream_consume,
}

# How runs with the same clients, messages and size may differ.
_VARIANTS: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "request": lambda values: [f"{values['in_flight']:,} in flight"],
    "subjects": lambda values: [
        f"{values['num_subjects']:,} subjects",
        "a subscription each" if values["wildcard"] == "none" else f"wildcard {values['wildcard']}",
        "queue group" if values["queue"] else "",
    ],
    "stream-publish": lambda values: [
        f"{values['storage']} storage",
        f"{values['in_flight']:,} in flight",
        "message ids" if values["msg_ids"] else "",
    ],
    "stream-consume": lambda values: [
        f"{values['storage']} storage",
        f"batches of {values['batch']:,}",
        f"{'explicit' if values['acks'] == 'explicit' else 'no'} acks",
        "one consumer" if values["shared"] else "",
    ],
}


def _no_variant(values: Mapping[str, Any]) -> list[str]:
    return []
