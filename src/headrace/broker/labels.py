"""Who a connection is, in log lines."""

from __future__ import annotations

from headrace.accounts.account import Account
from headrace.accounts.credentials import Identity
from headrace.broker.connect_options import ConnectOptions
from headrace.broker.listener import join_address
from headrace.broker.websocket.upgrade import WebSocketPeer
from headrace.go_formats import quote


def describe_peer(cid: int, host: str, port: int, websocket: WebSocketPeer | None) -> str:
    """Behind a proxy, the proxy reports the client's address."""
    address = join_address(host, port)
    if websocket is None:
        return f"{address} - cid:{cid}"
    if forwarded_for := websocket.forwarded_for:
        shown = f"[{forwarded_for}]" if ":" in forwarded_for else forwarded_for
        address = f"{shown}/{address}"
    return f"{address} - wid:{cid}"


def describe_client(options: ConnectOptions, identity: Identity, account: Account) -> str:
    """Its library and the name it gave itself, then account and user."""
    version = f"v{options.version}" if options.version else ""
    described = ":".join(filter(None, (version, options.lang, options.name)))
    user = _describe_user(options, identity)
    named = "/".join(filter(None, (account.name, account.options.title, user))) if user else ""
    return "".join(f" - {quote(text)}" for text in (described, named) if text)


def _describe_user(options: ConnectOptions, identity: Identity) -> str:
    """By what it has proved to be itself."""
    if identity.nkey and options.nkey:
        return f"nkey:{identity.nkey}"
    if identity.nkey and options.jwt and not options.user:
        return f"jwt:{identity.nkey}"
    if user := options.user if identity.nkey and options.user else identity.user:
        return f"user:{user}"
    return "token" if options.auth_token else ""
