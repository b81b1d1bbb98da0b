"""Rooms import only downwards. These tests read every import of the package and compare it with tables.

The first table is the picture in ARCHITECTURE.md. `logs` and `errors` are leaves that everyone on the
server's side may use; `server` and `runner` put the rooms together. Two more tables are about the rooms
within `engine` and within `streams`. Compiled sources count, too: their imports are found by their text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "headrace"

LEAVES = {
    "errors",
    "unreadable",
    "go_formats",
    "quantities",
    "sharing",
    "subjects",
    "keys",
    "on_disk",
    "engine",
}
SERVER_ROOMS = ["config", "accounts", "broker", "streams", "http_in", "monitor"]
"""Each may import those before it."""

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "unreadable": set(),
    "go_formats": set(),
    "quantities": {"go_formats"},
    "sharing": set(),
    "engine": set(),
    "on_disk": set(),
    "subjects": {"errors"},
    "keys": {"errors"},
    "logs": {"errors"},
    "process_files": {"errors"},
    "service_manager": set(),
    "http": {"errors", "logs"},
    **{
        room: LEAVES | {"logs", "http"} | set(SERVER_ROOMS[:place]) for place, room in enumerate(SERVER_ROOMS)
    },
    "auth": {"config", "accounts"},
    "server": LEAVES | {"logs", "process_files", "service_manager", "http"} | set(SERVER_ROOMS),
    "runner": LEAVES | {"logs", "server", "service_manager"} | set(SERVER_ROOMS),
    "embedded": LEAVES | {"logs", "server", "runner"} | set(SERVER_ROOMS),
    "client": set(LEAVES),
    "spark": LEAVES | {"client"},
    "bench": LEAVES | {"client"},
    "cli": LEAVES | {"logs", "server", "runner", "client", "spark", "bench"} | set(SERVER_ROOMS),
    "__init__": {"embedded"},  # when it is asked for
    "pytest_plugin": set(),  # the same, through `headrace` itself
    "__main__": {"cli"},
}

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+headrace(?:\.(\w+))?[\w.]*[ \t]+c?import[ \t]+(.+)|c?import[ \t]+headrace\.(\w+))",
    re.MULTILINE,
)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].partition(".")[0]


def imported_rooms(source: str, *, compiled: bool = False) -> set[str]:
    """The rooms of the package that a source imports, wherever the import is."""
    return set(_find_by_text(source) if compiled else _find_by_syntax(source)) - {""}


def _find_by_syntax(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield _room(alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here, so that this test can read them"
            if node.module == "headrace":
                yield from (alias.name for alias in node.names if alias.name in MAY_IMPORT)
            else:
                yield _room(node.module or "")


def _room(module: str) -> str:
    package, _, rest = module.partition(".")
    return rest.partition(".")[0] if package == "headrace" else ""


def _find_by_text(source: str) -> Iterator[str]:
    for room, names, imported in _IMPORT.findall(source):
        yield room or imported
        if not room and not imported:
            yield from (name for name in re.findall(r"\w+", names) if name in MAY_IMPORT)


SOURCES = sorted(path for ending in ("py", "pyi", "pyx", "pxd") for path in PACKAGE.rglob(f"*.{ending}"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_what_lies_below_it(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} is a new room: give it a place in the table and in ARCHITECTURE.md"
    compiled = path.suffix in (".pyx", ".pxd")
    forbidden = imported_rooms(path.read_text(), compiled=compiled) - MAY_IMPORT[room] - {room}
    assert not forbidden, f"{room} must not import {sorted(forbidden)}"


def test_every_room_was_looked_at() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {"engine", "config", "accounts", "broker", "monitor", "cli"} <= folders
    assert folders <= {room_of(path) for path in SOURCES}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("source", "rooms"),
    [
        ("import os\nfrom nats import errors", set()),
        ("from headrace import __version__", set()),
        ("from headrace import broker", {"broker"}),
        ("from headrace.broker import connection", {"broker"}),
        ("from headrace.broker.broker import Broker", {"broker"}),
        ("import headrace.config.options", {"config"}),
        ("def late():\n    from headrace.server import Server", {"server"}),
        ("if TYPE_CHECKING:\n    from headrace.logs import Logger", {"logs"}),
    ],
)
def test_imports_are_found(source: str, rooms: set[str], compiled: bool) -> None:
    assert imported_rooms(source, compiled=compiled) == rooms


def test_cimports_are_found() -> None:
    source = "from headrace.engine.core.routes cimport Group\ncimport headrace.broker.x"
    assert imported_rooms(source, compiled=True) == {"engine", "broker"}


# -- within the engine

ENGINE_MAY_IMPORT: dict[str, set[str]] = {
    "basics": {"basics"},
    "core": {"basics", "core"},
    "transports": {"basics", "core", "transports"},
    "segments": {"basics", "segments"},
    "store": {"basics", "segments", "store"},
    "streams": {"basics", "core", "segments", "store", "streams"},
}

_ENGINE_MODULE = re.compile(
    r"^[ \t]*(?:from|cimport|import)[ \t]+headrace\.engine\.(\w+)\.(\w+)", re.MULTILINE
)

ENGINE = PACKAGE / "engine"
ENGINE_SOURCES = [path for path in SOURCES if path.is_relative_to(ENGINE) and path.parent != ENGINE]


@pytest.mark.parametrize("path", ENGINE_SOURCES, ids=lambda path: str(path.relative_to(ENGINE)))
def test_the_store_knows_no_connection_and_the_core_no_store(path: Path) -> None:
    imported = _ENGINE_MODULE.findall(path.read_text())
    allowed = ENGINE_MAY_IMPORT[path.parent.name]
    assert not {f"{room}.{name}" for room, name in imported if room not in allowed}


CORE_PARTS = (
    *(
        "grammar",
        "message",
        "transport",
        "last_resort",
        "permissions",
        "trie",
        "routes",
        "mappings",
        "interest",
    ),
    *("link", "pieces", "flush_threads", "tick", "slow_consumers", "outboxes", "publishers"),
    *("deliveries", "traced_deliveries", "no_responders"),
    *("parser", "reader", "pace", "hub", "sinks"),
)
"""The parts of the data plane; each may use those before it."""

CORE = ENGINE / "core"
CORE_SOURCES = [path for path in ENGINE_SOURCES if path.parent == CORE and path.name != "__init__.py"]


@pytest.mark.parametrize("path", CORE_SOURCES, ids=lambda path: path.name)
def test_a_part_of_the_core_uses_only_those_before_it(path: Path) -> None:
    modules = _ENGINE_MODULE.findall(path.read_text())
    imported = {name for room, name in modules if room == "core"} - {path.stem}
    assert imported <= set(CORE_PARTS[: CORE_PARTS.index(path.stem)])


# -- within streams

# Parts from the bottom to the top. A module that is not named is in the part of its folder; those that lie
# directly in streams/ are the base.
PART_OF_MODULE = {
    "api.advisories": "answers",
    "api.direct_get": "answers",
    "api.json_requests": "answers",
    "api.message_lookup": "answers",
    "api.stream_info": "answers",
    "api.routes": "routes",
    "ingest.publication": "publication",
    "ingest.ttl": "publication",
    "delete_markers": "message_ttl",
    "message_ttl": "message_ttl",
    "stream_rules": "stream",
    "retention": "stream",
    "stream": "stream",
    "jetstream_account": "jetstream",
    "jetstream": "jetstream",
}

STREAMS_MAY_IMPORT: dict[str, set[str]] = {
    "base": set(),
    "answers": {"base"},
    "publication": {"base"},
    "message_ttl": {"base", "publication"},
    "origins": {"base", "publication"},
    "consumers": {"base", "answers"},
    "ingest": {"base", "publication", "message_ttl", "origins"},
    "stream": {"base", "answers", "publication", "message_ttl", "origins", "consumers", "ingest"},
    "api": {"base", "answers", "origins", "consumers", "stream"},
    "backup": {"base", "answers", "consumers", "stream", "api"},
    "routes": {"base", "api", "backup"},
    "jetstream": {"base", "answers", "consumers", "stream", "api", "backup", "routes"},
}

STREAMS_MAY_NAME: dict[str, set[str]] = {
    # for type checkers only: a part that is given its owner names the owner's class
    "base": {"stream"},
    "origins": {"stream", "ingest"},
    "consumers": {"stream", "jetstream"},
    "ingest": {"stream"},
    "stream": {"jetstream"},
    "api": {"jetstream"},
    "backup": {"jetstream"},
    "routes": {"jetstream"},
}

STREAMS = PACKAGE / "streams"
STREAM_SOURCES = {
    ".".join(path.relative_to(STREAMS).with_suffix("").parts): path
    for path in SOURCES
    if path.is_relative_to(STREAMS) and path.name != "__init__.py"
}


def part_of(module: str) -> str:
    folder, separator, _ = module.partition(".")
    return PART_OF_MODULE.get(module, folder if separator else "base")


def imported_parts(source: str) -> tuple[set[str], set[str]]:
    """The parts of streams that a source imports, and those that it imports for type checkers only."""
    tree = ast.parse(source)
    for_types = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in block.body
    }
    parts: tuple[set[str], set[str]] = (set(), set())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            parts[node in for_types].update(part_of(module) for module in _stream_modules(node))
    return parts


def _stream_modules(node: ast.ImportFrom) -> Iterator[str]:
    package = "headrace.streams"
    if node.module is None or not f"{node.module}.".startswith(f"{package}."):
        return
    module = node.module.removeprefix(package).removeprefix(".")
    if module in STREAM_SOURCES:
        yield module
    else:  # a folder, of which modules are imported
        yield from (f"{module}.{alias.name}".removeprefix(".") for alias in node.names)


@pytest.mark.parametrize("module", STREAM_SOURCES)
def test_a_part_of_streams_imports_only_what_lies_below_it(module: str) -> None:
    part = part_of(module)
    imported, named = imported_parts(STREAM_SOURCES[module].read_text())
    assert imported <= STREAMS_MAY_IMPORT[part] | {part}
    assert named <= STREAMS_MAY_IMPORT[part] | STREAMS_MAY_NAME.get(part, set()) | {part}


def test_the_parts_of_streams_have_no_cycle() -> None:
    below: set[str] = set()
    for part, imported in STREAMS_MAY_IMPORT.items():
        assert imported <= below, f"{part} imports what comes after it in the table"
        below.add(part)


def test_the_tables_name_modules_that_exist() -> None:
    assert set(PART_OF_MODULE) <= set(STREAM_SOURCES)
    assert {part_of(module) for module in STREAM_SOURCES} == set(STREAMS_MAY_IMPORT)
    assert {path.parent.name for path in ENGINE_SOURCES} == set(ENGINE_MAY_IMPORT)
    assert {path.stem for path in CORE_SOURCES} == set(CORE_PARTS)


def test_imports_of_parts_are_found() -> None:
    source = (
        "from headrace.streams import headers, stream\n"
        "from headrace.streams.ingest import ttl\n"
        "from headrace.streams.consumers.push import PushDelivery\n"
        "if TYPE_CHECKING:\n    from headrace.streams.jetstream import JetStream\n"
    )
    assert imported_parts(source) == ({"base", "stream", "publication", "consumers"}, {"jetstream"})
