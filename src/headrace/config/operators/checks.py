"""Which options of operator mode contradict each other, in the words of nats-server."""

from __future__ import annotations

from headrace.config.identity import User
from headrace.config.operators.trust import TrustOptions
from headrace.errors import ConfigError
from headrace.go_formats import quote
from headrace.keys.claims import AccountClaims, OperatorClaims, UserClaims
from headrace.keys.jwt import InvalidToken, decode_as
from headrace.keys.nkeys import is_public

SIGNER_HINT = "let the operator sign it again, trust the operator who signed it, or remove it"


def check_trust(
    trust: TrustOptions, *, system_account: str, has_accounts: bool, users: tuple[User, ...], version: str
) -> None:
    """Raises ConfigError."""
    if not trust.operators:
        if trust.default_sentinel:
            raise ConfigError("default sentinel requires operators and accounts")
        return
    _check_sentinel(trust.default_sentinel)
    if trust.resolver is None:
        raise ConfigError(
            "operators require an account resolver to be configured",
            hint="resolver: MEMORY with resolver_preload, or resolver: {type: full, dir: ...}",
        )
    if has_accounts:
        raise ConfigError("operators do not allow Accounts to be configured directly")
    if users:
        raise ConfigError("operators do not allow users to be configured directly")
    if trust.trusted_keys:
        raise ConfigError("conflicting options for 'TrustedKeys' and 'TrustedOperators'")
    operators = [decode_as(OperatorClaims, token) for token in trust.operators]
    _check_system_account(trust, operators, system_account)
    for operator in operators:
        _check_version(operator, version)
    for key in sorted(trust.pinned_accounts or ()):
        if not is_public(key, "account"):
            raise ConfigError(f'pinned account key "{key}" is not a valid public account nkey')


def trusted_signers(trust: TrustOptions) -> frozenset[str]:
    """The public keys that may sign tokens of accounts."""
    signers = set(trust.trusted_keys)
    for token in trust.operators:
        operator = decode_as(OperatorClaims, token)
        signers.update(operator.nats.signing_keys)
        if not operator.nats.strict_signing_key_usage:
            signers.add(operator.subject)
    return frozenset(signers)


def signer_problem(token: str, signers: frozenset[str]) -> str:
    """What is wrong if none of them has signed this account of `resolver_preload`; empty: nothing."""
    claims = decode_as(AccountClaims, token)
    if claims.issuer in signers:
        return ""
    return (
        f"resolver_preload: account {claims.subject} ({quote(claims.name)}) is signed by {claims.issuer}, "
        "which is not a trusted operator or a signing key of one"
    )


def check_signers(trust: TrustOptions, *, path: str) -> None:
    """Raises ConfigError for an account of `resolver_preload` that could never be used: nats-server starts,
    and refuses its users. A directory may have a newer token, so OperatorMode checks there.
    """
    if not trust.is_operator_mode or (trust.resolver is not None and trust.resolver.kind != "memory"):
        return
    signers = trusted_signers(trust)
    for token in trust.preload.values():
        if problem := signer_problem(token, signers):
            raise ConfigError(problem, path=path, hint=SIGNER_HINT)


def system_account_of(trust: TrustOptions) -> str:
    """The one that the only operator names; empty: none."""
    if len(trust.operators) != 1:
        return ""
    return decode_as(OperatorClaims, trust.operators[0]).nats.system_account


def _check_sentinel(token: str) -> None:
    if not token:
        return
    try:
        claims = decode_as(UserClaims, token)
    except InvalidToken:
        raise ConfigError("default sentinel JWT not valid") from None
    if not claims.nats.bearer_token and not (claims.nats.issuer_account and claims.nats.is_scoped):
        raise ConfigError("default sentinel must be a bearer token")


def _check_system_account(trust: TrustOptions, operators: list[OperatorClaims], system_account: str) -> None:
    named = [operator.nats.system_account for operator in operators]
    if system_account:
        if any(named) and system_account not in named:
            raise ConfigError("system_account in config and operator JWT must be identical")
    elif not named[0] and trust.resolver is not None and trust.resolver.kind in ("full", "cache"):
        raise ConfigError(
            "using nats based account resolver - the system account needs to be specified in configuration "
            "or the operator jwt"
        )


def _check_version(operator: OperatorClaims, version: str) -> None:
    asserted = operator.nats.assert_server_version
    if not asserted:
        return
    parts = asserted.split(".")
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise ConfigError(
            f"operator {operator.subject} expects version {asserted} got error instead: "
            "asserted server version must be of the form <major>.<minor>.<update>"
        )
    for name, wanted, own in zip(("major", "minor", "update"), parts, version.split("."), strict=True):
        if int(wanted) > int(own):
            raise ConfigError(
                f"operator {operator.subject} expected {name} version {wanted} > server {name} version {own}"
            )
        if int(wanted) < int(own):
            return
