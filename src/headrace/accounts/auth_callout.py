"""The authorization callout: a request to a service that says who a client is, and what its answer means.

Each request contains a new public key. The answer must contain it, name this server and be signed, so
neither an older answer nor one for another client can be replayed.
"""

from __future__ import annotations

import time
from typing import Protocol

import msgspec

from headrace.accounts.claims_directory import AccountInvalid, ClaimsDirectory
from headrace.accounts.credentials import NO_LIMITS, Credentials, Identity, Refused
from headrace.accounts.resolvers import AccountNotFound
from headrace.accounts.user_tokens import check_connection_type, identify_user, scoped_limits
from headrace.accounts.validation import response_problems, user_problems
from headrace.config.identity import Permissions, SubjectRules
from headrace.keys.claims import (
    ALL,
    AuthorizationRequest,
    AuthorizationRequestClaims,
    AuthorizationResponseClaims,
    ClientInformation,
    ConnectClaims,
    ServerId,
    UserClaims,
)
from headrace.keys.jwt import PREFIX, InvalidToken, decode_as, encode
from headrace.keys.nkeys import InvalidKey, KeyPair
from headrace.keys.xkeys import open_box, seal

SUBJECT = b"$SYS.REQ.USER.AUTH"
AUDIENCE = "nats-authorization-request"
XKEY_HEADER = b"Nats-Server-Xkey"
CLIENT_TYPES = {"STANDARD": "nats", "WEBSOCKET": "websocket"}


