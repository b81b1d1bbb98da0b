"""What is wrong with claims: they are expired, contradictory or exceed what the operator allows.

The texts are those of nats-server's library, since they reach tools through the answers of a resolver.
"""

from __future__ import annotations

import ipaddress
import re
import time
import zoneinfo
from collections.abc import Iterator
from typing import NamedTuple

from headrace.go_formats import quote
from headrace.keys.claims import (
    ALL,
    UNLIMITED,
    Account,
    AccountClaims,
    ActivationClaims,
    AuthorizationResponseClaims,
    Claims,
    Export,
    ExternalAuthorization,
    Import,
    PermissionClaims,
    UserClaims,
    UserLimits,
    UserScope,
)
from headrace.keys.jwt import InvalidToken, decode_as
from headrace.keys.nkeys import is_public

TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d):([0-5]\d)")
RESPONSE_TYPES = ("", "Singleton", "Stream", "Chunked")


class Problem(NamedTuple):
    text: str
    is_of_time: bool = False
    """Whether it depends on the time."""


def times(claims: Claims, now: float | None = None) -> Iterator[Problem]:
    seconds = int(time.time() if now is None else now)
    if 0 < claims.expires < seconds:
        yield Problem("claim is expired", is_of_time=True)
    if claims.not_before > 0 and claims.not_before > seconds:
        yield Problem("claim is not yet valid", is_of_time=True)


def user_problems(claims: UserClaims, now: float | None = None) -> list[Problem]:
    return list(_user(claims, now))


def account_problems(claims: AccountClaims, now: float | None = None) -> list[Problem]:
    return list(_account(claims, now))


def response_problems(claims: AuthorizationResponseClaims) -> list[Problem]:
    return list(_response(claims))


def _user(claims: UserClaims, now: float | None) -> Iterator[Problem]:
    yield from times(claims, now)
    yield from _permissions(claims.nats)
    yield from _user_limits(claims.nats)
    if claims.nats.issuer_account and not is_public(claims.nats.issuer_account, "account"):
        yield Problem("account_id is not an account public key")


def _user_limits(limits: UserLimits) -> Iterator[Problem]:
    for network in limits.src:
        if "/" not in network or not _is_network(network):
            yield Problem(f"invalid cidr {_quoted(network)} in user src limits")
    for span in limits.times:
        for name, value, article in (("start", span.start, "a"), ("end", span.end, "an")):
            if not value:
                yield Problem(f"time ranges {name} must contain {article} {name}")
            elif not TIME_OF_DAY.fullmatch(value):
                yield Problem(f"{name} in time range is invalid {_quoted(value)}")
    if limits.times_location and find_zone(limits.times_location) is None:
        zone = limits.times_location
        yield Problem(f"could not parse iana time zone by name: unknown time zone {zone}")


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def find_zone(name: str) -> zoneinfo.ZoneInfo | None:
    try:
        return zoneinfo.ZoneInfo(name)
    except (
        zoneinfo.ZoneInfoNotFoundError,
        ValueError,
        OSError,
    ):  # also: a path that leads out of its directory
        return None


def _permissions(permissions: PermissionClaims) -> Iterator[Problem]:
    for rules, has_queues in ((permissions.sub, True), (permissions.pub, False)):
        for rule in (*(rules.allow or ()), *rules.deny):
            parts = rule.split(" ")
            if len(parts) > 2:
                yield Problem(f'Permission Subject "{rule}" contains too many spaces')
                continue
            for part in parts:
                yield from subject_problems(part)
            if len(parts) == 2 and not has_queues:
                yield Problem(f'Permission Subject "{rule}" is not allowed to contain queue')


def subject_problems(subject: str) -> Iterator[Problem]:
    if not subject:
        yield Problem("subject cannot be empty")
        return
    if " " in subject:
        yield Problem(f"subject {_quoted(subject)} cannot have spaces")
    if subject[0] == "." or subject[-1] == ".":
        yield Problem(f"subject {_quoted(subject)} cannot start or end with a `.`")
    if ".." in subject:
        yield Problem(f"subject {_quoted(subject)} cannot contain consecutive `.`")


