"""The command line of the drop-in executable: nats-server's flags, parsed the way Go's flag package does.

One dash or two; `-p 4222`, `-p=4222`; a switch has a value only with `=` (`-D=false`); `--` and the first
word that is not a flag end the flags; the last of two equal flags counts. Flags override the file.

What nats-server 2.15.1 does with a wrong command line, found by running it:

    -nosuch, -p x, -p, ---p    one line on stderr, the usage on stdout, exit code 0 (sic): FlagError
    stray                      `nats-server: unrecognized command: "stray"` on stderr, exit code 1: UsageError
    version, -v, --version     `nats-server: v2.15.1 (headrace …)` on stdout, exit code 0
    help, -h, --help           the usage on stdout, exit code 0
    -t -c good.conf            `nats-server: configuration file good.conf is valid (sha256:...)`, exit code 0
    -t -c bad.conf             `nats-server: ` and the errors and warnings, one per line, exit code 1
    -t                         `nats-server: must specify [-c, --config] option ...`, exit code 1

With -t everything is on stderr.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from headrace import __version__
from headrace.config.options import NATS_VERSION
from headrace.config.unsupported import UNSUPPORTED_FLAGS, unsupported_message
from headrace.errors import UsageError
from headrace.go_formats import quote

PROGRAM = "nats-server"
FLAG_ERROR_EXIT_CODE = 0
"""nats-server's usage function ends the process with 0, also after a wrong flag."""

FlagValue = bool | int | str
Action = Literal["serve", "version", "help", "check", "signal"]


class FlagError(UsageError):
    """A wrong flag. Print the message to stderr and the usage to stdout, exit with FLAG_ERROR_EXIT_CODE."""


class Flag(msgspec.Struct, frozen=True):
    """One flag under all its names. `option` is the option that it sets; empty for those handled by name."""

    names: tuple[str, ...]
    kind: type[bool] | type[int] | type[str]
    option: str
    help: str


class TlsFlags(msgspec.Struct, frozen=True):
    """What the flags that begin with `tls` say. They override the files of a `tls` block."""

    enabled: bool = True
    certificate: str = ""
    key: str = ""
    ca_file: str = ""
    verify: bool = False


class CommandLine(msgspec.Struct, frozen=True):
    """A parsed command line.

    `changes` are the options that flags set; keep it to apply them again on a reload.
    """

    action: Action = "serve"
    config_path: str = ""
    signal: str = ""
    changes: dict[str, FlagValue] = {}
    tls: TlsFlags | None = None

    def __repr__(self) -> str:
        # Names only: a password must not reach a log by way of a repr.
        return f"CommandLine({self.action!r}, {self.config_path!r}, changes={sorted(self.changes)})"


