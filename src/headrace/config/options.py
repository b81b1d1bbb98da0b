"""Every option of the server, once, with the default of nats-server 2.15.

Options are made by flags and configuration files (load.py), or directly: `Options(port=-1)`. They are
frozen; use `msgspec.structs.replace` to change one. Durations are seconds, sizes are bytes.
"""

from __future__ import annotations

import os
import tempfile

import msgspec

from headrace.config.console import DEFAULT_CONSOLE, ConsoleOptions
from headrace.config.durations import format_duration
from headrace.config.http_in import NO_HTTP_IN, HttpInOptions, check_http_in
from headrace.config.identity import (
    GLOBAL_ACCOUNT,
    SYSTEM_ACCOUNT,
    AccountLimits,
    AccountOptions,
    Mapping,
    User,
)
from headrace.config.operators.checks import check_trust
from headrace.config.operators.trust import CalloutOptions, TrustOptions
from headrace.config.tls.settings import DEFAULT_TIMEOUT_SECONDS, TlsSettings
from headrace.config.websocket import NO_WEBSOCKET, WebSocketOptions, check_no_auth_user, check_websocket
from headrace.errors import ConfigError

NATS_VERSION = "2.15.1"
"""The nats-server version whose behaviour is implemented, and which is announced to clients."""
API_LEVEL = 5
"""The level of that version's JetStream API. nats-server announces it even if JetStream is off."""

DEFAULT_HOST = "0.0.0.0"
DEFAULT_PORT = 4222
ANY_FREE_PORT = -1
NOBODY = -1

SYNC_ALWAYS = 0.0
CHOSEN_BY_THE_SERVER = -1
DEFAULT_MAX_CONSUMERS = 1000

KIB = 1024
MIB = 1024 * KIB


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


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All options of a server."""

    # Addresses
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT  # ANY_FREE_PORT: the system chooses
    client_advertise: str = ""
    http_host: str = ""  # empty: the same as host
    http_port: int = 0  # 0: no monitoring; ANY_FREE_PORT: the system chooses
    https_port: int = 0  # the same with TLS; there can be only one of them
    http_port_is_optional: bool = False  # if it is taken, the system chooses another
    http_base_path: str = "/"
    console: ConsoleOptions = DEFAULT_CONSOLE
    websocket: WebSocketOptions = NO_WEBSOCKET
    http_in: HttpInOptions = NO_HTTP_IN  # messages over HTTP

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
    has_authorization: bool = False  # there is an authorization block
    accounts: tuple[AccountOptions, ...] = ()  # besides the global one
    system_account: str = ""  # empty: $SYS
    mappings: tuple[Mapping, ...] = ()  # of the global account
    trust: TrustOptions = TrustOptions()  # operator mode
    callout: CalloutOptions | None = None  # a service that decides who may connect
    python_hook: str = ""  # a Python function that does: module:function
    auth_timeout: float = 2.0

    # TLS
    tls: TlsSettings | None = None
    allow_non_tls: bool = False  # clients may choose

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
    def monitor_port(self) -> int:
        """With or without TLS; 0: no monitoring."""
        return self.http_port or self.https_port

    @property
    def http_in_host(self) -> str:
        return self.http_in.host or self.host

    @property
    def tls_required(self) -> bool:
        return self.tls is not None and not self.allow_non_tls

    @property
    def tls_timeout(self) -> float:
        return self.tls.timeout if self.tls else DEFAULT_TIMEOUT_SECONDS

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
        has_users = self.users is not None or bool(self.username or self.token)
        is_decided_elsewhere = self.trust.is_operator_mode or bool(self.python_hook)
        return has_users or self.has_system_account_only or is_decided_elsewhere

    @property
    def system_account_name(self) -> str:
        """Empty: there is none."""
        return self.system_account or ("" if self.no_system_account else SYSTEM_ACCOUNT)

    @property
    def has_system_account_only(self) -> bool:
        """Whether there is just a system account, for its users: everybody else needs no credentials."""
        return (
            [account.name for account in self.accounts] == [self.system_account or SYSTEM_ACCOUNT]
            and not self.no_auth_user
            and not self.has_authorization
        )

    @property
    def all_accounts(self) -> tuple[AccountOptions, ...]:
        """With the global account, and a system account if there is one.

        The global account has streams if it is the only one; otherwise those have that ask for them. Nobody
        is in it in operator mode.
        """
        names = {account.name for account in self.accounts}
        is_alone = names <= {self.system_account_name} and not self.trust.is_operator_mode
        first = AccountOptions(
            GLOBAL_ACCOUNT, jetstream=AccountLimits() if is_alone else None, mappings=self.mappings
        )
        system = self.system_account_name
        last = (AccountOptions(system),) if system and system not in names else ()
        return (first, *self.accounts, *last)

    @property
    def has_plaintext_password(self) -> bool:
        """Whether to warn that a secret is in clear text where a bcrypt hash could be."""
        # nats-server warns of a user without a password, too, unless certificates say who is who.
        passwords = [user.password for user in self.users or () if not user.nkey]
        if self.tls is not None and self.tls.maps_users:
            passwords = [password for password in passwords if password]
        secrets = [*filter(None, (self.password, self.token)), *passwords]
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
    check_trust(
        options.trust,
        system_account=options.system_account,
        has_accounts=bool(options.accounts),
        users=options.users or (),
        version=NATS_VERSION,
    )
    if not options.trust.is_operator_mode:
        check_system_account(options)
    check_callout(options)
    if options.no_auth_user and options.trust.operators:
        raise ConfigError("no_auth_user not compatible with Trusted Operator")
    if options.http_port and options.https_port:
        raise ConfigError(
            f"can't specify both HTTP ({options.http_port}) and HTTPs ({options.https_port}) ports"
        )
    if options.https_port and options.tls is None:
        raise ConfigError("TLS cert and key required for HTTPS")
    check_no_auth_user(options, options.no_auth_user)
    check_websocket(options)
    ports = {"port": options.port, "monitor_port": options.monitor_port, "websocket": options.websocket.port}
    check_http_in(options.http_in, ports=ports)


def check_callout(options: Options) -> None:
    """Raises ConfigError."""
    if options.trust.operators and (options.callout or options.python_hook):
        raise ConfigError("operators do not allow authorization callouts to be configured directly")
    if options.callout and options.python_hook:
        raise ConfigError("authorization has both auth_callout and python: only one of them can decide")
    check_callout_accounts(options)


def check_callout_accounts(options: Options) -> None:
    """Raises ConfigError. nats-server does so for `-t`, too."""
    names = {account.name for account in options.accounts}
    for name in options.callout.allowed_accounts if options.callout else ():
        if name not in names:
            raise ConfigError(f'auth_callout allowed account "{name}" not found in configured accounts')


def check_system_account(options: Options) -> None:
    """Raises ConfigError if it is not one of the accounts, or has streams."""
    name = options.system_account
    found = [account for account in options.accounts if account.name == (name or SYSTEM_ACCOUNT)]
    if name and name != GLOBAL_ACCOUNT and not found:
        raise ConfigError("error resolving system account: account missing")
    if options.jetstream and any(account.jetstream is not None for account in found):
        raise ConfigError("Not allowed to enable JetStream on the system account")


def check_domain(domain: str) -> None:
    """It becomes a token in subjects of the API. Raises ConfigError."""
    if any(character in domain for character in ".*>"):
        raise ConfigError("invalid domain name: may not contain ., * or >")
    if any(character in domain for character in " \t\r\n\f\0"):
        raise ConfigError(f'invalid domain name: derived "$JS.{domain}.API.>" is not a valid subject')
