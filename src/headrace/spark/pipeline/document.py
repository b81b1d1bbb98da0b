"""Reads a YAML file so that every value knows its line.

PyYAML's nodes have line numbers, plain values do not; so the file is read as nodes, and `Node` turns them
into checked values. An error about one is a ConfigError with file, line and column.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from headrace.errors import ConfigError, UsageError

T = TypeVar("T")


@dataclass(frozen=True)
class Node:
    """A value in the file, and access to the values in it."""

    path: str
    value: Any = field(repr=False)
    """A dict of names to nodes, a list of nodes, or a plain value. It may be a secret."""
    line: int
    column: int

    def fail(self, message: str, hint: str = "") -> NoReturn:
        raise ConfigError(message, path=self.path, line=self.line, column=self.column, hint=hint)

    # -- as a value of a certain kind

    def mapping(self, what: str) -> dict[str, Node]:
        if not isinstance(self.value, dict):
            self.fail(f"{what} must be a mapping (`name: value` lines)")
        return self.value

    def items(self, what: str) -> list[Node]:
        if not isinstance(self.value, list):
            self.fail(f"{what} must be a list")
        return self.value

    def text(self, what: str) -> str:
        if isinstance(self.value, (dict, list)) or self.value is None or self.value == "":
            self.fail(f"{what} must be a text")
        return str(self.value)

    def texts(self, what: str) -> list[str]:
        """One text, or a list of them."""
        if isinstance(self.value, list):
            return [node.text(what) for node in self.value]
        return [self.text(what)]

    def number(self, what: str) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int) or self.value < 1:
            self.fail(f"{what} must be a whole number, 1 or more")
        return self.value

    def switch(self, what: str) -> bool:
        if not isinstance(self.value, bool):
            self.fail(f"{what} must be true or false")
        return self.value

    def read(self, what: str, reader: Callable[[str], T]) -> T:
        """Its text, parsed by `reader`, which raises ValueError with what it expected."""
        text = self.text(what)
        try:
            return reader(text)
        except ValueError as error:
            self.fail(f"{what} {error}, not {text!r}")

    def fields(self, what: str, known: Iterable[str]) -> dict[str, Node]:
        """A mapping with known names only."""
        names = list(known)
        found = self.mapping(what)
        for name, node in found.items():
            if name not in names:
                close = difflib.get_close_matches(name, names, n=1)
                hint = f"did you mean `{close[0]}`?" if close else f"it knows {', '.join(names)}"
                node.fail(f"{what} has no setting `{name}`", hint)
        return found


def load(path: str | Path) -> Node:
    """The file as nodes. Raises UsageError if it cannot be read, ConfigError if it is not YAML."""
    try:
        import yaml
    except ImportError:
        raise UsageError(
            "PyYAML is not installed", hint="`pip install 'headrace[spark]'` installs it"
        ) from None
    name = str(path)
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"cannot read {name}: {reason}") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise ConfigError(f"this is not YAML: {error.problem}", path=name, line=line, column=column) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"this is not YAML: {error}", path=name) from None
    if root is None:
        raise ConfigError("the file is empty", path=name, hint="docs/spark.md shows a pipeline")
    return _Reader(name).node(root)


class _Reader:
    """Converts PyYAML's nodes to ours."""

    def __init__(self, path: str) -> None:
        from yaml import SafeLoader

        self._path = path
        self._plain = SafeLoader("")

    def node(self, source: Any) -> Node:
        from yaml import MappingNode, SequenceNode

        value: Any
        if isinstance(source, MappingNode):
            value = dict(self._pairs(source))
        elif isinstance(source, SequenceNode):
            value = [self.node(item) for item in source.value]
        else:
            try:
                value = self._plain.construct_object(source)
            except Exception as error:  # a tag such as !!python/name, or an invalid date
                self._at(source, None).fail(f"this value cannot be used: {error}".splitlines()[0])
        return self._at(source, value)

    def _pairs(self, source: Any) -> Iterator[tuple[str, Node]]:
        seen: set[str] = set()
        for key, value in source.value:
            name = str(key.value)
            if name in seen:
                self._at(key, None).fail(f"`{name}` is given twice")
            seen.add(name)
            node = self.node(value)
            # An error about an entry points at its name.
            mark = key.start_mark
            yield name, Node(self._path, node.value, mark.line + 1, mark.column + 1)

    def _at(self, source: Any, value: Any) -> Node:
        mark = source.start_mark
        return Node(self._path, value, mark.line + 1, mark.column + 1)
