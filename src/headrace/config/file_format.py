"""Parses nats-server's configuration file format into values that know their line and column.

The format is a relaxed JSON: `:`, `=` or nothing between key and value; commas, semicolons or new lines
between entries; braces around the whole file or not; comments; references to earlier keys and to the
environment; `include`. scanner.py reads the words; this file handles the nesting.

Nesting is a stack of frames, not recursion, so the depth that a file can reach is a number we choose. There
are four kinds of frame:

    TOP      the file itself
    BLOCK    braces at the top level, with no key: `{ port: 4222 }`; its keys belong to the file (JSON)
    MAP      the value `{ ... }`
    ARRAY    the value `[ ... ]`

Each turn of the loop reads one entry of the innermost frame: skip spaces and comments, close the frame or
read a key, read a value, check what follows it. Two quirks of nats-server are kept because existing files
depend on them: the closing brace of the outermost block may be missing, and one stray `}` may end the
file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from headrace.config.scanner import NEW_LINES, SPACES_AND_TABS, Reference, Scanner
from headrace.config.values import Plain, Value
from headrace.errors import ConfigError

MAX_DEPTH = 200
MAX_INCLUDE_DEPTH = 20
MAX_FILE_BYTES = 64 * 1024 * 1024


class _Kind(Enum):
    TOP = "top-level"
    BLOCK = "block-level"
    MAP = "map"
    ARRAY = "array"


@dataclass(slots=True)
class _Frame:
    kind: _Kind
    map: dict[str, Value]
    array: list[Value]
    key: str = ""
    key_position: int = 0
    start: int = 0


def parse_file(path: str, environment: Mapping[str, str] | None = None) -> dict[str, Value]:
    """The top-level entries of a file. Raises ConfigError, also if the file cannot be read."""
    return _parse_file(path, os.environ if environment is None else environment, ())


def parse_text(text: str, path: str = "", environment: Mapping[str, str] | None = None) -> dict[str, Value]:
    """The top-level entries of a text. `path` is for messages and for finding included files."""
    return _Parser(text, path, os.environ if environment is None else environment, (), frozenset()).run()


def _parse_file(path: str, environment: Mapping[str, str], included_by: tuple[str, ...]) -> dict[str, Value]:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        action = "read" if isinstance(error, IsADirectoryError) else "open"
        raise ConfigError(f"{action} {path}: {(error.strerror or str(error)).lower()}") from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"read {path}: file too large")
    text = content.decode("utf-8", "surrogateescape")
    return _Parser(text, path, environment, (*included_by, os.path.realpath(path)), frozenset()).run()


class _Parser:
    def __init__(
        self,
        text: str,
        path: str,
        environment: Mapping[str, str],
        open_files: tuple[str, ...],
        open_references: frozenset[str],
    ) -> None:
        self._scanner = Scanner(text, path)
        self._path = path
        self._environment = environment
        self._open_files = open_files
        self._open_references = open_references
        self._root: dict[str, Value] = {}
        self._frames = [_Frame(_Kind.TOP, self._root, [])]

    def run(self) -> dict[str, Value]:
        while self._frames:
            frame = self._frames[-1]
            if frame.kind is _Kind.ARRAY:
                self._array_entry(frame)
            elif frame.kind is _Kind.MAP:
                self._map_entry(frame)
            else:
                self._top_entry(frame)
        return self._root

    # One entry of each kind of frame

    def _array_entry(self, frame: _Frame) -> None:
        scanner = self._scanner
        scanner.skip_spaces_and_comments()
        if scanner.peek() == "]":
            self._close()
        elif scanner.peek() in (",", ""):
            raise scanner.parse_error(f"Unexpected array value terminator '{scanner.peek_name()}'.")
        else:
            frame.key_position = scanner.position
            self._value(frame)

    def _map_entry(self, frame: _Frame) -> None:
        scanner = self._scanner
        scanner.skip_spaces_and_comments()
        if scanner.peek() == "}":
            self._close()
            return
        if scanner.peek() in ("]", ""):
            raise scanner.parse_error(f"Unexpected '{scanner.peek_name()}' processing map.")
        frame.key, frame.key_position, is_include = scanner.key()
        if is_include:
            self._include(frame)
            return
        scanner.skip_key_separator()
        scanner.skip_spaces()  # in a map the value may be on the next line, at the top level it may not
        if scanner.peek() in (",", "}"):
            raise scanner.parse_error(f"Unexpected map value terminator '{scanner.peek()}'.")
        self._value(frame)

    def _top_entry(self, frame: _Frame) -> None:
        scanner = self._scanner
        scanner.skip_spaces_and_comments()
        character = scanner.peek()
        if not character:
            self._frames.clear()
        elif character == "{":
            scanner.position += 1
            self._push(_Frame(_Kind.BLOCK, self._root, []))
        elif character == "}" and frame.kind is _Kind.BLOCK:
            self._close()
        else:
            self._top_key(frame)

    def _top_key(self, frame: _Frame) -> None:
        scanner = self._scanner
        frame.key, frame.key_position, is_include = scanner.key()
        if is_include:
            self._include(frame)
            return
        has_separator = scanner.skip_key_separator()
        if scanner.at_end() and not has_separator:
            if frame.key != "}":
                raise scanner.parse_error("config is invalid: a key without a value")
            self._frames.clear()
            return
        self._value(frame)

    # Values

    def _value(self, frame: _Frame) -> None:
        scanner = self._scanner
        scanner.skip_blanks()
        character = scanner.peek()
        if character in ("[", "{"):
            kind = _Kind.ARRAY if character == "[" else _Kind.MAP
            self._push(_Frame(kind, {}, [], start=scanner.position))
            scanner.position += 1
            return
        scalar = scanner.scalar()
        self._store(frame, self._resolve(scalar.name) if isinstance(scalar, Reference) else scalar)
        self._after_value(frame)

    def _push(self, frame: _Frame) -> None:
        if len(self._frames) > MAX_DEPTH:
            raise self._scanner.parse_error(f"nested more than {MAX_DEPTH} levels deep")
        self._frames.append(frame)

    def _close(self) -> None:
        """Consumes the closing bracket and adds the finished frame to the one around it."""
        self._scanner.position += 1
        closed = self._frames.pop()
        frame = self._frames[-1]
        if closed.kind is not _Kind.BLOCK:
            self._store(frame, closed.map if closed.kind is _Kind.MAP else closed.array)
            self._after_value(frame)
        elif frame.kind is _Kind.BLOCK:
            self._after_inner_block()

    def _after_inner_block(self) -> None:
        """Unlike after a value, a new line alone is not enough after a block in a block."""
        scanner = self._scanner
        scanner.skip_spaces()
        if not scanner.skip_comment() and scanner.peek() != "}":
            if scanner.peek() not in (",", ";"):
                raise scanner.parse_error(
                    f"Expected a block to end with a '}}', but got '{scanner.peek_name()}' instead."
                )
            scanner.position += 1

    def _store(self, frame: _Frame, plain: Plain) -> None:
        line, column = self._scanner.place(frame.key_position)
        value = Value(plain, self._path, line, column)
        if frame.kind is _Kind.ARRAY:
            frame.array.append(value)
        else:
            frame.map[frame.key] = value

    def _after_value(self, frame: _Frame) -> None:
        """What may follow a value:

        a separator, a comment, or the end of the frame (left for the next turn).
        """
        scanner = self._scanner
        while True:
            character = scanner.peek()
            if character and character in SPACES_AND_TABS:
                scanner.position += 1
            elif character in ("#", "/"):
                scanner.skip_comment()
            elif character and (character in NEW_LINES or character in _SEPARATORS[frame.kind]):
                scanner.position += 1
                return
            elif character == _CLOSERS[frame.kind]:
                return
            else:
                raise scanner.parse_error(
                    f"Expected a {frame.kind.value} value to end with a new line, comment or EOF, "
                    f"but got '{scanner.peek_name()}' instead."
                )

    # References and includes

    def _resolve(self, name: str) -> Plain:
        """The value of `$name`: from the maps around it, innermost first, then from the environment."""
        for frame in reversed(self._frames):
            if frame.kind is not _Kind.ARRAY and name in frame.map:
                frame.map[name].used_as_variable = True
                return frame.map[name].plain
        if name in self._open_references:
            raise self._reference_error(name, f"could not be parsed: variable reference cycle for '{name}'")
        if name not in self._environment:
            raise self._reference_error(name, "can not be found")
        references = self._open_references | {name}
        try:
            inner = _Parser(
                f"pk={self._environment[name]}", self._path, self._environment, self._open_files, references
            )
            found = inner.run()
        except ConfigError as error:
            raise self._reference_error(name, f"could not be parsed: {error.message}") from None
        if "pk" not in found:
            raise self._reference_error(name, "can not be found")
        return found["pk"].plain

    def _reference_error(self, name: str, reason: str) -> ConfigError:
        line, column = self._scanner.place(self._scanner.position)
        message = f"variable reference for '{name}' on line {line} {reason}"
        return ConfigError(message, path=self._path, line=line, column=column)

    def _include(self, frame: _Frame) -> None:
        """Reads another file's entries into this frame. Its path is relative to the file that includes it."""
        name = self._scanner.include_path()
        path = os.path.normpath(os.path.join(os.path.dirname(self._path) or ".", name.lstrip("/")))
        if os.path.realpath(path) in self._open_files:
            raise self._scanner.parse_error(f"include file '{name}' includes itself")
        if len(self._open_files) >= MAX_INCLUDE_DEPTH:
            raise self._scanner.parse_error(
                f"include files are nested more than {MAX_INCLUDE_DEPTH} levels deep"
            )
        try:
            frame.map.update(_parse_file(path, self._environment, self._open_files))
        except ConfigError as error:
            message = f"error parsing include file '{name}', {error.message}"
            raise ConfigError(message, path=error.path, line=error.line, column=error.column) from None
        self._after_value(frame)


_SEPARATORS = {_Kind.TOP: ";,}", _Kind.BLOCK: ";,", _Kind.MAP: ";,", _Kind.ARRAY: ","}
# The character at which a frame ends and which the next turn must see; the file itself ends where the text
# ends.
_CLOSERS = {_Kind.TOP: "", _Kind.BLOCK: "}", _Kind.MAP: "}", _Kind.ARRAY: "]"}
