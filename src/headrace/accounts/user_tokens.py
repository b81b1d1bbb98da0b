"""From the token of a user to an identity: is it intact, of an account that is trusted, for this client, here
and now?

The order is nats-server's, and so are the reasons, which go to the log and never to the client.
"""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta

from headrace.accounts.challenge import check_signature
from headrace.accounts.claim_account import ClaimAccount, limit_of, permissions_of
from headrace.accounts.claims_directory import AccountInvalid, ClaimsDirectory
from headrace.accounts.credentials import Credentials, Identity, Limits, Refused
from headrace.accounts.resolvers import AccountNotFound
from headrace.accounts.templates import fill_in
from headrace.accounts.validation import TIME_OF_DAY, find_zone, user_problems
from headrace.go_formats import quote
from headrace.keys.claims import UserClaims, UserLimits
from headrace.keys.jwt import InvalidToken, decode_as

CONNECTION_TYPES = frozenset(
    {"STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"}
)

MAPPED_PREFIX = 96  # bits before an IPv4 address in an IPv6 one


def read_user_token(token: str) -> UserClaims:
    """Raises Refused unless it is intact and its time has come."""
    try:
        claims = decode_as(UserClaims, token)
    except InvalidToken as error:
        raise Refused(f"User JWT not valid: {error}") from None
    if problems := user_problems(claims):
        raise Refused(f"User JWT no longer valid: {problems[0].text} {_named(claims)}", is_error=True)
    if claims.nats.proxy_required:
        raise Refused("proxy required")  # there is no trusted proxy
    return claims


def _named(claims: UserClaims) -> str:
    """Who needs a new token, for the log."""
    account = claims.nats.issuer_account or claims.issuer
    user, key, of = (quote(text) for text in (claims.name, claims.subject, account))
    return f"(user {user}, {key}, of account {of}: make a new token)"


def find_account(
    claims: UserClaims, accounts: ClaimsDirectory, pinned: frozenset[str] | None
) -> ClaimAccount:
    """Whose user it is. Raises Refused."""
    name = claims.nats.issuer_account or claims.issuer
    if pinned is not None and name not in pinned:
        raise Refused(f"Account {name} not listed as operator pinned account")
    try:
        return accounts.find(name)
    except (AccountNotFound, AccountInvalid) as error:
        raise Refused(f"Account JWT lookup error: {error} {_named(claims)}", is_error=True) from None


def scoped_limits(claims: UserClaims, account: ClaimAccount) -> UserLimits:
    """Its own limits, or those of its signing key. Raises Refused."""
    if claims.issuer not in account.signers:
        raise Refused(f"User JWT issuer is not known: {claims.issuer} {_named(claims)}", is_error=True)
    scope = account.signers[claims.issuer]
    if scope is None:
        return claims.nats
    if not claims.nats.is_scoped:
        raise Refused("User JWT is not valid: scoped users require no permissions or limits set")
    return fill_in(scope.template, claims, account.claims)


def check_user(claims: UserClaims, account: ClaimAccount, credentials: Credentials) -> Identity:
    """Raises Refused."""
    limits = scoped_limits(claims, account)
    if account.is_expired():
        raise Refused("Account JWT has expired")
    if limits.bearer_token and account.claims.nats.limits.disallow_bearer:
        raise Refused("Account does not allow bearer tokens")
    check_connection_type(limits, credentials.connection_type)
    if not limits.bearer_token:
        check_signature(credentials, claims.subject)
    if account.has_revoked(claims.subject, claims.issued_at):
        raise Refused("User authentication revoked")
    if not is_allowed_from(limits.src, credentials.host):
        raise Refused(f"Bad src Ip {credentials.host}", is_error=True)
    return identify_user(claims, limits, account)


def identify_user(claims: UserClaims, limits: UserLimits, account: ClaimAccount | None) -> Identity:
    """Raises Refused outside of its times. `account` is that of operator mode."""
    ends_at = allowed_until(limits)
    if claims.expires and (ends_at is None or claims.expires < ends_at):
        ends_at = float(claims.expires)
    own = permissions_of(limits)
    by_default = permissions_of(account.claims.nats.default_permissions) if account else None
    return Identity(
        claims.subject,
        account=account.name if account else claims.audience,
        permissions=own or by_default,
        expires_at=ends_at,
        nkey=claims.subject,
        issued_at=claims.issued_at,
        signing_key=claims.issuer if claims.nats.issuer_account else "",
        is_bearer=limits.bearer_token,
        has_default_permissions=own is None,
        limits=Limits(subscriptions=limit_of(limits.subs), payload=limit_of(limits.payload)),
        name=claims.name,
        tags=tuple(claims.nats.tags),
    )


def check_connection_type(limits: UserLimits, connection_type: str) -> None:
    """Types that are not known are left out, but if all are unknown nothing is allowed."""
    named = {name.upper() for name in limits.allowed_connection_types}
    if named and connection_type not in named & CONNECTION_TYPES:
        raise Refused("Connection type not allowed")


def is_allowed_from(networks: list[str], host: str) -> bool:
    if not networks:
        return True
    try:
        address = ipaddress.ip_address(host)
        return any(address in _network(network) for network in networks)
    except ValueError:
        return False


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """An IPv4 network may be written as IPv6: `::ffff:10.0.0.0/104`. Raises ValueError."""
    network = ipaddress.ip_network(text, strict=False)
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= MAPPED_PREFIX:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.IPv4Network((mapped, network.prefixlen - MAPPED_PREFIX))
    return network


def allowed_until(limits: UserLimits, now: datetime | None = None) -> float | None:
    """When the time of day is over in which the user may be connected, in seconds since 1970; None: never.
    Raises Refused outside of it.
    """
    if not limits.times:
        return None
    zone = find_zone(limits.times_location) if limits.times_location else None
    if limits.times_location and zone is None:
        raise Refused("Outside connect times", is_error=True)
    now = now or datetime.now().astimezone()
    now = now.astimezone(zone) if zone else now
    ends = [end for span in limits.times if (end := _end_of_span(span.start, span.end, now)) is not None]
    if not ends:
        raise Refused("Outside connect times", is_error=True)
    return max(ends).timestamp()


def _end_of_span(first: str, last: str, now: datetime) -> datetime | None:
    """When this span of the day ends in which it is now; None: it is not in it."""
    start, end = _at(first, now), _at(last, now)
    if start is None or end is None:
        return None
    if start < now < end:
        return end
    if start > end:  # it goes beyond midnight
        if now < end:
            return end
        tomorrow = end + timedelta(days=1)
        if start < now < tomorrow:
            return tomorrow
    return None


def _at(time_of_day: str, day: datetime) -> datetime | None:
    parsed = TIME_OF_DAY.fullmatch(time_of_day)
    if parsed is None:
        return None
    hour, minute, second = (int(part) for part in parsed.groups())
    return day.replace(hour=hour, minute=minute, second=second, microsecond=0)
