"""An account as its token describes it."""

from __future__ import annotations

import time

import msgspec

from headrace.config.identity import (
    AccountLimits,
    AccountOptions,
    ClientLimits,
    Destination,
    Latency,
    Mapping,
    Permissions,
    ResponseRule,
    ServiceExport,
    ServiceImport,
    StreamExport,
    StreamImport,
    SubjectRules,
    TraceOptions,
)
from headrace.keys.claims import (
    ALL,
    UNLIMITED,
    AccountClaims,
    Export,
    Import,
    JetStreamLimits,
    MessageTrace,
    OperatorLimits,
    PermissionClaims,
    SubjectList,
    UserScope,
)
from headrace.subjects import grammar

INT32_MAX = 2**31 - 1
NANOSECONDS = 1_000_000_000
RESPONSES = {"Stream": "stream", "Chunked": "chunked"}
ONE_REPLICA = "R1"
"""The tier of streams on one server."""


class ClaimAccount(msgspec.Struct, frozen=True):
    """What the server knows of an account from its token; a new token makes a new one."""

    claims: AccountClaims
    token: str
    signers: dict[str, UserScope | None]
    """Which keys may sign tokens of its users; None: with permissions of their own."""
    fetched_at: float
    """By the monotonic clock."""

    @property
    def name(self) -> str:
        return self.claims.subject

    def is_expired(self, now: float | None = None) -> bool:
        return 0 < self.claims.expires <= (time.time() if now is None else now)

    def has_revoked(self, nkey: str, issued_at: int) -> bool:
        return is_revoked(self.claims.nats.revocations, nkey, issued_at)

    @property
    def has_callout(self) -> bool:
        return bool(self.claims.nats.authorization.auth_users)


def account_of(claims: AccountClaims, token: str, *, needs_signing_keys: bool) -> ClaimAccount:
    """`needs_signing_keys`: the operator does not let the account's own key sign."""
    signers = claims.nats.signers
    if not needs_signing_keys:
        signers[claims.subject] = None
    return ClaimAccount(claims, token, signers, time.monotonic())


def is_revoked(revocations: dict[str, int], key: str, issued_at: int) -> bool:
    """A revocation is a time: tokens that were issued up to then are no longer accepted."""
    return any(revocations[name] >= issued_at for name in (key, ALL) if name in revocations)


def options_of(account: ClaimAccount, imports: list[Import]) -> AccountOptions:
    """What the broker needs to know of it. `imports` are those that it is entitled to."""
    own = account.claims.nats
    return AccountOptions(
        account.name,
        title=account.claims.name,
        jetstream=_jetstream(own.limits),
        limits=ClientLimits(
            max_connections=limit_of(own.limits.conn),
            max_subscriptions=limit_of(own.limits.subs),
            max_payload=limit_of(own.limits.payload),
            max_leafnodes=limit_of(own.limits.leaf),
        ),
        default_permissions=permissions_of(own.default_permissions),
        stream_exports=tuple(_stream_export(entry) for entry in own.exports if entry.type == "stream"),
        service_exports=tuple(_service_export(entry) for entry in own.exports if entry.type == "service"),
        stream_imports=tuple(_stream_import(entry) for entry in imports if entry.type == "stream"),
        service_imports=tuple(_service_import(entry) for entry in imports if entry.type == "service"),
        mappings=tuple(
            Mapping(
                source, tuple(Destination(to.subject, to.weight or 100, to.cluster) for to in destinations)
            )
            for source, destinations in own.mappings.items()
        ),
        trace=trace_of(own.trace),
    )


def trace_of(claims: MessageTrace | None) -> TraceOptions:
    """A destination that is none, or a share that is none, does not count, as in nats-server."""
    if claims is None or not grammar.is_valid_publish_subject(claims.dest):
        return TraceOptions()
    return TraceOptions(claims.dest, claims.sampling if 1 <= claims.sampling <= 100 else 100)


def permissions_of(claims: PermissionClaims) -> Permissions | None:
    """None: it may do everything, or what its account allows by default."""
    publish, subscribe = _rules(claims.pub), _rules(claims.sub)
    responses = None
    if claims.resp is not None:
        responses = ResponseRule(
            claims.resp.max or ResponseRule().max_messages,
            claims.resp.ttl / NANOSECONDS if claims.resp.ttl else ResponseRule().seconds,
        )
        # A user who may answer may publish nothing else, unless rules allow it.
        publish = SubjectRules(tuple(claims.pub.allow or ()), tuple(claims.pub.deny))
    if publish is None and subscribe is None and responses is None:
        return None
    return Permissions(publish, subscribe, responses)


def _rules(subjects: SubjectList) -> SubjectRules | None:
    """Empty lists alone say nothing; an empty `allow` next to `deny` does."""
    if not subjects.allow and not subjects.deny:
        return None
    return SubjectRules(None if subjects.allow is None else tuple(subjects.allow), tuple(subjects.deny))


def limit_of(claimed: int) -> int:
    """nats-server has 32 bits for it. Below -1, which is no limit, it allows nothing."""
    return min(claimed, INT32_MAX) if claimed >= UNLIMITED else 0


def _jetstream(limits: OperatorLimits) -> AccountLimits | None:
    if not limits.has_jetstream:
        return None
    tier: JetStreamLimits | None = limits.tiered_limits.get(ONE_REPLICA) if limits.tiered_limits else limits
    if tier is None:
        return None
    return AccountLimits(
        max_memory=tier.mem_storage,
        max_storage=tier.disk_storage,
        max_streams=tier.streams,
        max_consumers=tier.consumer,
        max_ack_pending=_or_unlimited(tier.max_ack_pending),
        memory_max_stream_bytes=_or_unlimited(tier.mem_max_stream_bytes),
        storage_max_stream_bytes=_or_unlimited(tier.disk_max_stream_bytes),
        max_bytes_required=tier.max_bytes_required,
    )


def _or_unlimited(limit: int) -> int:
    return limit if limit > 0 else -1


def _stream_export(entry: Export) -> StreamExport:
    """For everybody: who may import a private one was decided when the imports were (`entitlements`)."""
    return StreamExport(entry.subject, token_position=entry.account_token_position)


def _service_export(entry: Export) -> ServiceExport:
    latency = entry.service_latency
    sampling = latency.sampling if latency else 0
    return ServiceExport(
        entry.subject,
        token_position=entry.account_token_position,
        response=RESPONSES.get(entry.response_type, "singleton"),  # type: ignore[arg-type]
        response_threshold=entry.response_threshold / NANOSECONDS,
        latency=Latency(latency.results, sampling if isinstance(sampling, int) else 0) if latency else None,
        allow_trace=entry.allow_trace,
    )


def _stream_import(entry: Import) -> StreamImport:
    """The old `to` is a prefix; the subject that replaces it is a whole one."""
    to = entry.local_subject or (f"{entry.to}.{entry.subject}" if entry.to else "")
    return StreamImport(entry.account, entry.subject, to, allow_trace=entry.allow_trace)


def _service_import(entry: Import) -> ServiceImport:
    """In tokens, the old `to` is the subject of the exporting account."""
    if entry.local_subject:
        return ServiceImport(entry.account, entry.subject, entry.local_subject, entry.share)
    return ServiceImport(entry.account, entry.to or entry.subject, entry.subject, entry.share)
