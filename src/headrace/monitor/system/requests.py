"""Requests that the server answers over NATS: about itself and its accounts, and to do something.

    $SYS.REQ.SERVER.PING                        figures of the server, as STATSZ
    $SYS.REQ.SERVER.PING.<Z>                    every server answers: VARZ, CONNZ, ...
    $SYS.REQ.SERVER.<id>.<Z>                    just this one
    $SYS.REQ.SERVER.<id>.RELOAD, KICK, LDM      read the configuration again, close or warn a client
    $SYS.REQ.ACCOUNT.<account>.<Z>              about an account: CONNZ, SUBSZ, LEAFZ, JSZ, INFO, STATZ, CONNS
    $SYS.REQ.ACCOUNT.PING.STATZ                 about all of them
    $SYS.REQ.ACCOUNT.NSUBS                      how many subscriptions match a subject

All of that is in the system account, which others do not see. In every other account, clients may ask for its
own CONNZ and STATZ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from headrace.accounts.account import Account
from headrace.engine.core.sinks import Inbox, InboxMessage
from headrace.monitor.documents import Document
from headrace.monitor.endpoint import Context
from headrace.monitor.system.actions import Reload, ask_to_leave, kick, reload
from headrace.monitor.system.answers import ACCOUNT_ROUTES, OWN_ROUTES, SERVER_ROUTES, Unanswered
from headrace.monitor.system.calls import (
    Call,
    account_of,
    answer_action,
    answer_connections,
    answer_id,
    answer_route,
    answer_statsz,
    answer_subscriptions,
    client_of,
)
from headrace.monitor.system.line import Line

if TYPE_CHECKING:
    from headrace.streams.jetstream import JetStream

PING = "PING"
ALL_STATZ = "$SYS.REQ.ACCOUNT.PING.STATZ"

Handler = Callable[[InboxMessage], Document]
"""The answer to a request. Raises Unanswered."""


class SystemRequests:
    """Of one server, from `start` until `stop`."""

    def __init__(self, context: Context, *, reload: Reload, publish_statsz: Callable[[], None]) -> None:
        self._context = context
        self._broker = context.broker
        self._reload = reload
        self._publish_statsz = publish_statsz
        self._line = Line(context.broker)
        self._inboxes: dict[str, tuple[Account, bool, Inbox]] = {}

    def start(self) -> None:
        self._broker.accounts.listeners.append(self.follow)
        self.update()

    async def stop(self) -> None:
        for _, _, inbox in self._inboxes.values():
            inbox.unsubscribe_all()
        self._inboxes.clear()
        await self._line.stop()

    def show_jetstream(self, jetstream: JetStream) -> None:
        """Report on its streams from now on."""
        self._context = msgspec.structs.replace(self._context, jetstream=jetstream)

    def update(self) -> None:
        """Follow the accounts after a reload."""
        accounts = self._broker.accounts
        for name, (account, is_system, inbox) in list(self._inboxes.items()):
            if accounts.get(name) is not account or is_system != self._is_system(account):
                inbox.unsubscribe_all()
                del self._inboxes[name]
        for account in accounts:
            self.follow(account)

    def follow(self, account: Account) -> None:
        """Answer in this one, too, unless there is no system account."""
        if account.name in self._inboxes or not self._broker.options.system_account_name:
            return
        is_system = self._is_system(account)
        handlers = self._system_handlers() if is_system else self._own_handlers(account.name)
        by_sid = {b"%d" % number: handler for number, handler in enumerate(handlers.values(), 1)}
        inbox = Inbox(self._broker.hub, account.interest, partial(self._receive, account, by_sid))
        for sid, subject in zip(by_sid, handlers, strict=True):
            inbox.subscribe(subject.encode(), None, sid)
        self._inboxes[account.name] = (account, is_system, inbox)

    def _is_system(self, account: Account) -> bool:
        return account.name == self._broker.options.system_account_name

    def _receive(self, account: Account, by_sid: dict[bytes, Handler], messages: list[InboxMessage]) -> None:
        for message in messages:
            self._line.add(account, partial(by_sid[message.sid], message), message)

    # -- what is answered where

    def _own_handlers(self, name: str) -> dict[str, Handler]:
        """What the clients of an account may ask about it."""
        return {subject: partial(self._on_own, name, kind) for subject, kind in OWN_ROUTES.items()}

    def _system_handlers(self) -> dict[str, Handler]:
        handlers: dict[str, Handler] = {"$SYS.REQ.SERVER.PING": self._on_statsz}
        for server in (PING, self._broker.server_id):
            prefix = f"$SYS.REQ.SERVER.{server}."
            handlers |= {prefix + kind: partial(self._on_server, kind) for kind in SERVER_ROUTES}
            handlers |= {prefix + "STATSZ": self._on_statsz, prefix + "IDZ": self._on_id}
        handlers |= {
            prefix + "RELOAD": self._on_reload,
            prefix + "KICK": self._on_kick,
            prefix + "LDM": self._on_ldm,
        }
        handlers |= {f"$SYS.REQ.ACCOUNT.*.{kind}": partial(self._on_account, kind) for kind in ACCOUNT_ROUTES}
        handlers["$SYS.REQ.ACCOUNT.*.CONNS"] = self._on_connections
        handlers[ALL_STATZ] = self._on_all_statz
        handlers["$SYS.REQ.ACCOUNT.NSUBS"] = self._on_subscriptions
        return handlers

    def _on_own(self, account: str, kind: str, message: InboxMessage) -> Document:
        return answer_route(ACCOUNT_ROUTES[kind], Call(self._context, message, account))

    def _on_server(self, kind: str, message: InboxMessage) -> Document:
        return answer_route(SERVER_ROUTES[kind], Call(self._context, message))

    def _on_all_statz(self, message: InboxMessage) -> Document:
        return answer_route(ACCOUNT_ROUTES["STATZ"], Call(self._context, message))

    def _on_account(self, kind: str, message: InboxMessage) -> Document:
        if message.destination == ALL_STATZ.encode():
            raise Unanswered  # its own subscription answers it
        return answer_route(ACCOUNT_ROUTES[kind], Call(self._context, message, account_of(message)))

    def _on_connections(self, message: InboxMessage) -> Document:
        return answer_connections(Call(self._context, message, account_of(message)))

    def _on_subscriptions(self, message: InboxMessage) -> Document:
        return answer_subscriptions(Call(self._context, message))

    def _on_statsz(self, message: InboxMessage) -> Document:
        return answer_statsz(self._publish_statsz, Call(self._context, message))

    def _on_id(self, message: InboxMessage) -> Document:
        return answer_id(Call(self._context, message))

    def _on_reload(self, message: InboxMessage) -> Document:
        return answer_action(lambda: reload(self._reload), Call(self._context, message))

    def _on_kick(self, message: InboxMessage) -> Document:
        call = Call(self._context, message)
        return answer_action(partial(kick, self._broker, client_of(call)), call)

    def _on_ldm(self, message: InboxMessage) -> Document:
        call = Call(self._context, message)
        return answer_action(partial(ask_to_leave, self._broker, client_of(call)), call)