def _account(claims: AccountClaims, now: float | None) -> Iterator[Problem]:
    own = claims.nats
    yield from times(claims, now)
    yield from _imports(own.imports, claims.subject)
    yield from _exports(own.exports)
    if own.limits.tiered_limits and "" in own.limits.tiered_limits:
        yield Problem('Tiered JetStream Limits can not contain a blank "" tier name')
    yield from _permissions(own.default_permissions)
    yield from _mappings(own)
    yield from _authorization(own.authorization)
    yield from _within_limits(own)
    for key in own.signing_keys:
        yield from _signing_key(key)


def _within_limits(own: Account) -> Iterator[Problem]:
    limits = own.limits
    if limits.imports != UNLIMITED and len(own.imports) > limits.imports:
        yield Problem("the account contains more imports than allowed by the operator")
    if limits.exports != UNLIMITED:
        if len(own.exports) > limits.exports:
            yield Problem("the account contains more exports than allowed by the operator")
        if not limits.wildcards and any(has_wildcards(export.subject) for export in own.exports):
            yield Problem("the account contains wildcard exports that are not allowed by the operator")


def _signing_key(key: str | UserScope) -> Iterator[Problem]:
    if isinstance(key, str):
        if not is_public(key, "account"):
            yield Problem(f"{_quoted(key)} is not a valid account signing key")
    elif not is_public(key.key, "account"):
        yield Problem(f"{_quoted(key.key)} is not a valid account signing key")


def _imports(imports: list[Import], account: str) -> Iterator[Problem]:
    taken: dict[str, list[str]] = {}
    for entry in imports:
        if entry.type == "service":
            subject = entry.to or to_subject(entry.local_subject) or entry.subject
            for other in taken.setdefault(entry.account, []):
                if is_contained(subject, other) or is_contained(other, subject):
                    yield Problem(
                        f"overlapping subject namespace for {_quoted(subject)} and {_quoted(other)} "
                        f"in same account {_quoted(entry.account)}"
                    )
            taken[entry.account].append(subject)
        yield from import_problems(entry, account)


def import_problems(entry: Import, account: str) -> Iterator[Problem]:
    if entry.type not in ("service", "stream"):
        yield Problem(f"invalid import type: {_quoted(entry.type)}")
    if entry.type == "service" and entry.allow_trace:
        yield Problem("AllowTrace only valid for stream import")
    if not entry.account:
        yield Problem("account to import from is not specified")
    yield from subject_problems(entry.subject)
    if entry.local_subject:
        yield from subject_problems(entry.local_subject)
        if (entry.local_subject.split(".")[-1] == ">") != (entry.subject.split(".")[-1] == ">"):
            yield Problem("both, renaming subject and subject, need to end or not end in >")
        if entry.to:
            yield Problem("Local Subject replaces To")
    if entry.share and entry.type != "service":
        yield Problem(
            f"sharing information (for latency tracking) is only valid for services: {_quoted(entry.subject)}"
        )
    if entry.token:
        yield from _activation_token(entry, account)


def _activation_token(entry: Import, account: str) -> Iterator[Problem]:
    subject = _quoted(entry.subject)
    try:
        claims = decode_as(ActivationClaims, entry.token)
    except InvalidToken:
        yield Problem(f"import {subject} contains an invalid activation token")
        return
    if entry.account not in (claims.issuer, claims.nats.issuer_account):
        yield Problem(f"activation token doesn't match account for import {subject}")
    if claims.subject != account:
        yield Problem(f"activation token doesn't match account it is being included in, {subject}")
    if claims.nats.kind != entry.type:
        yield Problem(
            f"mismatch between token import type {claims.nats.kind} and type of import {entry.type}"
        )
    yield from subject_problems(claims.nats.subject)
    imported = entry.to if entry.type == "service" and entry.to else entry.subject
    if not is_contained(imported, claims.nats.subject):
        yield Problem(
            f"activation token import subject {_quoted(claims.nats.subject)} doesn't match import {subject}"
        )


def _exports(exports: list[Export]) -> Iterator[Problem]:
    for export in exports:
        yield from _export(export)
    for kind in ("service", "stream"):
        subjects = [export.subject for export in exports if export.type == kind]
        for place, subject in enumerate(subjects):
            for other_place, other in enumerate(subjects):
                if place != other_place and is_contained(subject, other):
                    yield Problem(
                        f"{kind} export subject {_quoted(other)} already exports {_quoted(subject)}"
                    )


