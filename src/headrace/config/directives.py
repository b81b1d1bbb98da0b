"""The directives of a configuration file: a table from name to how its value becomes options.

    DIRECTIVES["max_payload"](value, context)  ->  {"max_payload": 1048576}

A reader returns the changes to Options and raises ConfigError at the value that is wrong. Messages follow
nats-server's where it has good ones. Names are matched in any case.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from headrace.config.accounts import ONE_ACCOUNT, SYSTEM_ACCOUNT, read_accounts
from headrace.config.addresses import read_listen
from headrace.config.authorization import read_authorization
from headrace.config.durations import format_duration, parse_duration
from headrace.config.jetstream import read_jetstream
from headrace.config.options import NOBODY, Options
from headrace.config.problems import Problems
from headrace.config.unsupported import UNSUPPORTED_DIRECTIVES, unsupported_message
from headrace.config.values import Value

MINIMUM_LAME_DUCK_SECONDS = 30
_INT32_MAX = 2**31 - 1

Changes = dict[str, object]


@dataclass(frozen=True, slots=True)
class Context:
    """What a reader may need in addition to its value: the name as written, earlier options, warnings."""

    name: str
    changes: Changes
    problems: Problems


Reader = Callable[[Value, Context], Changes]


def apply_directives(entries: dict[str, Value], options: Options, problems: Problems) -> Options:
    """Options changed by all entries of a file. Errors, such as unknown names, go to `problems`."""
    changes: Changes = {}
    for name, value in entries.items():
        with problems.collecting():
            reader = DIRECTIVES.get(name.lower())
            if reader is not None:
                changes.update(reader(value, Context(name, changes, problems)))
            elif not value.used_as_variable:
                raise value.error(f'unknown field "{name}"')
    return msgspec.structs.replace(options, **changes)


# Readers for plain values


def _string(option: str) -> Reader:
    return lambda value, context: {option: value.string()}


def _boolean(option: str) -> Reader:
    return lambda value, context: {option: value.boolean()}


def _integer(option: str) -> Reader:
    return lambda value, context: {option: value.integer()}


def _int32(option: str) -> Reader:
    def read(value: Value, context: Context) -> Changes:
        size = value.integer()
        if not -_INT32_MAX <= size <= _INT32_MAX:
            raise value.error(f"{context.name} value is too big")
        return {option: size}

    return read


def _duration(option: str) -> Reader:
    """A duration string; a plain integer means seconds and causes a warning, as in nats-server."""

    def read(value: Value, context: Context) -> Changes:
        if type(value.plain) is int:
            context.problems.warn(value, option, f"{option} should be converted to a duration")
            return {option: float(value.plain)}
        return {option: _seconds(value, option)}

    return read


def _seconds(value: Value, option: str) -> float:
    try:
        return parse_duration(value.string())
    except ValueError as error:
        raise value.error(f"error parsing {option}: {error}") from None


# Readers with their own rules


def _listen(host_option: str, port_option: str) -> Reader:
    def read(value: Value, context: Context) -> Changes:
        host, port = read_listen(value)
        return {host_option: host, port_option: port}

    return read


def _server_name(value: Value, context: Context) -> Changes:
    if " " in value.string():
        raise value.error("server name cannot contain spaces")
    return {"server_name": value.string()}


def _max_connections(value: Value, context: Context) -> Changes:
    return {"max_connections": value.integer() or NOBODY}


def _max_subscription_tokens(value: Value, context: Context) -> Changes:
    if value.integer() > 255:
        raise value.error(f"{context.name} value is too big")
    if value.integer() <= 0:
        raise value.error(f"{context.name} value can not be negative")
    return {"max_subscription_tokens": value.integer()}


def _lame_duck_duration(value: Value, context: Context) -> Changes:
    seconds = _seconds(value, "lame_duck_duration")
    if seconds < MINIMUM_LAME_DUCK_SECONDS:
        shown = format_duration(seconds)
        raise value.error(
            f"invalid lame_duck_duration of {shown}, minimum is {MINIMUM_LAME_DUCK_SECONDS} seconds"
        )
    return {"lame_duck_duration": seconds}


def _lame_duck_grace_period(value: Value, context: Context) -> Changes:
    seconds = _seconds(value, "lame_duck_grace_period")
    if seconds < 0:
        raise value.error("invalid lame_duck_grace_period, needs to be positive")
    return {"lame_duck_grace_period": seconds}


def _trace_kind(option: str) -> Reader:
    return lambda value, context: {option: value.boolean(), "trace": value.boolean()}


def _http_base_path(value: Value, context: Context) -> Changes:
    return {"http_base_path": "/" + posixpath.normpath("/" + value.string()).lstrip("/")}


def _authorization(value: Value, context: Context) -> Changes:
    changes = read_authorization(value, context.problems)
    if "account" not in context.changes:
        return changes
    if changes["username"]:
        raise value.error("Can not have a single user/pass and a users array")
    if changes["token"]:
        raise value.error("Can not have a token and a users array")
    if changes.pop("users", None):
        raise value.error(f"users outside of the account: {ONE_ACCOUNT}")
    return changes


def _accounts(value: Value, context: Context) -> Changes:
    changes = read_accounts(value, context.problems)
    if "users" in changes:
        if context.changes.get("username"):
            raise value.error("Can not have a single user/pass and accounts")
        if context.changes.get("token"):
            raise value.error("Can not have a token and accounts")
        if context.changes.get("users"):
            raise value.error(f"users outside of the account: {ONE_ACCOUNT}")
    return changes


def _server_tags(value: Value, context: Context) -> Changes:
    if isinstance(value.plain, str):
        return {"tags": (value.plain.lower(),)}
    return {"tags": tuple(dict.fromkeys(tag.string().strip().lower() for tag in value.array()))}


def _server_metadata(value: Value, context: Context) -> Changes:
    return {"metadata": {name: entry.string() for name, entry in value.mapping().items()}}


def _store_dir(value: Value, context: Context) -> Changes:
    if context.changes.get("store_dir"):
        raise value.error("Duplicate 'store_dir' configuration")
    return {"store_dir": value.string()}


def _write_timeout(value: Value, context: Context) -> Changes:
    if value.string() == "retry":
        raise value.error(unsupported_message("write_timeout: retry", "retrying after a write deadline"))
    if value.string() not in ("default", "close"):
        raise value.error("write_timeout must be 'default', 'close' or 'retry'")
    return {}


def _jetstream(value: Value, context: Context) -> Changes:
    return read_jetstream(value, context.problems, store_dir_given=bool(context.changes.get("store_dir")))


def _default_domain(value: Value, context: Context) -> Changes:
    """This is for accounts without JetStream; the only account either has it or does not."""
    if value.mapping():
        raise value.error(unsupported_message(context.name, "several accounts"))
    return {}


def _system_account(value: Value, context: Context) -> Changes:
    if value.string() not in ("", SYSTEM_ACCOUNT):
        raise value.error(unsupported_message(context.name, "several accounts"))
    return {}


def _only_off(capability: str) -> Reader:
    """A switch for something that is not supported: off is fine, on is an error."""

    def read(value: Value, context: Context) -> Changes:
        if type(value.plain) is bool or type(value.plain) is int:
            if not value.plain:
                return {}
            raise value.error(unsupported_message(context.name, capability))
        raise value.wrong_kind(bool)

    return read


def _unsupported(capability: str) -> Reader:
    def read(value: Value, context: Context) -> Changes:
        raise value.error(unsupported_message(context.name, capability))

    return read


DIRECTIVES: dict[str, Reader] = {
    "listen": _listen("host", "port"),
    "host": _string("host"),
    "net": _string("host"),
    "port": _integer("port"),
    "client_advertise": _string("client_advertise"),
    "http": _listen("http_host", "http_port"),
    "http_port": _integer("http_port"),
    "monitor_port": _integer("http_port"),
    "http_base_path": _http_base_path,
    "server_name": _server_name,
    "server_tags": _server_tags,
    "server_metadata": _server_metadata,
    "max_connections": _max_connections,
    "max_conn": _max_connections,
    "max_subscriptions": _integer("max_subscriptions"),
    "max_subs": _integer("max_subscriptions"),
    "max_subscription_tokens": _max_subscription_tokens,
    "max_sub_tokens": _max_subscription_tokens,
    "max_control_line": _int32("max_control_line"),
    "max_payload": _int32("max_payload"),
    "max_pending": _integer("max_pending"),
    "max_closed_clients": _integer("max_closed_clients"),
    "write_deadline": _duration("write_deadline"),
    "write_timeout": _write_timeout,
    "no_fast_producer_stall": _boolean("no_fast_producer_stall"),
    "ping_interval": _duration("ping_interval"),
    "ping_max": _integer("ping_max"),
    "lame_duck_duration": _lame_duck_duration,
    "lame_duck_grace_period": _lame_duck_grace_period,
    "authorization": _authorization,
    "accounts": _accounts,
    "no_auth_user": _string("no_auth_user"),
    "debug": _boolean("debug"),
    "trace": _boolean("trace"),
    "trace_verbose": _trace_kind("trace_verbose"),
    "trace_headers": _trace_kind("trace_headers"),
    "max_traced_msg_len": _integer("max_traced_msg_len"),
    "logtime": _boolean("logtime"),
    "logtime_utc": _boolean("logtime_utc"),
    "log_file": _string("log_file"),
    "logfile": _string("log_file"),
    "log_size_limit": _integer("log_size_limit"),
    "logfile_size_limit": _integer("log_size_limit"),
    "log_max_num": _integer("log_max_files"),
    "logfile_max_num": _integer("log_max_files"),
    "connect_error_reports": _integer("connect_error_reports"),
    "reconnect_error_reports": _integer("reconnect_error_reports"),
    "pid_file": _string("pid_file"),
    "pidfile": _string("pid_file"),
    "ports_file_dir": _string("ports_file_dir"),
    "store_dir": _store_dir,
    "storedir": _store_dir,
    "no_header_support": _boolean("no_header_support"),
    "disable_sublist_cache": _boolean("disable_sublist_cache"),
    "no_sublist_cache": _boolean("disable_sublist_cache"),
    "no_system_account": _boolean("no_system_account"),
    "no_system": _boolean("no_system_account"),
    "no_sys_acc": _boolean("no_system_account"),
    "system_account": _system_account,
    "system": _system_account,
    "jetstream": _jetstream,
    "default_js_domain": _default_domain,
    "syslog": _only_off("syslog"),
    "proxy_protocol": _only_off("the PROXY protocol"),
    "prof_port": _only_off("profiling"),
    **{name: _unsupported(capability) for name, capability in UNSUPPORTED_DIRECTIVES.items()},
}
