"""From keyword arguments to options.

A keyword is a directive of the configuration file (`authorization={"token": "s3cret"}`, `ping_interval="2s"`)
or an option with a plain value (`token="s3cret"`, `max_payload=1000`). The order is that of a command line:
defaults, then `config`, then keywords.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

import msgspec

from headrace.config.directives import DIRECTIVES, apply_directives
from headrace.config.file_format import parse_text
from headrace.config.load import load_file
from headrace.config.options import ANY_FREE_PORT, Options, check_options, with_defaults_for_zero
from headrace.config.problems import ConfigFileError, Problems
from headrace.config.unsupported import UNSUPPORTED_DIRECTIVES
from headrace.config.values import Plain, Value
from headrace.errors import ConfigError, UsageError

Config = str | os.PathLike[str] | Mapping[str, Any]

LOOPBACK = "127.0.0.1"
DEFAULTS = Options(host=LOOPBACK, port=ANY_FREE_PORT, jetstream=True, no_sigs=True)
NOT_FOR_PROGRAMS = frozenset({"no_sigs", "config_path", "config_digest", "has_authorization", "pid_file"})
"""Signals and process files belong to the program. The others are not options, but how they were read."""
SYNONYMS = {"user": "username", "store": "store_dir", "max_conn": "max_connections", "name": "server_name"}
TEXT_MARKS = "\n{:="

_PLAIN_TYPES = (bool, int, float, str)
_PLAIN_OPTIONS: dict[str, type] = {
    name: kind
    for name, kind in get_type_hints(Options).items()
    if kind in _PLAIN_TYPES and name not in NOT_FOR_PROGRAMS
}
_DIRECTIVES = DIRECTIVES.keys() - UNSUPPORTED_DIRECTIVES.keys() - NOT_FOR_PROGRAMS - {"pidfile"}
KEYWORDS = frozenset(_PLAIN_OPTIONS) | _DIRECTIVES | SYNONYMS.keys() | {"users"}


def make_options(config: Config | None, keywords: Mapping[str, Any]) -> Options:
    """Raises UsageError for a keyword that does not exist, ConfigError for a value that is wrong."""
    options = DEFAULTS if config is None else _read_config(config)
    plain: dict[str, Any] = {}
    directives: dict[str, Value] = {}
    for name, value in keywords.items():
        if name not in KEYWORDS:
            raise _unknown(name)
        name = SYNONYMS.get(name, name)
        if name == "users":
            directives["authorization"] = _as_value({"users": value}, name)
        elif name in _PLAIN_OPTIONS and _is_plain(value, _PLAIN_OPTIONS[name]):
            plain[name] = _PLAIN_OPTIONS[name](value)
        elif name in _DIRECTIVES:
            directives[name] = _as_value(value, name)
        else:
            kind, given = _PLAIN_OPTIONS[name].__name__, type(value).__name__
            raise UsageError(f"Server({name}=...) takes {kind}, not {given}")
    options = msgspec.structs.replace(_apply(directives, options), **plain)
    options = with_defaults_for_zero(options, DEFAULTS)
    check_options(options)
    return options


def _unknown(name: str) -> UsageError:
    near = difflib.get_close_matches(name, KEYWORDS, n=1)
    hint = f"did you mean {near[0]}?" if near else "docs/configuration.md lists all directives"
    return UsageError(f"Server has no option {name}", hint=hint)


def _is_plain(value: object, kind: type) -> bool:
    """Whether it is what the option holds; a directive may accept other forms, such as `"2s"`."""
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind


def _read_config(config: Config) -> Options:
    if isinstance(config, Mapping):
        return _apply({name: _as_value(value, name) for name, value in config.items()}, DEFAULTS)
    if isinstance(config, str) and any(mark in config for mark in TEXT_MARKS):
        return _apply(parse_text(config, "config"), DEFAULTS)
    return load_file(os.fspath(config), DEFAULTS).options


def _apply(entries: dict[str, Value], options: Options) -> Options:
    problems = Problems()
    changed = apply_directives(entries, options, problems)
    if problems.errors:
        raise ConfigFileError([*problems.errors])
    return changed


def _as_value(given: object, name: str) -> Value:
    """As the parser of the file would have made it. An error names the keyword instead of a line."""
    return Value(_as_plain(given, name), f"Server({name}=...)", 0, 0)


def _as_plain(given: object, name: str) -> Plain:
    if isinstance(given, _PLAIN_TYPES):
        return given
    if isinstance(given, os.PathLike):
        return str(os.fspath(given))
    if isinstance(given, Mapping):
        return {str(key): _as_value(value, name) for key, value in given.items()}
    if isinstance(given, Iterable):
        return [_as_value(value, name) for value in given]
    raise ConfigError(f"a configuration cannot hold {type(given).__name__}", path=f"Server({name}=...)")