FLAGS: tuple[Flag, ...] = (
    Flag(("a", "addr", "net"), str, "host", "host address to listen on (default 0.0.0.0)"),
    Flag(("p", "port"), int, "port", "port for clients; -1 takes any free one (default 4222)"),
    Flag(("n", "name", "server_name"), str, "server_name", "server name (default: the server's id)"),
    Flag(("P", "pid"), str, "pid_file", "write the process id to this file"),
    Flag(("m", "http_port"), int, "http_port", "port for HTTP monitoring; -1 takes any free one"),
    Flag(("ms", "https_port"), int, "https_port", "port for HTTPS monitoring; -1 takes any free one"),
    Flag(("c", "config"), str, "", "configuration file"),
    Flag(("t",), bool, "", "check the configuration file and exit"),
    Flag(("sl", "signal"), str, "", "SIGNAL=PID: send ldm, stop, quit, term, reopen or reload to a server"),
    Flag(("client_advertise",), str, "client_advertise", "host:port advertised to clients"),
    Flag(("ports_file_dir",), str, "ports_file_dir", "directory for a file that lists the ports in use"),
    Flag(("l", "log"), str, "log_file", "log to this file instead of stderr"),
    Flag(("T", "logtime"), bool, "logtime", "time in log lines (default true)"),
    Flag(("logtime_utc",), bool, "logtime_utc", "times in UTC instead of local time"),
    Flag(("log_size_limit",), int, "log_size_limit", "rotate the log file at this size in bytes"),
    Flag(("D", "debug"), bool, "debug", "debug output"),
    Flag(("V", "trace"), bool, "trace", "trace the protocol"),
    Flag(("DV",), bool, "", "debug and trace"),
    Flag(("VV",), bool, "", "trace, with the system account"),
    Flag(("DVV",), bool, "", "debug and trace, with the system account"),
    Flag(("max_traced_msg_len",), int, "max_traced_msg_len", "cut traced messages at this length (0: never)"),
    Flag(("user",), str, "username", "user that clients must give"),
    Flag(("pass",), str, "password", "password that clients must give"),
    Flag(("auth",), str, "token", "token that clients must give"),
    Flag(("tls",), bool, "", "TLS for clients; -tls=false turns it off"),
    Flag(("tlsverify",), bool, "", "clients must have a certificate"),
    Flag(("tlscert",), str, "", "the server's certificate, a PEM file"),
    Flag(("tlskey",), str, "", "its private key, a PEM file"),
    Flag(("tlscacert",), str, "", "the authorities that sign clients' certificates, a PEM file"),
    Flag(("js", "jetstream"), bool, "jetstream", "enable JetStream: streams that are kept"),
    Flag(("sd", "store_dir"), str, "store_dir", "storage directory for JetStream"),
    Flag(("h", "help"), bool, "", "show this text"),
    Flag(("v", "version"), bool, "", "show the version"),
)

# Known to nats-server but not supported here yet; they are parsed as it does, so that the message names the
# right flag.
_UNSUPPORTED_BOOLEANS = frozenset({"no_advertise", "s", "syslog", "help_tls"})
_UNSUPPORTED_INTEGERS = frozenset({"connect_retries", "profile"})

# Several options at once, applied after the single ones whatever their order on the line.
_COMBINED: dict[str, tuple[str, ...]] = {
    "DV": ("trace", "debug"),
    "DVV": ("trace", "debug", "trace_verbose"),
    "VV": ("trace", "trace_verbose"),
}

_BY_NAME: dict[str, Flag] = {name: flag for flag in FLAGS for name in flag.names}


def parse_command_line(arguments: Sequence[str]) -> CommandLine:
    """Arguments without the program's name. Raises FlagError or UsageError (see the top of this file)."""
    given, words = _parse_flags(arguments)
    if given.get("v"):
        return CommandLine(action="version")
    if given.get("h"):
        return CommandLine(action="help")
    if words:
        return _command(words[0])
    _refuse_unsupported(given)
    changes = _changes(given)
    if given.get("sl"):
        return CommandLine(action="signal", signal=str(given["sl"]))
    config_path = str(given.get("c", ""))
    if given.get("t") and not config_path:
        raise UsageError("must specify [-c, --config] option to check configuration file syntax")
    action: Action = "check" if given.get("t") else "serve"
    return CommandLine(action, config_path, changes=changes, tls=_tls_flags(given))


def usage(program: str = "headrace-server") -> str:
    """The help text, made from the table of flags."""
    rows = []
    for flag in FLAGS:
        names = ", ".join(
            f"-{name}" if len(name) <= 2 or name.isupper() else f"--{name}" for name in flag.names
        )
        value = "" if flag.kind is bool else " <number>" if flag.kind is int else " <text>"
        rows.append((names + value, flag.help))
    width = max(len(left) for left, _ in rows) + 2
    lines = [f"    {left:<{width}}{right}" for left, right in rows]
    return "\n".join(["", f"Usage: {program} [options]", "", *lines, ""])


def version_line() -> str:
    return f"{PROGRAM}: v{NATS_VERSION} (headrace {__version__})"


def _command(word: str) -> CommandLine:
    if word.lower() == "version":
        return CommandLine(action="version")
    if word.lower() == "help":
        return CommandLine(action="help")
    raise UsageError(f"unrecognized command: {quote(word)}")


