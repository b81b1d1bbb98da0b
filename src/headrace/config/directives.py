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

from headrace.config.accounts.directives import Outside, read_accounts
from headrace.config.accounts.import_checks import check_links
from headrace.config.accounts.mappings import read_mappings
from headrace.config.addresses import read_listen
from headrace.config.authorization import check_names, read_authorization
from headrace.config.console import read_console
from headrace.config.durations import format_duration, parse_duration
from headrace.config.http_in import read_http_in
from headrace.config.jetstream import read_jetstream
from headrace.config.operators.checks import system_account_of
from headrace.config.operators.directives import (
    read_default_sentinel,
    read_operators,
    read_pinned_accounts,
    read_preload,
    read_resolver,
    read_trusted_keys,
)
from headrace.config.operators.trust import TrustOptions
from headrace.config.options import NOBODY, Options
from headrace.config.problems import Problems
from headrace.config.tls.directives import read_tls
from headrace.config.unsupported import UNSUPPORTED_DIRECTIVES, unsupported_message
from headrace.config.values import Value
from headrace.config.websocket import read_websocket

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
    changes = {**read_authorization(value, context.problems), "has_authorization": True}
    in_accounts = context.changes.get("users")
    if not in_accounts:
        return changes
    assert isinstance(in_accounts, tuple)
    if changes["username"]:
        raise value.error("Can not have a single user/pass and a users array")
    if changes["token"]:
        raise value.error("Can not have a token and a users array")
    outside = changes.get("users")
    users = in_accounts + (outside if isinstance(outside, tuple) else ())
    check_names(value, users)
    return {**changes, "users": users}


def _accounts(value: Value, context: Context) -> Changes:
    changes, problems = context.changes, context.problems
    given = changes.get("users")
    outside = Outside(
        users=given if isinstance(given, tuple) else (),
        has_username=bool(changes.get("username")),
        has_token=bool(changes.get("token")),
    )
    accounts, users = read_accounts(value, problems, outside)
    if not problems.errors:
        has_system_account = not changes.get("no_system_account")
        for error in check_links(accounts, has_system_account=has_system_account):
            problems.errors.append(value.error(error.message, hint=error.hint))
    return {"accounts": accounts, **({"users": (*outside.users, *users)} if users else {})}


def _tls(value: Value, context: Context) -> Changes:
    return {"tls": read_tls(value)}


def _mappings(value: Value, context: Context) -> Changes:
    return {"mappings": read_mappings(value, context.problems)}


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


def _console(value: Value, context: Context) -> Changes:
    return {"console": read_console(value)}


def _websocket(value: Value, context: Context) -> Changes:
    return read_websocket(value, context.problems)


def _http_in(value: Value, context: Context) -> Changes:
    return read_http_in(value, context.problems)


def _default_domain(value: Value, context: Context) -> Changes:
    """The domain to use for accounts without JetStream: of leaf nodes."""
    if value.mapping():
        raise value.error(unsupported_message(context.name, "leaf nodes"))
    return {}


def _operator(value: Value, context: Context) -> Changes:
    trust = read_operators(value, _trust_so_far(context))
    named = system_account_of(trust)
    return {
        "trust": trust,
        **({"system_account": named} if named and "system_account" not in context.changes else {}),
    }


def _trust(read: Callable[[Value, TrustOptions], TrustOptions]) -> Reader:
    return lambda value, context: {"trust": read(value, _trust_so_far(context))}


def _trust_so_far(context: Context) -> TrustOptions:
    trust = context.changes.get("trust")
    return trust if isinstance(trust, TrustOptions) else TrustOptions()


def _system_account(value: Value, context: Context) -> Changes:
    if not isinstance(value.plain, str):
        raise value.error("system account name must be a string")
    return {"system_account": value.plain}


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
    "https": _listen("http_host", "https_port"),
    "https_port": _integer("https_port"),
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
    "tls": _tls,
    "allow_non_tls": _boolean("allow_non_tls"),
    "mappings": _mappings,
    "maps": _mappings,
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
    **dict.fromkeys(("operator", "operators", "roots", "root", "root_operators", "root_operator"), _operator),
    **dict.fromkeys(("trusted", "trusted_keys"), _trust(read_trusted_keys)),
    **dict.fromkeys(("resolver", "account_resolver", "accounts_resolver"), _trust(read_resolver)),
    "resolver_preload": _trust(read_preload),
    "resolver_pinned_accounts": _trust(read_pinned_accounts),
    "default_sentinel": _trust(read_default_sentinel),
    "system_account": _system_account,
    "system": _system_account,
    "jetstream": _jetstream,
    "console": _console,
    "websocket": _websocket,
    "ws": _websocket,
    "http_in": _http_in,
    "default_js_domain": _default_domain,
    "syslog": _only_off("syslog"),
    "proxy_protocol": _only_off("the PROXY protocol"),
    "prof_port": _only_off("profiling"),
    **{name: _unsupported(capability) for name, capability in UNSUPPORTED_DIRECTIVES.items()},
}
