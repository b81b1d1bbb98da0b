"""What looks into the process: /ipqueuesz, /raftz, /stacksz and /debug/vars.

There are neither queues between threads nor Raft groups here. Memory is that of a Python process, shown in
the fields of Go's runtime that mean the same; the others are 0.
"""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

from headrace.http.message import Answer, answer_text
from headrace.monitor.documents import encode_value
from headrace.monitor.endpoint import Context
from headrace.monitor.query import Query, decode_bool
from headrace.monitor.usage import resident_bytes

EXPVAR_TYPE = "application/json; charset=utf-8"
NO_RAFT = "No Raft nodes registered"
COUNTS = (
    *("Alloc", "TotalAlloc", "Sys", "Lookups", "Mallocs", "Frees"),
    *("HeapAlloc", "HeapSys", "HeapIdle", "HeapInuse", "HeapReleased", "HeapObjects"),
    *("StackInuse", "StackSys", "MSpanInuse", "MSpanSys", "MCacheInuse", "MCacheSys"),
    *("BuckHashSys", "GCSys", "OtherSys", "NextGC", "LastGC", "PauseTotalNs"),
)
RECENT_PAUSES = 256


def answer_ipqueuesz(context: Context, query: Query) -> Answer:
    decode_bool(query, "all")
    return Answer([b"{}"])


def answer_raftz(context: Context, query: Query) -> Answer:
    return answer_text(404, NO_RAFT)


def answer_expvarz(context: Context, query: Query) -> Answer:
    variables = make_expvarz()
    lines = [b'"%b": %b' % (name.encode(), encode_value(variables[name])) for name in sorted(variables)]
    return Answer([b"{\n", b",\n".join(lines), b"\n}\n"], EXPVAR_TYPE)


def make_expvarz() -> dict[str, Any]:
    """The command without its arguments, which may have a password in them."""
    known = dict.fromkeys(("Alloc", "Sys", "HeapAlloc", "HeapSys", "HeapInuse"), resident_bytes())
    collections = sum(generation["collections"] for generation in gc.get_stats())
    return {
        "memstats": {
            **dict.fromkeys(COUNTS, 0),
            **known,
            "PauseNs": [0] * RECENT_PAUSES,
            "PauseEnd": [0] * RECENT_PAUSES,
            "NumGC": collections,
            "NumForcedGC": 0,
            "GCCPUFraction": 0,
            "EnableGC": gc.isenabled(),
            "DebugGC": False,
            "BySize": [],
        },
        "cmdline": sys.argv[:1],
    }


def answer_stacksz(context: Context, query: Query) -> Answer:
    return Answer(describe_threads())


def describe_threads() -> Iterator[bytes]:
    """What each thread does at this moment, one per turn."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident in names:
        frame = sys._current_frames().get(ident or 0)
        if frame is not None:
            stack = "".join(traceback.format_stack(frame))
            yield f"{names[ident]}:\n{stack}\n".encode("utf-8", "backslashreplace")
            yield b""