def _refuse_unsupported(given: dict[str, FlagValue]) -> None:
    for name, value in given.items():
        if value and name in UNSUPPORTED_FLAGS:
            raise UsageError(unsupported_message(f"-{name}", UNSUPPORTED_FLAGS[name]))


def _changes(given: dict[str, FlagValue]) -> dict[str, FlagValue]:
    changes: dict[str, FlagValue] = {}
    for name, value in given.items():
        if name in _BY_NAME and _BY_NAME[name].option:
            changes[_BY_NAME[name].option] = value
    for name in sorted(_COMBINED):
        if name in given:
            changes.update(dict.fromkeys(_COMBINED[name], given[name]))
    return changes


def _tls_flags(given: dict[str, FlagValue]) -> TlsFlags | None:
    if not any(name.startswith("tls") for name in given):
        return None
    return TlsFlags(
        enabled=bool(given.get("tls", True)),
        certificate=str(given.get("tlscert", "")),
        key=str(given.get("tlskey", "")),
        ca_file=str(given.get("tlscacert", "")),
        verify=bool(given.get("tlsverify", False)),
    )


# Go's flag package


def _parse_flags(arguments: Sequence[str]) -> tuple[dict[str, FlagValue], list[str]]:
    """Flags by their first name, in the order in which they were last given, and the words after them."""
    given: dict[str, FlagValue] = {}
    rest = list(arguments)
    while rest:
        argument = rest[0]
        if len(argument) < 2 or not argument.startswith("-"):
            break
        del rest[0]
        if argument == "--":
            break
        name, value = _parse_flag(argument, rest)
        given.pop(name, None)
        given[name] = value
    return given, rest


def _parse_flag(argument: str, rest: list[str]) -> tuple[str, FlagValue]:
    """One flag; its value may be in `rest`."""
    body = argument[2:] if argument.startswith("--") else argument[1:]
    if not body or body[0] in "-=":
        raise FlagError(f"bad flag syntax: {argument}")
    name, equals, text = body.partition("=")
    kind = _kind(name)
    first_name = _BY_NAME[name].names[0] if name in _BY_NAME else name
    if kind is bool:
        return first_name, _boolean(name, text) if equals else True
    if not equals:
        if not rest:
            raise FlagError(f"flag needs an argument: -{name}")
        text = rest.pop(0)
    return first_name, _integer(name, text) if kind is int else text


def _kind(name: str) -> type[bool] | type[int] | type[str]:
    if name in _BY_NAME:
        return _BY_NAME[name].kind
    if name not in UNSUPPORTED_FLAGS:
        raise FlagError(f"flag provided but not defined: -{name}")
    if name in _UNSUPPORTED_BOOLEANS:
        return bool
    return int if name in _UNSUPPORTED_INTEGERS else str


def _boolean(name: str, text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise FlagError(f"invalid boolean value {quote(text)} for -{name}: parse error")


_BASES: tuple[tuple[str, Callable[[str], int]], ...] = (
    (r"0[xX](_?[0-9a-fA-F])+", lambda digits: int(digits[2:].lstrip("_"), 16)),
    (r"0[oO](_?[0-7])+", lambda digits: int(digits[2:].lstrip("_"), 8)),
    (r"0[bB](_?[01])+", lambda digits: int(digits[2:].lstrip("_"), 2)),
    (r"0(_?[0-7])*", lambda digits: int(digits, 8)),
    (r"[1-9](_?[0-9])*", lambda digits: int(digits, 10)),
)


def _integer(name: str, text: str) -> int:
    """An integer as Go writes one: also 0x1f, 0o17, 017, 0b11 and 1_000."""
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    for pattern, convert in _BASES:
        if re.fullmatch(pattern, digits):
            number = convert(digits) if len(digits) <= 100 else 2**64
            number = -number if sign == "-" else number
            if not -(2**63) <= number < 2**63:
                raise FlagError(f"invalid value {quote(text)} for flag -{name}: value out of range")
            return number
    raise FlagError(f"invalid value {quote(text)} for flag -{name}: parse error")
