"""Which imports an account is entitled to: those of public exports, those in whose subject it is named where
the export wants it (`account_token_position`), and of private exports those for which it has an activation
token that is valid.

A token is valid if the exporting account, or one of its signing keys, has signed it for exactly this account
and subject, and it is neither expired nor revoked. It is checked again whenever one of the two accounts
changes, and when it expires.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from headrace.accounts.claim_account import ClaimAccount, is_revoked
from headrace.accounts.validation import import_problems, is_contained, times
from headrace.keys.claims import ActivationClaims, Export, Import
from headrace.keys.jwt import InvalidToken, decode_as


def entitled_imports(
    account: ClaimAccount, find: Callable[[str], ClaimAccount | None], now: float | None = None
) -> tuple[list[Import], float | None]:
    """The valid imports, and when the next of them expires, in seconds since 1970 (None: never)."""
    entitled, ends = [], []
    for entry in account.claims.nats.imports:
        exporter = find(entry.account)
        export = _find_export(exporter, entry) if exporter is not None else None
        if exporter is None or export is None:
            continue
        if export.account_token_position:
            if not _names_importer(export, exported_subject(entry), account.name):
                continue
        elif export.token_req:
            activation = _activation(account, entry, exporter, export, now)
            if activation is None:
                continue
            if activation.expires:
                ends.append(float(activation.expires))
        entitled.append(entry)
    return entitled, min(ends, default=None)


def exported_subject(entry: Import) -> str:
    """What it is called in the exporting account."""
    return entry.to if entry.type == "service" and entry.to and not entry.local_subject else entry.subject


def _names_importer(export: Export, subject: str, importer: str) -> bool:
    """Whether the token of the subject that is kept for the name of the importing account has it. Then it
    needs no activation, as in nats-server.
    """
    place = export.account_token_position - 1
    return subject.split(".")[place : place + 1] == [importer]


def _find_export(exporter: ClaimAccount, entry: Import) -> Export | None:
    subject = exported_subject(entry)
    exports = [export for export in exporter.claims.nats.exports if export.type == entry.type]
    exact = [export for export in exports if export.subject == subject]
    wider = [export for export in exports if is_contained(subject, export.subject)]
    return next(iter(exact or wider), None)


def _activation(
    account: ClaimAccount, entry: Import, exporter: ClaimAccount, export: Export, now: float | None
) -> ActivationClaims | None:
    """The claims of its activation token; None: it is not valid."""
    if not entry.token or any(import_problems(entry, account.name)):
        return None
    try:
        claims = decode_as(ActivationClaims, entry.token)
    except InvalidToken:
        return None
    issuer_account = claims.nats.issuer_account
    if issuer_account and (issuer_account != exporter.name or claims.issuer not in exporter.signers):
        return None
    if any(times(claims, now)) or 0 < claims.expires <= (time.time() if now is None else now):
        return None
    if is_revoked(export.revocations, claims.subject, claims.issued_at):
        return None
    return claims
