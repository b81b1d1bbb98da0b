"""Message tracing: the same traced messages at nats-server and at headrace, and the same traces of them.

A trace is what became of a message: who got it, who did not and why, what it was mapped to, where it is
stored. Names, times and numbers that differ between any two runs are masked, and receivers come in any order.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.frames import Frame
from tests.monitor.system.peer import PATIENCE_SECONDS, Peer
from tests.monitor.system.trace_scenes import SCENES
from tests.monitor.system.trace_stage import CONFIG, Scene, Stage
from tests.servers import Server, ServerKind, running_server

UNTRUE_HERE = {"feature_flags", "flags"}
MASKED = {"ts", "id", "seq", "time"}
WATCHED = {"ann": "t.x", "tom": "traces", "sue": "t.x"}
Played = tuple[list[Any], dict[str, list[str]]]


def mask(value: Any, place: str = "") -> Any:
    if isinstance(value, dict):
        return {
            name: "…" if name in MASKED else mask(one, name)
            for name, one in value.items()
            if name not in UNTRUE_HERE
        }
    if isinstance(value, list):
        return [mask(one) for one in value]
    if isinstance(value, str):
        return re.sub(r"_R_\.[\w.]+", "_R_", value)
    return "…" if place == "cid" and value else value


def traces_of(frames: list[Frame]) -> list[Any]:
    """The ingress stays first; where it went may come in any order."""
    found = []
    for frame in frames:
        is_compressed = b"Content-Encoding: gzip" in frame.headers
        trace = mask(json.loads(gzip.decompress(frame.payload) if is_compressed else frame.payload))
        trace["headers"] = frame.headers
        first, *others = trace["events"]
        trace["events"] = [first, *sorted(others, key=json.dumps)]
        found.append(trace)
    return found


def play(server: Server, scene: Scene) -> Played:
    """The traces, and what the clients of the scene heard.

    nats-server publishes traces and acknowledgements in goroutines of their own: they are waited for.
    """
    with ExitStack() as stack, Stage(server) as stage:
        watchers = []
        for user, subject in WATCHED.items():
            watcher = stack.enter_context(Peer(server, user=user, **{"pass": "pw"}))
            watcher.send(f"SUB {subject} 1\r\n".encode())
            watcher.sync()
            watchers.append(watcher)
        scene.play(stage)
        found: list[Any] = []
        ends = time.monotonic() + PATIENCE_SECONDS
        while True:
            is_complete = stage.settle() >= scene.messages and len(found) >= scene.traces
            found += [trace for watcher in watchers for trace in traces_of(watcher.heard())]
            if is_complete or time.monotonic() > ends:
                break
        ann = stack.enter_context(Peer(server, user="ann", **{"pass": "pw"}))
        ann.send(b"SUB done 1\r\nPUB $JS.API.STREAM.DELETE.STREAM done 0\r\n\r\n")
        ann.messages(1)
        return found, {name: sorted(lines) for name, lines in stage.heard.items()}


def play_all(kind: ServerKind, store: str) -> dict[str, Played]:
    with running_server(kind, CONFIG.replace("STORE", store)) as server:
        return {name: play(server, scene) for name, scene in SCENES.items()}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[ServerKind, dict[str, Played]]:
    kinds: tuple[ServerKind, ServerKind] = ("nats-server", "headrace")
    stores = [str(tmp_path_factory.mktemp(kind)) for kind in kinds]
    with ThreadPoolExecutor() as players:
        return dict(zip(kinds, players.map(play_all, kinds, stores), strict=True))


@pytest.mark.parametrize("name", SCENES)
def test_trace(name: str, played: dict[ServerKind, dict[str, Played]]) -> None:
    (traces, heard), (their_traces, they_heard) = played["headrace"][name], played["nats-server"][name]
    assert len(their_traces) == SCENES[name].traces
    assert traces == their_traces
    assert heard == they_heard
