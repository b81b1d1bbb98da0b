"""From a command line to options: defaults, then the configuration file, then the flags.

A reload calls `load_options` again with the same command line.
"""

from __future__ import annotations

import msgspec

from headrace.config.directives import apply_directives
from headrace.config.file_format import parse_file
from headrace.config.flags import PROGRAM, CommandLine, TlsFlags
from headrace.config.operators.checks import check_signers
from headrace.config.options import DEFAULT_OPTIONS, Options, check_callout_accounts, with_defaults_for_zero
from headrace.config.problems import ConfigFileError, Problems
from headrace.config.tls.context import with_files
from headrace.config.tls.settings import CertificateFiles, TlsSettings
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
    if command.tls is not None:
        options = msgspec.structs.replace(options, tls=override_tls(options.tls, command.tls))
    return Loaded(with_defaults_for_zero(options, base), loaded.warnings)


def override_tls(settings: TlsSettings | None, flags: TlsFlags) -> TlsSettings | None:
    """The files and the verification are those of the flags; the rest stays as the file has it."""
    if not flags.enabled:
        return None
    if not flags.certificate:
        raise ConfigError("TLS Server certificate must be present and valid (give it with --tlscert)")
    if not flags.key:
        raise ConfigError("TLS Server private key must be present and valid (give it with --tlskey)")
    return with_files(
        msgspec.structs.replace(
            settings or TlsSettings(),
            certificates=(CertificateFiles(flags.certificate, flags.key),),
            ca_file=flags.ca_file,
            verify=flags.verify,
        )
    )


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
    with problems.collecting():
        check_callout_accounts(options)
    with problems.collecting():
        check_signers(options.trust, path=path)
    return msgspec.structs.replace(options, config_path=path, config_digest=digest(entries)), problems
