"""From a command line to options: defaults, then the configuration file, then the flags.

A reload calls `load_options` again with the same command line.
"""

from __future__ import annotations

import msgspec

from headrace.config.directives import apply_directives
from headrace.config.file_format import parse_file
from headrace.config.flags import PROGRAM, CommandLine
from headrace.config.options import DEFAULT_OPTIONS, Options, with_defaults_for_zero
from headrace.config.problems import ConfigFileError, Problems
from headrace.config.values import digest
from headrace.errors import ConfigError


class Loaded(msgspec.Struct, frozen=True):
    """Options, and warnings to print to stderr before the server starts."""

    options: Options
    warnings: tuple[str, ...] = ()


def load_file(path: str, base: Options = DEFAULT_OPTIONS) -> Loaded:
    """`base` changed by a configuration file. Raises ConfigError with all errors in it."""
    options, problems = _read(path, base)
    if problems.errors:
        raise ConfigFileError([*problems.warnings, *problems.errors])
    return Loaded(options, tuple(str(warning) for warning in problems.warnings))


def load_options(command: CommandLine, base: Options = DEFAULT_OPTIONS) -> Loaded:
    """The options that a command line asks for. Raises ConfigError. See also options.check_options."""
    loaded = load_file(command.config_path, base) if command.config_path else Loaded(base)
    options = msgspec.structs.replace(loaded.options, **command.changes)
    return Loaded(with_defaults_for_zero(options, base), loaded.warnings)


def check_configuration(command: CommandLine) -> str:
    """For `-t`: the line that says that the file is valid. Raises ConfigError also for warnings, as
    nats-server does.

    Options that contradict each other are not checked here, again as in nats-server.
    """
    options, problems = _read(command.config_path, DEFAULT_OPTIONS)
    if problems.errors or problems.warnings:
        raise ConfigFileError([*problems.warnings, *problems.errors])
    return f"{PROGRAM}: configuration file {command.config_path} is valid ({options.config_digest})"


def _read(path: str, base: Options) -> tuple[Options, Problems]:
    entries = parse_file(path)
    problems = Problems()
    if not entries:
        problems.warnings.append(ConfigError("config has no values or is empty", path=path))
    options = apply_directives(entries, base, problems)
    return msgspec.structs.replace(options, config_path=path, config_digest=digest(entries)), problems
