"""`$SYS.REQ.USER.INFO`: a client asks who it is, in any account."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import msgspec

from headrace.accounts.account import Account
from headrace.accounts.authentication import Identity
from headrace.accounts.directory import Accounts
from headrace.broker.connection import ClientConnection
from headrace.broker.server_info import ServerStamp
from headrace.config.identity import SubjectRules
from headrace.config.options import Options
from headrace.engine.core.hub import Hub
from headrace.engine.core.sinks import Inbox, InboxMessage
from headrace.go_formats import NANOSECONDS

SUBJECT = b"$SYS.REQ.USER.INFO"


class UserInfo:
    """Answers in every account, unless there is no system account."""

    def __init__(self, hub: Hub, accounts: Accounts, options: Options, stamp: ServerStamp) -> None:
        self._hub = hub
        self._accounts = accounts
        self._stamp = stamp
        self._inboxes: dict[str, tuple[Account, Inbox]] = {}
        self.update(options)

    def update(self, options: Options) -> None:
        """Follow the accounts after a reload."""
        self._options = options
        for name, (account, inbox) in list(self._inboxes.items()):
            if self._accounts.get(name) is not account:
                inbox.unsubscribe_all()
                del self._inboxes[name]
        for account in self._accounts:
            self.follow(account)

    def follow(self, account: Account) -> None:
        """Answer in this one, too."""
        if self._options.system_account_name and account.name not in self._inboxes:
            inbox = Inbox(self._hub, account.interest, partial(self._receive, account))
            inbox.subscribe(SUBJECT, None, b"1")
            self._inboxes[account.name] = (account, inbox)

    def _receive(self, account: Account, messages: list[InboxMessage]) -> None:
        for message in messages:
            if message.reply and isinstance(message.publisher, ClientConnection):
                answer = {
                    "server": self._stamp.next(),
                    "data": describe_user(message.publisher.identity, account),
                }
                payload = msgspec.json.encode(answer)
                self._hub.publish(account.interest, message.reply, payload, past_shadows=True)
        self._hub.flush_soon()


def describe_user(identity: Identity, account: Account) -> dict[str, Any]:
    described: dict[str, Any] = {
        "user": identity.user,
        "account": identity.account,
        "account_name": account.title,
    }
    if identity.name:
        described["user_name"] = identity.name
    permissions = identity.permissions
    if permissions:
        shown: dict[str, Any] = {
            "publish": describe_rules(permissions.publish or SubjectRules()),
            "subscribe": describe_rules(permissions.subscribe or SubjectRules()),
        }
        if permissions.responses:
            ttl = int(permissions.responses.seconds * NANOSECONDS)
            shown["responses"] = {"max": permissions.responses.max_messages, "ttl": ttl}
        described["permissions"] = shown
    if identity.expires_at is not None:
        described["expires"] = max(int((identity.expires_at - time.time()) * NANOSECONDS), 0)
    return described


def describe_rules(rules: SubjectRules) -> dict[str, tuple[str, ...]]:
    shown = {"allow": rules.allow, "deny": rules.deny}
    return {name: subjects for name, subjects in shown.items() if subjects}
