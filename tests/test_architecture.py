"""Rooms import only downwards. This test reads every import of the package and holds it against one table.

The table is the picture in ARCHITECTURE.md. `logs` and `errors` are leaves that everyone on the server's side
may use; `server` and `runner` put the rooms together. Compiled sources count, too: their imports are found by
their text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "headrace"

LEAVES = {"errors", "unreadable", "go_formats", "subjects", "engine"}
SERVER_ROOMS = ["config", "accounts", "broker", "streams", "monitor"]  # each may import those before it

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "unreadable": set(),
    "go_formats": set(),
    "engine": set(),
    "subjects": {"errors"},
    "logs": {"errors"},
    "process_files": {"errors"},
    **{room: LEAVES | {"logs"} | set(SERVER_ROOMS[:place]) for place, room in enumerate(SERVER_ROOMS)},
    "server": LEAVES | {"logs", "process_files"} | set(SERVER_ROOMS),
    "runner": LEAVES | {"logs", "server"} | set(SERVER_ROOMS),
    "client": set(LEAVES),
    "spark": LEAVES | {"client"},
    "bench": LEAVES | {"client"},
    "cli": LEAVES | {"logs", "server", "runner", "client", "spark", "bench"} | set(SERVER_ROOMS),
    "__init__": set(),
    "__main__": {"cli"},
}

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+headrace(?:\.(\w+))?[\w.]*[ \t]+c?import[ \t]+(.+)|c?import[ \t]+headrace\.(\w+))",
    re.MULTILINE,
)


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].partition(".")[0]


def imported_rooms(source: str, *, compiled: bool = False) -> set[str]:
    """The rooms of the package that a source imports, wherever in it the import stands."""
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
        ("if TYPE_CHECKING:\n    from headrace.logs import Log", {"logs"}),
    ],
)
def test_imports_are_found(source: str, rooms: set[str], compiled: bool) -> None:
    assert imported_rooms(source, compiled=compiled) == rooms


def test_cimports_are_found() -> None:
    source = "from headrace.engine.core.interest cimport Group\ncimport headrace.broker.x"
    assert imported_rooms(source, compiled=True) == {"engine", "broker"}
