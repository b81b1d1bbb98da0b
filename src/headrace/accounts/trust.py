"""Which keys may sign the tokens of accounts."""

from __future__ import annotations

from headrace.config.operators.checks import trusted_signers
from headrace.config.operators.trust import TrustOptions
from headrace.keys.claims import OperatorClaims
from headrace.keys.jwt import decode_as


class Trust:
    """Of the operators in the options."""

    def __init__(self, options: TrustOptions) -> None:
        self.operators = [decode_as(OperatorClaims, token) for token in options.operators]
        self.keys = trusted_signers(options)
        self._strict = {
            key
            for operator in self.operators
            if operator.nats.strict_signing_key_usage
            for key in operator.nats.signing_keys
        }

    def is_strict(self, issuer: str) -> bool:
        """Whether accounts of this issuer must sign with signing keys."""
        return issuer in self._strict
