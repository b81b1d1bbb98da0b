"""The permissions of users of a scoped signing key: a template, filled in with names and tags of the user and
of its account.

    orders.{{name()}}.>    {{tag(region)}}.{{account-name()}}

A tag may have several values: each makes a subject, and several tags make all combinations.
"""

from __future__ import annotations

import itertools
import re

import msgspec

from headrace.accounts.credentials import Refused
from headrace.keys.claims import AccountClaims, SubjectList, UserClaims, UserLimits
from headrace.subjects.grammar import is_valid_subject

MAX_EXPANSIONS = 4096
UNDEFINED = " "
"""In the place of a tag that a user does not have: it makes a subject that is not valid, and is dropped."""

_TEMPLATE = re.compile(r"\{\{([^}]+)\}\}")
_TAG = re.compile(r"(account-)?tag\((.*)\)", re.IGNORECASE)


def fill_in(template: UserLimits, user: UserClaims, account: AccountClaims) -> UserLimits:
    """The limits and permissions of this user. Raises Refused if the template is invalid."""
    filler = _Filler(user, account)
    return msgspec.structs.replace(template, pub=filler.rules(template.pub), sub=filler.rules(template.sub))


class _Filler:
    def __init__(self, user: UserClaims, account: AccountClaims) -> None:
        self._user = user
        self._account = account

    def rules(self, rules: SubjectList) -> SubjectList:
        allow = None if rules.allow is None else self._subjects(rules.allow, must_be_valid=False)
        deny = self._subjects(rules.deny, must_be_valid=True)
        if rules.allow and not allow and ">" not in deny:
            deny = [*deny, ">"]  # an empty list would allow everything
        return SubjectList(allow=allow, deny=deny)

    def _subjects(self, subjects: list[str], *, must_be_valid: bool) -> list[str]:
        """Denied subjects must all be valid: dropping one would allow it."""
        if not any(_TEMPLATE.search(subject) for subject in subjects):
            return subjects
        made: list[str] = []
        for subject in subjects:
            names = _TEMPLATE.findall(subject)
            values = [self._values(name.strip(), must_be_defined=must_be_valid) for name in names]
            count = 1
            for choices in values:
                count *= len(choices)
            if len(made) + count > MAX_EXPANSIONS:
                raise Refused("User JWT generated invalid permissions")
            for combination in itertools.product(*values):
                filled = subject
                for name, value in zip(names, combination, strict=True):
                    filled = filled.replace(f"{{{{{name}}}}}", value)
                if is_valid_subject(filled):
                    made.append(filled)
                elif must_be_valid:
                    raise Refused("User JWT generated invalid permissions")
        return made

    def _values(self, name: str, *, must_be_defined: bool) -> list[str]:
        lowered = name.lower()
        if lowered == "name()":
            return [self._user.name]
        if lowered == "subject()":
            return [self._user.subject]
        if lowered == "account-name()":
            return [self._account.name]
        if lowered == "account-subject()":
            return [self._user.nats.issuer_account]
        tag = _TAG.fullmatch(name)
        if tag is None:
            raise Refused("User JWT generated invalid permissions")
        tags = self._account.nats.tags if tag.group(1) else self._user.nats.tags
        prefix = f"{tag.group(2).lower()}:"
        values = [entry.removeprefix(prefix) for entry in tags if entry.startswith(prefix)]
        if not values and must_be_defined:
            raise Refused("User JWT generated invalid permissions")
        return values or [UNDEFINED]
