"""A configuration file: any text gives options or ConfigErrors, nothing else, and the same each time.

byte 0    bits: the values are written out as JSON and read again; included files may be there
rest      the text of the file
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from headrace.config.directives import apply_directives
from headrace.config.file_format import parse_text
from headrace.config.options import DEFAULT_OPTIONS
from headrace.config.problems import Problems
from headrace.config.values import Value, digest
from headrace.errors import ConfigError

ENVIRONMENT = {"NAME": "fuzz", "LOOP": "$LOOP", "MAP": "{a: 1, b: [2, 3]}", "BAD": "{"}
DIRECTORY = tempfile.mkdtemp(prefix="headrace-fuzz-")
for name, text in {
    "good.conf": "port: 4333\nx = {y: true}",
    "self.conf": "include self.conf",
    "bad.conf": "{",
}.items():
    with open(os.path.join(DIRECTORY, name), "w") as file:
        file.write(text)
PATH = os.path.join(DIRECTORY, "server.conf")


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Value):
        value = value.plain
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def is_json(value: Any) -> bool:
    """Whether a value can be written as JSON and mean the same here: no dates, and text without escapes."""
    if isinstance(value, dict):
        return all(is_json(key) and key and is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(is_json, value))
    if isinstance(value, str):
        return value.isascii() and value.isprintable() and '"' not in value and "\\" not in value
    return isinstance(value, bool | int)


def check_again(entries: dict[str, Value]) -> None:
    """What is read from the values written as JSON are the same values.

    Each is on a line of its own: `[1]` cannot be read, as in nats-server, where `]` does not end a number.
    """
    values = plain(entries)
    if is_json(values):
        assert plain(parse_text(json.dumps(values, indent=0), PATH, {})) == values


def check(data: bytes) -> None:
    text = data[1:].decode("utf-8", "surrogateescape")
    if ".." in text:
        return  # an included file that is not ours
    try:
        entries = parse_text(text, PATH, ENVIRONMENT)
    except ConfigError as error:
        assert error.message
        str(error)
        return
    problems = Problems()
    options = apply_directives(entries, DEFAULT_OPTIONS, problems)
    for problem in [*problems.errors, *problems.warnings]:
        assert str(problem).startswith(PATH) or problem.path != PATH
    again = parse_text(text, PATH, ENVIRONMENT)
    assert digest(again) == digest(entries)
    if data[:1] and data[0] & 1:
        assert apply_directives(again, DEFAULT_OPTIONS, Problems()) == options
        check_again(entries)
