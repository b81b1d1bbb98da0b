"""Every option of the server, once, with the default of nats-server 2.15.

Options are made by flags and configuration files (load.py), or directly: `Options(port=-1)`. They are
frozen; use `msgspec.structs.replace` to change one. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

import os
import tempfile

import msgspec

from headrace.config.durations import format_duration
from headrace.errors import ConfigError

NATS_VERSION = "2.15.1"
"""The nats-server version whose behaviour is implemented, and which is announced to clients."""
API_LEVEL = 5
"""The level of that version's JetStream API. nats-server announces it even if JetStream is off."""

DEFAULT_HOST = "0.0.0.0"
DEFAULT_PORT = 4222
ANY_FREE_PORT = -1
GLOBAL_ACCOUNT = "$G"
NOBODY = -1

SYNC_ALWAYS = 0.0
CHOSEN_BY_THE_SERVER = -1
DEFAULT_MAX_CONSUMERS = 1000

KIB = 1024
MIB = 1024 * KIB


class User(msgspec.Struct, frozen=True):
    """One entry of `authorization { users }`. The password may be a bcrypt hash."""

    user: str
    password: str = ""

    def __repr__(self) -> str:
        return f"User(user={self.user!r})"  # a password must not reach a log by way of a repr


class JetStreamLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """`jetstream { limits }`. 0 is nats-server's own default. Durations are seconds."""

    max_request_batch: int = 0
    max_ack_pending: int = 0
    max_ha_assets: int = 0  # for clusters
    duplicate_window: float = 0.0
    max_batch_inflight_per_stream: int = 0
    max_batch_inflight_total: int = 0
    max_batch_size: int = 0
    max_batch_timeout: float = 0.0
    default_max_consumers: int = 0  # 0: DEFAULT_MAX_CONSUMERS


class AccountLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """`accounts { NAME { jetstream } }`: what an account's streams may use together. -1 is no limit."""

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All options of a server."""

    # Addresses
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT  # ANY_FREE_PORT: the system chooses
    client_advertise: str = ""
    http_host: str = ""  # empty: the same as host
    http_port: int = 0  # 0: no monitoring; ANY_FREE_PORT: the system chooses
    http_base_path: str = "/"

    # Identity
    server_name: str = ""  # empty: its id
    tags: tuple[str, ...] = ()
    metadata: dict[str, str] = {}

    # Limits
    max_connections: int = 64 * KIB  # NOBODY (-1) refuses every client
    max_subscriptions: int = 0  # 0 or less: no limit
    max_subscription_tokens: int = 0  # 0: no limit
    max_control_line: int = 4 * KIB
    max_payload: int = MIB
    max_pending: int = 64 * MIB
    max_closed_clients: int = 10_000
    write_deadline: float = 10.0
    no_fast_producer_stall: bool = False

    # Keepalive, lame duck
    ping_interval: float = 120.0
    ping_max: int = 2
    lame_duck_duration: float = 120.0
    lame_duck_grace_period: float = 10.0

    # Who may connect
    username: str = ""
    password: str = ""
    token: str = ""
    users: tuple[User, ...] | None = None  # None: there is no users array. An empty one keeps everyone out
    no_auth_user: str = ""
    account: str = GLOBAL_ACCOUNT  # the account of all users
    auth_timeout: float = 2.0

    # Logging
    debug: bool = False
    trace: bool = False
    trace_verbose: bool = False
    trace_headers: bool = False
    max_traced_msg_len: int = 0
    logtime: bool = True
    logtime_utc: bool = False
    log_file: str = ""
    log_size_limit: int = 0
    log_max_files: int = 0
    connect_error_reports: int = 3600
    reconnect_error_reports: int = 1

    # Files
    pid_file: str = ""
    ports_file_dir: str = ""
    store_dir: str = ""
    config_path: str = ""
    config_digest: str = ""

    # JetStream
    jetstream: bool = False
    jetstream_max_memory: int = CHOSEN_BY_THE_SERVER  # three quarters of the machine's memory
    jetstream_max_store: int = CHOSEN_BY_THE_SERVER  # three quarters of the free disk space
    jetstream_domain: str = ""
    jetstream_strict: bool = True  # unknown fields of API requests are errors
    jetstream_unique_tag: str = ""  # for clusters
    jetstream_limits: JetStreamLimits = JetStreamLimits()
    account_jetstream: bool = True  # whether the account may have streams, if the server has JetStream
    account_limits: AccountLimits = AccountLimits()
    jetstream_request_queue_limit: int = 10_000
    sync_interval: float = SYNC_ALWAYS  # until an acknowledged message is synced; nats-server's is 2 minutes

    # Behaviour
    no_header_support: bool = False
    disable_sublist_cache: bool = False
    no_system_account: bool = False
    no_sigs: bool = False  # for servers that are embedded in another program

    def __repr__(self) -> str:
        shown = {
            name: "[hidden]" if name in SECRET_OPTIONS else value
            for name, value in msgspec.structs.asdict(self).items()
            if value != getattr(DEFAULT_OPTIONS, name)
        }
        return f"Options({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def monitor_host(self) -> str:
        return self.http_host or self.host

    @property
    def jetstream_directory(self) -> str:
        """Where streams are stored.

        By default a temporary directory: the same after a restart, but not that of nats-server, whose files
        have another format.
        """
        return os.path.join(self.store_dir or os.path.join(tempfile.gettempdir(), "headrace"), "jetstream")

    @property
    def auth_required(self) -> bool:
        """Whether CONNECT must have credentials.

        A password without a user asks for none, as in nats-server.
        """
        return self.users is not None or bool(self.username or self.token)

    @property
    def has_plaintext_password(self) -> bool:
        """Whether to warn that a secret is in clear text where a bcrypt hash could be."""
        # nats-server warns of a user without a password, too.
        secrets = [*filter(None, (self.password, self.token)), *(user.password for user in self.users or ())]
        return not all(is_bcrypt(secret) for secret in secrets)


SECRET_OPTIONS = frozenset({"username", "password", "token"})
DEFAULT_OPTIONS = Options()


def is_bcrypt(secret: str) -> bool:
    return secret.startswith(("$2a$", "$2b$", "$2x$", "$2y$"))


# As in nats-server, zero means the default of an option, so `port: 0` is 4222.
ZERO_MEANS_DEFAULT = (
    "port",
    "max_connections",
    "max_control_line",
    "max_payload",
    "max_pending",
    "max_closed_clients",
    "write_deadline",
    "ping_interval",
    "ping_max",
    "lame_duck_duration",
    "lame_duck_grace_period",
    "auth_timeout",
    "connect_error_reports",
    "reconnect_error_reports",
    "jetstream_request_queue_limit",
)


def with_defaults_for_zero(options: Options, base: Options = DEFAULT_OPTIONS) -> Options:
    """Options in which every zero of ZERO_MEANS_DEFAULT, and an empty host, is replaced by its default."""
    changes = {
        name: getattr(DEFAULT_OPTIONS, name) for name in ZERO_MEANS_DEFAULT if not getattr(options, name)
    }
    if not options.host:
        changes["host"] = base.host
    return msgspec.structs.replace(options, **changes) if changes else options


def check_options(options: Options) -> None:
    """Raises ConfigError where options contradict each other.

    nats-server does so at start, but not for `-t`.
    """
    duration, grace = options.lame_duck_duration, options.lame_duck_grace_period
    if duration > 0 and grace >= duration:
        raise ConfigError(
            f"lame duck grace period ({format_duration(grace)}) should be strictly lower than "
            f"lame duck duration ({format_duration(duration)})"
        )
    if options.max_payload > options.max_pending:
        raise ConfigError(
            f"max_payload ({options.max_payload}) cannot be higher than max_pending ({options.max_pending})"
        )
    if " " in options.server_name:
        raise ConfigError("server name cannot contain spaces")
    check_domain(options.jetstream_domain)
    if options.account != GLOBAL_ACCOUNT and (options.username or options.token):
        # They would be in the global account, isolated from the users of the other one.
        raise ConfigError(
            "a user or token next to the users of an account: "
            "this version of Headrace supports one account and does not support more yet"
        )
    name = options.no_auth_user
    if name and options.users is None:
        raise ConfigError(f'no_auth_user: "{name}" present, but users/nkeys are not defined')
    if name and all(user.user != name for user in options.users or ()):
        raise ConfigError(
            f'no_auth_user: "{name}" not present as user or nkey in authorization block '
            "or account configuration"
        )


def check_domain(domain: str) -> None:
    """It becomes a token in subjects of the API. Raises ConfigError."""
    if any(character in domain for character in ".*>"):
        raise ConfigError("invalid domain name: may not contain ., * or >")
    if any(character in domain for character in " \t\r\n\f\0"):
        raise ConfigError(f'invalid domain name: derived "$JS.{domain}.API.>" is not a valid subject')