class CalloutFailed(Exception):
    """Why a client is refused, for the log: in the words of nats-server, with a capital letter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason[:1].upper() + reason[1:])


class ServerKeys(Protocol):
    """The server signs with one, and decrypts with the other."""

    signing: KeyPair
    curve: KeyPair


class Callout(msgspec.Struct, frozen=True):
    """Whom to ask, and what is expected of the answer."""

    account: str
    """Where the service is."""
    issuer: str
    """Who signs; in operator mode, the account."""
    xkey: str = ""
    """The curve key of the service; empty: nothing is encrypted."""


class Exchange:
    """One request and its answer."""

    def __init__(self, callout: Callout, keys: ServerKeys, credentials: Credentials) -> None:
        self._callout = callout
        self._keys = keys
        self._credentials = credentials
        self._user = KeyPair.create("user").public_key

    def request(self, server: ServerId, user: str, seconds: float) -> tuple[bytes, bytes]:
        """Headers and payload. `user` is who the client says that it is."""
        credentials, callout = self._credentials, self._callout
        if callout.xkey:
            server.xkey = self._keys.curve.public_key
        claims = AuthorizationRequestClaims(
            audience=AUDIENCE,
            subject=callout.issuer,
            expires=int(time.time() + seconds),
            nats=AuthorizationRequest(
                server_id=server,
                user_nkey=self._user,
                client_info=_client_information(credentials, user),
                connect_opts=_connect_claims(credentials),
            ),
        )
        token = encode(claims, self._keys.signing).encode()
        if not callout.xkey:
            return b"", token
        headers = b"NATS/1.0\r\n%s: %s\r\n\r\n" % (XKEY_HEADER, self._keys.curve.public_key.encode())
        return headers, seal(token, self._keys.curve, callout.xkey)

    def read(self, answer: bytes, accounts: ClaimsDirectory | None) -> tuple[UserClaims, bool]:
        """The claims of the user, and whether the answer was encrypted. Raises CalloutFailed."""
        callout = self._callout
        if not answer:
            raise CalloutFailed(
                f'auth callout violation: "no reason supplied" on account "{callout.account}"'
            )
        is_encrypted = bool(callout.xkey) and not answer.startswith(PREFIX.encode())
        if is_encrypted:
            answer = self._open(answer)
        try:
            claims = decode_as(AuthorizationResponseClaims, answer.decode("ascii"))
        except (InvalidToken, UnicodeDecodeError) as error:
            raise CalloutFailed(
                str(error) if isinstance(error, InvalidToken) else "illegal base64 data"
            ) from None
        self._check_response(claims)
        if not is_encrypted:
            self._check_signer(claims, accounts)
        try:
            user = decode_as(UserClaims, claims.nats.jwt)
        except InvalidToken as error:
            raise CalloutFailed(str(error)) from None
        if problems := user_problems(user):
            raise CalloutFailed(f"Error validating user JWT: {problems[0].text}")
        if user.subject != self._user:
            raise CalloutFailed(
                f'Expected authorized user of "{self._user}" but got "{user.subject}" '
                f'on account "{callout.account}"'
            )
        return user, is_encrypted

    def _open(self, answer: bytes) -> bytes:
        try:
            return open_box(answer, self._keys.curve, self._callout.xkey)
        except InvalidKey as error:
            raise CalloutFailed(
                f'error decrypting auth callout response on account "{self._callout.account}": {error}'
            ) from None

    def _check_response(self, claims: AuthorizationResponseClaims) -> None:
        if problems := response_problems(claims):
            raise CalloutFailed(f"authorization response had validation errors: {problems[0].text}")
        if claims.subject != self._user:
            raise CalloutFailed("auth callout violation: auth callout response is not for expected user")
        if claims.audience != self._keys.signing.public_key:
            raise CalloutFailed("auth callout violation: auth callout response is not for server")
        if claims.nats.error:
            raise CalloutFailed(f"auth callout service returned an error: {claims.nats.error}")

    def _check_signer(self, claims: AuthorizationResponseClaims, accounts: ClaimsDirectory | None) -> None:
        """In operator mode, it is the account of the service or one of its signing keys."""
        account, issuer_account = self._callout.account, claims.nats.issuer_account
        if accounts is None:
            is_known = claims.issuer == self._callout.issuer
        elif issuer_account and issuer_account != account:
            raise CalloutFailed(
                f'auth callout response issuer account "{issuer_account}" is not the callout account'
            )
        else:
            is_known = claims.issuer == account or claims.issuer in accounts[account].signers
        if not is_known:
            raise CalloutFailed("auth callout signing key is unknown")

    # -- who the client is

    def identify(self, user: UserClaims, accounts: ClaimsDirectory | None) -> Identity:
        """Raises CalloutFailed. Whether its account exists is for the caller to check, in config mode."""
        credentials = self._credentials
        try:
            if accounts is None:
                self._check_issuer(user)
                check_connection_type(user.nats, credentials.connection_type)
                identity = identify_user(user, user.nats, None)
            else:
                identity = self._identify_in_operator_mode(user, accounts)
        except Refused as refused:
            raise CalloutFailed(refused.reason) from None
        name = user.name or credentials.user or credentials.nkey or identity.user
        # As in nats-server, limits in such a token do not count; those of its account do.
        named, tags = self._names_of_client(accounts)
        return msgspec.structs.replace(identity, user=name, limits=NO_LIMITS, name=named, tags=tags)

    def _names_of_client(self, accounts: ClaimsDirectory | None) -> tuple[str, tuple[str, ...]]:
        """In operator mode the client has a token of its own, whose name and tags stay with it."""
        if accounts is None:
            return "", ()
        try:
            own = decode_as(UserClaims, self._credentials.jwt)
        except InvalidToken:  # it came with the default sentinel
            return "", ()
        return own.name, tuple(own.nats.tags)

    def _check_issuer(self, user: UserClaims) -> None:
        account, issuer = self._callout.account, self._callout.issuer
        if user.nats.issuer_account:
            raise CalloutFailed(
                f'error non operator mode account "{account}": attempted to use issuer_account'
            )
        if user.issuer != issuer:
            raise CalloutFailed(
                f'wrong issuer for auth callout response on account "{account}", '
                f'expected "{issuer}" got "{user.issuer}"'
            )

    def _identify_in_operator_mode(self, user: UserClaims, accounts: ClaimsDirectory) -> Identity:
        account = accounts[self._callout.account]
        name = user.nats.issuer_account or user.issuer
        allowed = account.claims.nats.authorization.allowed_accounts
        if name != account.name and ALL not in allowed and name not in allowed:
            raise CalloutFailed(
                f'account "{user.issuer}" not permitted as valid account option for auth callout '
                f'for account "{account.name}"'
            )
        try:
            target = accounts.find(name)
        except (AccountNotFound, AccountInvalid) as error:
            raise CalloutFailed(
                f'no valid account "{name}" for auth callout response on account "{account.name}": {error}'
            ) from None
        if user.issuer not in target.signers:
            raise CalloutFailed(f'user JWT issuer "{user.issuer}" is not known')
        limits = scoped_limits(user, target)
        check_connection_type(limits, self._credentials.connection_type)
        return identify_user(user, limits, target)


def without_callout_subject(permissions: Permissions | None) -> Permissions:
    """Users in the account of the service must not impersonate the server."""
    permissions = permissions or Permissions()
    publish = permissions.publish or SubjectRules()
    subject = SUBJECT.decode()
    denied = msgspec.structs.replace(publish, deny=(*publish.deny, subject))
    return msgspec.structs.replace(permissions, publish=denied)


def _client_information(credentials: Credentials, user: str) -> ClientInformation:
    return ClientInformation(
        host=credentials.host,
        id=credentials.cid,
        user=user,
        name=credentials.name,
        kind="Client",
        type=CLIENT_TYPES.get(credentials.connection_type, "nats"),
        nonce=credentials.nonce if credentials.sig else "",
    )


def _connect_claims(credentials: Credentials) -> ConnectClaims:
    return ConnectClaims(
        jwt=credentials.jwt,
        nkey=credentials.nkey,
        sig=credentials.sig,
        auth_token=credentials.token,
        user=credentials.user,
        password=credentials.password,
        name=credentials.name,
        lang=credentials.lang,
        version=credentials.version,
        protocol=credentials.protocol,
    )