def _export(export: Export) -> Iterator[Problem]:
    is_service = export.type == "service"
    if export.type not in ("service", "stream"):
        yield Problem(f"invalid export type: {_quoted(export.type)}")
    if is_service and export.response_type not in RESPONSE_TYPES:
        yield Problem(f"invalid response type for service: {_quoted(export.response_type)}")
    if export.type == "stream" and export.response_type:
        yield Problem(f"invalid response type for stream: {_quoted(export.response_type)}")
    if export.service_latency is not None:
        if not is_service:
            yield Problem("latency tracking only permitted for services")
        sampling = export.service_latency.sampling
        if isinstance(sampling, int) and not 0 <= sampling <= 100:
            yield Problem("sampling percentage needs to be between 1-100")
        yield from subject_problems(export.service_latency.results)
        if has_wildcards(export.service_latency.results):
            yield Problem("results subject can not contain wildcards")
    if export.response_threshold < 0:
        yield Problem("negative response threshold is invalid")
    if export.response_threshold > 0 and not is_service:
        yield Problem("response threshold only valid for services")
    yield from subject_problems(export.subject)
    yield from _token_position(export)


def _token_position(export: Export) -> Iterator[Problem]:
    position, tokens = export.account_token_position, export.subject.split(".")
    if position <= 0:
        return
    if not has_wildcards(export.subject):
        yield Problem(f"Account Token Position can only be used with wildcard subjects: {export.subject}")
    elif position > len(tokens):
        yield Problem(f"Account Token Position {position} exceeds length of subject '{export.subject}'")
    elif tokens[position - 1] != "*":
        yield Problem(
            f"Account Token Position {position} matches '{tokens[position - 1]}' but must match a * in: "
            f"{export.subject}"
        )


def _mappings(own: Account) -> Iterator[Problem]:
    for source, destinations in own.mappings.items():
        yield from subject_problems(source)
        total = 0
        for destination in destinations:
            yield from subject_problems(destination.subject)
            weight = destination.weight or 100
            if weight > 100:
                yield Problem(f"Mapping {_quoted(source)} has a weight {weight} that exceeds 100")
            if not destination.cluster:
                total += weight
        if total > 100:
            yield Problem(f"Mapping {_quoted(source)} exceeds 100% among all of it's weighted to mappings")


def _authorization(own: ExternalAuthorization) -> Iterator[Problem]:
    if own.allowed_accounts and not own.auth_users:
        yield Problem("External authorization cannot have accounts without users specified")
    for user in own.auth_users:
        if not is_public(user, "user"):
            yield Problem(f"AuthUser {_quoted(user)} is not a valid user public key")
    for account in own.allowed_accounts:
        if account == ALL:
            if len(own.allowed_accounts) > 1:
                yield Problem('AllowedAccounts can only be a list of accounts or "*"')
        elif not is_public(account, "account"):
            yield Problem(f"Account {_quoted(account)} is not a valid account public key")
    if own.xkey and not is_public(own.xkey, "curve"):
        yield Problem(f"XKey {_quoted(own.xkey)} is not a valid public xkey")


def _response(claims: AuthorizationResponseClaims) -> Iterator[Problem]:
    if not is_public(claims.subject, "user"):
        yield Problem("Subject must be a user public key")
    if not is_public(claims.audience, "server"):
        yield Problem("Audience must be a server public key")
    if not claims.nats.error and not claims.nats.jwt:
        yield Problem("Error or Jwt is required")
    if claims.nats.error and claims.nats.jwt:
        yield Problem("Only Error or Jwt can be set")
    if claims.nats.issuer_account and not is_public(claims.nats.issuer_account, "account"):
        yield Problem("issuer_account is not an account public key")
    yield from times(claims)


def has_wildcards(subject: str) -> bool:
    tokens = subject.split(".")
    return "*" in tokens or tokens[-1] == ">"


def to_subject(renaming: str) -> str:
    """A renaming subject has `$1` where the first wildcard of the other goes: a wildcard, for overlaps."""
    return ".".join("*" if re.fullmatch(r"\$\d+", token) else token for token in renaming.split("."))


def is_contained(subject: str, other: str) -> bool:
    """Whether every subject that the first matches is matched by the other."""
    ours, theirs = subject.split("."), other.split(".")
    if len(ours) < len(theirs) or (len(ours) > len(theirs) and theirs[-1] != ">"):
        return False
    for place, token in enumerate(theirs):
        if token == ">" and place == len(theirs) - 1:
            return True
        if token not in (ours[place], "*"):
            return False
    return True


def _quoted(text: str) -> str:
    return quote(text.encode())
