"""A JetStream domain: the API under its own name, to distinguish it from the API of other servers.

With the domain `hub`, `$JS.hub.API.STREAM.INFO.A` means the same as `$JS.API.STREAM.INFO.A`, and
`$JS.hub.API.$KV.…` the same as `$KV.…`. Messages are forwarded with their reply and headers. A request that
nobody serves is answered with "no responders", as without a domain.
"""

from __future__ import annotations

from headrace.broker.internal import InternalClient
from headrace.engine.core.sinks import InboxMessage

API = b"$JS.API."
OWN_NAMESPACES = (b"$KV.", b"$OBJ.")
NO_RESPONDERS = b"NATS/1.0 503\r\n\r\n"


class DomainApi:
    """Forwards messages until the client is closed."""

    def __init__(self, domain: str, client: InternalClient) -> None:
        self._client = client
        self._prefix = b"$JS." + domain.encode() + b".API."
        client.subscribe(self._prefix + b">", self._pass_on)

    def _pass_on(self, message: InboxMessage) -> None:
        rest = message.subject.removeprefix(self._prefix)
        subject = rest if rest.startswith(OWN_NAMESPACES) else API + rest
        delivered = self._client.publish(
            subject, message.payload, reply=message.reply, headers=message.headers
        )
        if not delivered and message.reply:
            self._client.publish(message.reply, headers=NO_RESPONDERS)
