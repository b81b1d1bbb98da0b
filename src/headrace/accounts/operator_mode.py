"""Authentication in operator mode: users send tokens, and sign the nonce with the key in them."""

from __future__ import annotations

from headrace.accounts.authentication import NOTHING, Authenticator
from headrace.accounts.claims_directory import ClaimsDirectory
from headrace.accounts.credentials import Credentials, Identity, Refused
from headrace.accounts.user_tokens import check_user, find_account, read_user_token
from headrace.config.options import Options
from headrace.keys.claims import UserClaims
from headrace.keys.jwt import InvalidToken, decode_as


class OperatorAuthenticator(Authenticator):
    """Checks tokens against the accounts of the operator."""

    def __init__(self, options: Options, accounts: ClaimsDirectory) -> None:
        super().__init__(options)
        self.required = True
        self.wants_nonce = True
        self._accounts = accounts
        self._pinned = options.trust.pinned_accounts
        if self._pinned:
            self._pinned |= {options.system_account}
        self._sentinel = options.trust.default_sentinel

    def token_of(self, credentials: Credentials) -> str:
        """Raises Refused if it sends none and there is no default_sentinel."""
        try:
            decode_as(UserClaims, credentials.jwt)
            return credentials.jwt
        except InvalidToken as error:
            if self._sentinel:
                return self._sentinel
            if credentials.jwt:
                raise Refused(f"Authentication requires a user JWT: {error}") from None
            raise Refused("Authentication requires a user JWT") from None

    def _check(self, credentials: Credentials) -> Identity | None:
        claims = read_user_token(self.token_of(credentials))
        account = find_account(claims, self._accounts, self._pinned)
        return check_user(claims, account, credentials)

    def account_of(self, credentials: Credentials) -> str:
        try:
            claims = decode_as(UserClaims, self.token_of(credentials))
        except (Refused, InvalidToken):
            return ""
        name = claims.nats.issuer_account or claims.issuer
        return name if self._pinned is None or name in self._pinned else ""

    def identify_without_connect(self, known: Credentials = NOTHING) -> Identity | None:
        return None
