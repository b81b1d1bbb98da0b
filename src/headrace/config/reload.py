"""Which options can change while the server runs.

A reload is all or nothing: if one changed option needs a restart, nothing changes and the old options stay.
The table follows nats-server's reload, and refuses the same changes.
"""

from __future__ import annotations

import msgspec

from headrace.config.addresses import split_host_port
from headrace.config.http_in import HttpInOptions
from headrace.config.operators.trust import TrustOptions
from headrace.config.options import ANY_FREE_PORT, SECRET_OPTIONS, Options
from headrace.config.websocket import WebSocketOptions
from headrace.errors import ConfigError

# Applied at once, grouped by what the server must do.
LOGGING_OPTIONS = frozenset(
    {
        "debug",
        "trace",
        "trace_verbose",
        "trace_headers",
        "max_traced_msg_len",
        "logtime",
        "logtime_utc",
        "log_file",
    }
)
AUTH_OPTIONS = frozenset(
    {
        "username",
        "password",
        "token",
        "users",
        "auth_timeout",
        "accounts",
        "mappings",
        "has_authorization",
        "trust",
        "callout",
        "python_hook",
    }
)
TLS_OPTIONS = frozenset({"tls"})
FILE_OPTIONS = frozenset({"pid_file", "ports_file_dir"})
INFO_OPTIONS = frozenset({"client_advertise", "max_payload", "tags", "metadata"})
LIMIT_OPTIONS = frozenset(
    {
        "max_connections",
        "max_control_line",
        "max_payload",
        "ping_interval",
        "ping_max",
        "write_deadline",
        "connect_error_reports",
        "reconnect_error_reports",
        "no_fast_producer_stall",
    }
)
CONSOLE_OPTIONS = frozenset({"console"})
RELOADABLE_OPTIONS = (
    LOGGING_OPTIONS
    | AUTH_OPTIONS
    | TLS_OPTIONS
    | FILE_OPTIONS
    | INFO_OPTIONS
    | LIMIT_OPTIONS
    | CONSOLE_OPTIONS
)

# Not set by users: they may differ, and need no action. Without JetStream, the storage directory does not
# matter.
IGNORED_OPTIONS = frozenset({"config_path", "config_digest", "no_sigs", "store_dir"})

RESTART_OPTIONS = frozenset(Options.__struct_fields__) - RELOADABLE_OPTIONS - IGNORED_OPTIONS


class ReloadPlan(msgspec.Struct, frozen=True):
    """The options to use from now on, and the names of those that have changed."""

    options: Options
    changed: frozenset[str]

    @property
    def logging_changed(self) -> bool:
        return bool(self.changed & LOGGING_OPTIONS)

    @property
    def auth_changed(self) -> bool:
        return bool(self.changed & AUTH_OPTIONS)

    @property
    def info_changed(self) -> bool:
        """Whether clients must be sent a new INFO."""
        return bool(self.changed & (INFO_OPTIONS | TLS_OPTIONS))


def plan_reload(old: Options, new: Options) -> ReloadPlan:
    """Compares the running options with those that were re-read. Raises ConfigError if a change needs a
    restart.

    `old` may hold the port that the system chose: a new `-1` then means to keep it. Call check_options(new)
    first.
    """
    if new.port == ANY_FREE_PORT:
        new = msgspec.structs.replace(new, port=old.port)
    if (new.http_port == ANY_FREE_PORT or new.http_port_is_optional) and old.http_port:
        new = msgspec.structs.replace(new, http_port=old.http_port)
    if new.https_port == ANY_FREE_PORT and old.https_port:
        new = msgspec.structs.replace(new, https_port=old.https_port)
    if new.websocket.port == ANY_FREE_PORT and old.websocket.port:
        kept = msgspec.structs.replace(new.websocket, port=old.websocket.port)
        new = msgspec.structs.replace(new, websocket=kept)
    if new.http_in.port == ANY_FREE_PORT and old.http_in.port:
        new = msgspec.structs.replace(
            new, http_in=msgspec.structs.replace(new.http_in, port=old.http_in.port)
        )
    changed = frozenset(
        name for name in Options.__struct_fields__ if getattr(old, name) != getattr(new, name)
    )
    if old.jetstream and "store_dir" in changed:
        raise ConfigError("config reload not supported for jetstream storage directory")
    if "trust" in changed:
        _check_trust(old.trust, new.trust)
    for name in sorted(changed & RESTART_OPTIONS):
        may_change = name == "no_auth_user" and _no_auth_user_left(old, new)
        may_change |= name == "websocket" and _is_other_tls(old.websocket, new.websocket)
        may_change |= name == "http_in" and _is_other_tls(old.http_in, new.http_in)
        if not may_change:
            raise ConfigError(f"config reload not supported for {name}: {_difference(name, old, new)}")
    if "client_advertise" in changed and new.client_advertise and not _is_host_port(new.client_advertise):
        raise ConfigError(f"invalid ClientAdvertise value of {new.client_advertise}")
    return ReloadPlan(new, changed - IGNORED_OPTIONS)


def _check_trust(old: TrustOptions, new: TrustOptions) -> None:
    """Other tokens of accounts may come; whom the server trusts must stay."""
    for name in ("operators", "trusted_keys", "resolver"):
        if getattr(old, name) != getattr(new, name):
            raise ConfigError(f"config reload not supported for {name}: it has changed")


def _is_other_tls(old: WebSocketOptions | HttpInOptions, new: WebSocketOptions | HttpInOptions) -> bool:
    """Certificates may change, and nothing else."""
    return bool(old.tls and new.tls) and msgspec.structs.replace(old, tls=new.tls) == new


def _no_auth_user_left(old: Options, new: Options) -> bool:
    """no_auth_user may be removed together with its user."""
    return not new.no_auth_user and all(
        old.no_auth_user not in (user.user, user.nkey) for user in new.users or ()
    )


def _difference(name: str, old: Options, new: Options) -> str:
    if name in SECRET_OPTIONS:
        return "it has changed"
    return f"old={getattr(old, name)}, new={getattr(new, name)}"


def _is_host_port(address: str) -> bool:
    """A host with or without a port."""
    host_port = split_host_port(address)
    if host_port is None:
        return ":" not in address
    return host_port[1].strip().isdecimal()
