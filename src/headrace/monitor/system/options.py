"""The bodies of requests to the system account, with the names and types of nats-server.

Every request may say which servers are to answer it; the others, and perhaps this one, stay silent.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from headrace.config.options import Options
from headrace.streams.config import Wire
from headrace.streams.wire_types import SIGNED_64, Duration, Int, Number, Text, Uint64

ConnState = Annotated[int, Number("server.ConnState", *SIGNED_64)]
SortOption = Annotated[str, Text("server.SortOpt")]


class EventFilterOptions(Wire):
    """Which servers are to answer."""

    server_name: str = ""
    cluster: str = ""
    host: str = ""
    exact_match: bool = False
    tags: list[str] = msgspec.field(default_factory=list)
    domain: str = ""

    def includes(self, options: Options, server_id: str) -> bool:
        """Whether a server with these options is among them. It is in no cluster."""
        name = options.server_name or server_id
        for wanted, actual in ((self.server_name, name), (self.host, options.host), (self.cluster, "")):
            if wanted and (wanted != actual if self.exact_match else wanted not in actual):
                return False
        own = {tag.strip().lower() for tag in options.tags}
        if any(tag.strip().lower() not in own for tag in self.tags):
            return False
        return self.domain in ("", options.jetstream_domain)


class VarzEventOptions(EventFilterOptions):
    """/varz has no options."""


class StatszEventOptions(EventFilterOptions):
    """STATSZ has no options."""


class ExpvarzEventOptions(EventFilterOptions):
    """EXPVARZ has no options."""


class AccInfoEventOptions(EventFilterOptions):
    """INFO has no options."""


class ConnzEventOptions(EventFilterOptions):
    sort: SortOption = ""
    auth: bool = False
    subscriptions: bool = False
    subscriptions_detail: bool = False
    offset: Int = 0
    limit: Int = 0
    cid: Uint64 = 0
    mqtt_client: str = ""
    state: ConnState = 0
    user: str = ""
    acc: str = ""
    filter_subject: str = ""


class SubszEventOptions(EventFilterOptions):
    offset: Int = 0
    limit: Int = 0
    subscriptions: bool = False
    account: str = ""
    test: str = ""


class RoutezEventOptions(EventFilterOptions):
    subscriptions: bool = False
    subscriptions_detail: bool = False


class GatewayzEventOptions(EventFilterOptions):
    name: str = ""
    accounts: bool = False
    account_name: str = ""
    subscriptions: bool = False
    subscriptions_detail: bool = False


class LeafzEventOptions(EventFilterOptions):
    subscriptions: bool = False
    account: str = ""


class AccountzEventOptions(EventFilterOptions):
    account: str = ""


class AccountStatzEventOptions(EventFilterOptions):
    accounts: list[str] = msgspec.field(default_factory=list)
    include_unused: bool = False


class JszEventOptions(EventFilterOptions):
    account: str = ""
    accounts: bool = False
    streams: bool = False
    consumer: bool = False
    direct_consumer: bool = False
    config: bool = False
    leader_only: bool = False
    offset: Int = 0
    limit: Int = 0
    raft: bool = False
    stream_leader_only: bool = False


class HealthzEventOptions(EventFilterOptions):
    js_enabled: bool = msgspec.field(name="js-enabled", default=False)
    js_enabled_only: bool = msgspec.field(name="js-enabled-only", default=False)
    js_server_only: bool = msgspec.field(name="js-server-only", default=False)
    js_meta_only: bool = msgspec.field(name="js-meta-only", default=False)
    account: str = ""
    stream: str = ""
    consumer: str = ""
    details: bool = False


class ProfilezEventOptions(EventFilterOptions):
    name: str = ""
    debug: Int = 0
    duration: Duration = 0


class IpqueueszEventOptions(EventFilterOptions):
    all: bool = False
    filter: str = ""


class RaftzEventOptions(EventFilterOptions):
    account: str = ""
    group: str = ""


class ClientRequest(Wire):
    """KICK and LDM."""

    cid: Uint64 = 0


class SubscriptionsRequest(Wire):
    """NSUBS. The queue group is in base64; without one, all subscriptions count."""

    acc: str = ""
    subject: str = ""
    queue: str | None = None


class ConnectionsRequest(Wire):
    """CONNS. Whoever asks may repeat the account of the subject."""

    acc: str | None = None
