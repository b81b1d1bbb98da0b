"""What NATS tokens claim: operators, accounts, users, activations of imports, and authorization callouts.

Plain data with the names of the wire. A token holds a claim (who says it, of whom, and for how long), whose
`nats` part depends on its kind. Fields that a token leaves out are zero, as in nats-server; in limits, -1 is
"no limit", so a limit that was left out is 0.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""As in nats-server, which refuses a token with a larger number."""

UNLIMITED = -1
ALL = "*"
"""In a list of revocations: everybody. In allowed_accounts: every account."""


class _Part(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Unknown fields are ignored, as newer tools may write more."""


class SubjectList(_Part):
    allow: list[str] | None = None
    """None: everything. An empty one next to `deny` is another matter: of `pub`, it allows nothing."""
    deny: list[str] = []


class ResponsePermission(_Part):
    max: Int64 = 0
    ttl: Int64 = 0  # nanoseconds


class PermissionClaims(_Part):
    pub: SubjectList = msgspec.field(default_factory=SubjectList)
    sub: SubjectList = msgspec.field(default_factory=SubjectList)
    resp: ResponsePermission | None = None


class TimeRange(_Part):
    start: str = ""  # 15:04:05
    end: str = ""


class UserLimits(PermissionClaims):
    """What a user may do, and from where and when. A scoped signing key has it as a template."""

    src: list[str] = []
    times: list[TimeRange] = []
    times_location: str = ""
    subs: Int64 = 0
    data: Int64 = 0
    payload: Int64 = 0
    bearer_token: bool = False
    proxy_required: bool = False
    allowed_connection_types: list[str] = []


NO_LIMITS = {"subs": UNLIMITED, "data": UNLIMITED, "payload": UNLIMITED}


class User(UserLimits):
    issuer_account: str = ""  # set if a signing key of this account has issued the token
    tags: list[str] = []
    type: str = ""
    version: Int64 = 0

    @property
    def is_scoped(self) -> bool:
        """Whether it leaves permissions and limits to its signing key."""
        empty = UserLimits()
        return all(getattr(self, name) == getattr(empty, name) for name in UserLimits.__struct_fields__)


class UserScope(_Part, omit_defaults=False):
    """A signing key whose users all have the same permissions."""

    kind: str = "user_scope"
    key: str = ""
    role: str = ""
    template: UserLimits = msgspec.field(default_factory=UserLimits)
    description: str = ""


class Import(_Part):
    name: str = ""
    subject: str = ""
    account: str = ""
    token: str = ""
    to: str = ""
    local_subject: str = ""
    type: str = ""
    share: bool = False
    allow_trace: bool = False


class ServiceLatency(_Part):
    sampling: Int64 | str = 0  # percent, or "headers"
    results: str = ""


class Export(_Part):
    name: str = ""
    subject: str = ""
    type: str = ""
    token_req: bool = False
    revocations: dict[str, Int64] = {}
    response_type: str = ""
    response_threshold: Int64 = 0  # nanoseconds
    service_latency: ServiceLatency | None = None
    account_token_position: Int64 = 0
    advertise: bool = False
    allow_trace: bool = False
    description: str = ""
    info_url: str = ""


class JetStreamLimits(_Part):
    mem_storage: Int64 = 0
    disk_storage: Int64 = 0
    streams: Int64 = 0
    consumer: Int64 = 0
    max_ack_pending: Int64 = 0
    mem_max_stream_bytes: Int64 = 0
    disk_max_stream_bytes: Int64 = 0
    max_bytes_required: bool = False


class OperatorLimits(JetStreamLimits):
    """What the operator lets an account use."""

    subs: Int64 = 0
    data: Int64 = 0
    payload: Int64 = 0
    imports: Int64 = 0
    exports: Int64 = 0
    wildcards: bool = False
    disallow_bearer: bool = False
    conn: Int64 = 0
    leaf: Int64 = 0
    tiered_limits: dict[str, JetStreamLimits] = {}

    @property
    def has_jetstream(self) -> bool:
        tiers = list(self.tiered_limits.values()) or [self]
        return any(tier.mem_storage or tier.disk_storage for tier in tiers)


def unlimited_account() -> OperatorLimits:
    """As nats-server's tools begin: no limits, and no JetStream."""
    return OperatorLimits(
        subs=UNLIMITED,
        data=UNLIMITED,
        payload=UNLIMITED,
        imports=UNLIMITED,
        exports=UNLIMITED,
        wildcards=True,
        conn=UNLIMITED,
        leaf=UNLIMITED,
    )


class WeightedMapping(_Part):
    subject: str = ""
    weight: Int64 = 0  # percent; 0: 100
    cluster: str = ""


class ExternalAuthorization(_Part):
    """An authorization callout for the users of an account."""

    auth_users: list[str] = []
    allowed_accounts: list[str] = []
    xkey: str = ""


class MessageTrace(_Part):
    dest: str = ""
    sampling: Int64 = 0


class Account(_Part):
    imports: list[Import] = []
    exports: list[Export] = []
    limits: OperatorLimits = msgspec.field(default_factory=OperatorLimits)
    signing_keys: list[str | UserScope] = []
    revocations: dict[str, Int64] = {}
    default_permissions: PermissionClaims = msgspec.field(default_factory=PermissionClaims)
    mappings: dict[str, list[WeightedMapping]] = {}
    authorization: ExternalAuthorization = msgspec.field(default_factory=ExternalAuthorization)
    trace: MessageTrace | None = None
    cluster_traffic: str = ""
    description: str = ""
    info_url: str = ""
    tags: list[str] = []
    type: str = ""
    version: Int64 = 0

    @property
    def signers(self) -> dict[str, UserScope | None]:
        """The signing keys, each with its scope if it has one."""
        return {key if isinstance(key, str) else key.key: _scope(key) for key in self.signing_keys}


def _scope(key: str | UserScope) -> UserScope | None:
    return None if isinstance(key, str) else key


class Operator(_Part):
    signing_keys: list[str] = []
    account_server_url: str = ""
    operator_service_urls: list[str] = []
    system_account: str = ""
    assert_server_version: str = ""
    strict_signing_key_usage: bool = False
    tags: list[str] = []
    type: str = ""
    version: Int64 = 0


class Activation(_Part):
    """Lets an account import a private export."""

    subject: str = ""
    kind: str = ""  # stream or service
    issuer_account: str = ""
    tags: list[str] = []
    type: str = ""
    version: Int64 = 0


class ServerId(_Part):
    name: str = ""
    host: str = ""
    id: str = ""
    version: str = ""
    cluster: str = ""
    tags: list[str] = []
    xkey: str = ""


class ClientInformation(_Part):
    host: str = ""
    id: Int64 = 0
    user: str = ""
    name: str = ""
    tags: list[str] = []
    name_tag: str = ""
    kind: str = ""
    type: str = ""
    mqtt_id: str = ""
    nonce: str = ""


class ConnectClaims(_Part):
    """What a client said in CONNECT; it holds secrets."""

    jwt: str = ""
    nkey: str = ""
    sig: str = ""
    auth_token: str = ""
    user: str = ""
    password: str = msgspec.field(name="pass", default="")
    name: str = ""
    lang: str = ""
    version: str = ""
    protocol: Int64 = 0

    def __repr__(self) -> str:
        return f"ConnectClaims(name={self.name!r})"


class ClientTls(_Part):
    version: str = ""
    cipher: str = ""
    certs: list[str] = []
    verified_chains: list[list[str]] = []


class AuthorizationRequest(_Part):
    server_id: ServerId = msgspec.field(default_factory=ServerId)
    user_nkey: str = ""
    client_info: ClientInformation = msgspec.field(default_factory=ClientInformation)
    connect_opts: ConnectClaims = msgspec.field(default_factory=ConnectClaims)
    client_tls: ClientTls | None = None
    request_nonce: str = ""
    tags: list[str] = []
    type: str = ""
    version: Int64 = 0


class AuthorizationResponse(_Part):
    jwt: str = ""
    error: str = ""
    issuer_account: str = ""
    tags: list[str] = []
    type: str = ""
    version: Int64 = 0


class Claims(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What all tokens have. Times are seconds since 1970; 0: none."""

    audience: str = msgspec.field(name="aud", default="")
    expires: Int64 = msgspec.field(name="exp", default=0)
    id: str = msgspec.field(name="jti", default="")
    issued_at: Int64 = msgspec.field(name="iat", default=0)
    issuer: str = msgspec.field(name="iss", default="")
    name: str = ""
    not_before: Int64 = msgspec.field(name="nbf", default=0)
    subject: str = msgspec.field(name="sub", default="")


class OperatorClaims(Claims):
    nats: Operator = msgspec.field(default_factory=Operator)


class AccountClaims(Claims):
    nats: Account = msgspec.field(default_factory=Account)


class UserClaims(Claims):
    nats: User = msgspec.field(default_factory=User)


class ActivationClaims(Claims):
    nats: Activation = msgspec.field(default_factory=Activation)


class AuthorizationRequestClaims(Claims):
    nats: AuthorizationRequest = msgspec.field(default_factory=AuthorizationRequest)


class AuthorizationResponseClaims(Claims):
    nats: AuthorizationResponse = msgspec.field(default_factory=AuthorizationResponse)


class GenericClaims(Claims):
    """Of a kind that is not listed, such as the request to delete accounts."""

    nats: dict[str, Any] = {}


AnyClaims = (
    OperatorClaims
    | AccountClaims
    | UserClaims
    | ActivationClaims
    | AuthorizationRequestClaims
    | AuthorizationResponseClaims
    | GenericClaims
)
