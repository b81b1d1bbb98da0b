"""What somebody sees and may do.

Everybody sees the account of its user. An operator, who is in the system account or uses a server without
users, sees all accounts. What a user asks for is a request of the JetStream API or another subject, and its
permissions apply to that subject as if it had published it itself; so they do to what it looks at.
"""

from __future__ import annotations

import msgspec

from headrace.accounts.account import Account
from headrace.accounts.credentials import Identity
from headrace.broker.broker import Broker
from headrace.broker.permissions import may_subscribe, refusal
from headrace.go_formats import quote
from headrace.monitor.console.refusal import forbidden, not_found
from headrace.subjects.grammar import encode

READ_ONLY = "You can look, but not change anything: the configuration lists your user as read-only."


class Viewer(msgspec.Struct, frozen=True):
    broker: Broker
    identity: Identity

    @property
    def is_operator(self) -> bool:
        broker = self.broker
        is_open = not broker.options.auth_required
        return is_open or self.identity.account == broker.accounts.system_name

    @property
    def sees_server(self) -> bool:
        """Whether it sees the figures of the whole server: where there is one account, they are its own."""
        options = self.broker.options
        has_one_account = not options.accounts and not options.trust.is_operator_mode
        return self.is_operator or (has_one_account and self.identity.permissions is None)

    @property
    def is_read_only(self) -> bool:
        listed = self.broker.options.console.read_only
        return any(name and name in listed for name in (self.identity.user, self.identity.nkey))

    @property
    def user(self) -> str:
        return self.identity.name or self.identity.user

    # -- accounts

    def accounts(self) -> list[Account]:
        """Those that it sees, its own first."""
        accounts = self.broker.accounts
        own = accounts.get(self.identity.account)
        others = [account for account in accounts if account is not own] if self.is_operator else []
        return [*([own] if own else []), *others]

    def listed_accounts(self) -> list[Account]:
        """Those to choose from: a system account that nobody uses is not worth a choice."""
        system, own = self.broker.accounts.system_name, self.identity.account
        return [one for one in self.accounts() if one.name != system or one.name == own or one.connections]

    def account(self, name: str) -> Account:
        """The one of this name. Raises Refusal, whether it is another's or does not exist."""
        for account in self.accounts():
            if account.name == name:
                return account
        raise not_found(f"There is no account {quote(name)} that you can see.")

    # -- permissions

    def may_publish(self, subject: str) -> bool:
        permissions = self.broker.permission_sets.of(self.identity.permissions)
        return permissions is None or permissions.may_publish(encode(subject))

    def check_publish(self, subject: str) -> None:
        """Raises Refusal, in the words that a NATS client would get."""
        if not self.may_publish(subject):
            raise forbidden(f"Permissions Violation for Publish to {quote(subject)}")

    def check_subscribe(self, subject: str) -> None:
        """Raises Refusal, in the words that a NATS client would get."""
        permissions = self.broker.permission_sets.of(self.identity.permissions)
        if not may_subscribe(permissions, encode(subject), None):
            raise forbidden(refusal(encode(subject), None))

    def check_may_change(self) -> None:
        """Raises Refusal for the read-only role."""
        if self.is_read_only:
            raise forbidden(READ_ONLY)
