"""Who may connect and what each may do, as the configuration says it: users, permissions, accounts.

Plain data. What follows from it is decided in the room `accounts`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

GLOBAL_ACCOUNT = "$G"
SYSTEM_ACCOUNT = "$SYS"
DEFAULT_RESPONSES = 1
DEFAULT_RESPONSE_SECONDS = 120.0


class SubjectRules(msgspec.Struct, frozen=True):
    """Of publish or subscribe. A rule for subscriptions may name a queue: `orders.* workers`."""

    allow: tuple[str, ...] | None = None
    """None: everything; an empty one of publish: nothing, of subscribe: everything, as in nats-server."""
    deny: tuple[str, ...] = ()


class ResponseRule(msgspec.Struct, frozen=True):
    """`allow_responses`: it may publish to the reply subjects of messages that it got."""

    max_messages: int = DEFAULT_RESPONSES  # for each; -1: any number
    seconds: float = DEFAULT_RESPONSE_SECONDS  # after the message; -1: for ever


class Permissions(msgspec.Struct, frozen=True):
    """What a user may do. None: everything."""

    publish: SubjectRules | None = None
    subscribe: SubjectRules | None = None
    responses: ResponseRule | None = None


class User(msgspec.Struct, frozen=True):
    """One entry of a `users` array, which has either a name or an nkey. The password may be a bcrypt hash."""

    user: str = ""
    password: str = ""
    nkey: str = ""
    account: str = GLOBAL_ACCOUNT
    permissions: Permissions | None = None
    """None: those of its account, or of the authorization block, by default."""
    connection_types: frozenset[str] | None = None
    """STANDARD, WEBSOCKET, ... in capital letters; None: all."""

    def __repr__(self) -> str:
        return f"User(user={self.user!r}, nkey={self.nkey!r})"  # no password must reach a log


# -- accounts


class AccountLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """`accounts { NAME { jetstream } }`: what an account's streams may use together. -1 is no limit."""

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False


class ClientLimits(msgspec.Struct, frozen=True):
    """`accounts { NAME { limits } }`: what an account's clients may do. -1 is no limit."""

    max_connections: int = -1
    max_subscriptions: int = -1
    max_payload: int = -1
    max_leafnodes: int = -1  # there are none yet


class Latency(msgspec.Struct, frozen=True):
    """Where measurements of a service are published, and how many of its requests are measured."""

    subject: str
    percent: int = 100  # 0: those whose headers ask for it


class StreamExport(msgspec.Struct, frozen=True):
    """Messages that other accounts may import."""

    subject: str
    accounts: tuple[str, ...] | None = None
    """Who may import it; None: everybody."""
    token_position: int = 0
    """The token of the subject that has to be the name of the importing account, from 1 on; 0: none."""


class ServiceExport(msgspec.Struct, frozen=True):
    """Requests that other accounts may send."""

    subject: str
    accounts: tuple[str, ...] | None = None
    token_position: int = 0
    response: Literal["singleton", "stream", "chunked"] = "singleton"
    response_threshold: float = 0.0  # seconds that an answer may take; 0: the default
    latency: Latency | None = None
    allow_trace: bool = False


class StreamImport(msgspec.Struct, frozen=True):
    """Messages of another account, under the subject `to`."""

    account: str
    subject: str
    to: str = ""  # empty: the same subject
    prefix: str = ""  # or the same subject after this
    allow_trace: bool = False


class ServiceImport(msgspec.Struct, frozen=True):
    """Requests to `to` are sent to `subject` of another account."""

    account: str
    subject: str
    to: str
    share: bool = False
    """Whether the other account learns who asked."""


class Destination(msgspec.Struct, frozen=True):
    """Where a share of the messages of a mapping goes."""

    subject: str
    weight: int = 100  # percent
    cluster: str = ""  # empty: in any


class Mapping(msgspec.Struct, frozen=True):
    """Messages to `source` are published to one of the destinations instead."""

    source: str
    destinations: tuple[Destination, ...]


class TraceOptions(msgspec.Struct, frozen=True):
    """`msg_trace`: where traces of messages with a traceparent go, and of how many of them."""

    destination: str = ""  # empty: there are none
    percent: int = 100


class AccountOptions(msgspec.Struct, frozen=True):
    """One account. Its users are among those of the server."""

    name: str
    title: str = ""
    """What its token calls it: there, `name` is a key."""
    nkey: str = ""
    jetstream: AccountLimits | None = None
    """None: it has no streams."""
    limits: ClientLimits = ClientLimits()
    default_permissions: Permissions | None = None
    stream_exports: tuple[StreamExport, ...] = ()
    service_exports: tuple[ServiceExport, ...] = ()
    stream_imports: tuple[StreamImport, ...] = ()
    service_imports: tuple[ServiceImport, ...] = ()
    mappings: tuple[Mapping, ...] = ()
    trace: TraceOptions = TraceOptions()
